"""`make demo-ingest`: ingest three catalogs of real stars through Airflow and Spark, and say what came out.

`python -m hipslake_demo.ingest` runs in the environment of include/setup/environment.sh, on a migrated
Airflow.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from hipslake.specs.environment import expand

from hipslake_demo.command import DagRunError, exit_code, say
from hipslake_demo.landing import write_landing
from hipslake_demo.outcome import Outcome, outcome_of, why_it_failed
from hipslake_demo.summary import how_to_open, reuse, table

CATALOGS = ("gaia_dr3", "hipparcos", "hipparcos_hats")
_TASK_STARTS = re.compile(r"\[DAG TEST\] starting task_id=(\w+)")


def run_ingests() -> list[Outcome]:
    """Write the landing folder, run the three DAGs one after the other, and print what came out.

    Raises
    ------
    DagRunError
        If a DAG run fails; the message holds why.
    HipslakeError
        If the landing folder cannot be written, or the result cannot be read.
    """
    landing, warehouse = expand("${HIPSLAKE_LANDING}"), expand("${HIPSLAKE_WAREHOUSE}")
    written = write_landing(landing)
    new = sum(written.values())
    say(f"landing folder {landing}: {new} files written, {len(written) - new} reused")
    outcomes = []
    for catalog in CATALOGS:
        dag_id = f"catalog_ingest__{catalog}"
        start = time.monotonic()
        run_dag(dag_id, warehouse)
        outcome = outcome_of(warehouse, dag_id, catalog, seconds_now=time.monotonic() - start)
        say(reuse(outcome))
        outcomes.append(outcome)
    print(f"\n{table(outcomes)}\n")
    print("\n\n".join(how_to_open(outcome) for outcome in outcomes))
    return outcomes


def run_dag(dag_id: str, warehouse: str) -> None:
    """Run a DAG with `airflow dags test`; its log goes to a file, its tasks are named as they start.

    Raises
    ------
    DagRunError
        If the run fails.
    """
    log_file = Path(os.environ["AIRFLOW_HOME"]) / "logs" / "demo" / f"{dag_id}.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    say(f"{dag_id} is running (log: {log_file})")
    command = ["airflow", "dags", "test", dag_id]
    with (
        log_file.open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process,
    ):
        for line in process.stdout or ():
            log.write(line)
            log.flush()
            task = _TASK_STARTS.search(line.decode(errors="replace"))
            if task:
                print(f"  {task[1]}", flush=True)
    if process.returncode:
        why = why_it_failed(warehouse, dag_id, log_file.read_text(errors="replace").splitlines())
        raise DagRunError(f"{dag_id} failed: {why}\nlog: {log_file}")


if __name__ == "__main__":
    sys.exit(exit_code(run_ingests))
