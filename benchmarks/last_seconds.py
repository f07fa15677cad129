"""Where the seconds of a small ingest go until its asset event, and what DAG files cost: `make bench-last`.

A quiet Airflow is started as `make up` starts it, in a folder of its own, and the demo's Gaia catalog is
ingested again and again: with the executor and the scheduler as Airflow has them, as `make up` sets them,
with the Spark session that stands, and without Spark. For the median run a table tells every second of every
task. Then the DAG processor parses the DAG files of many specs, one round at a time.

    python -m benchmarks.last_seconds                 five runs of each; the page is kept
    python -m benchmarks.last_seconds --runs 1        it is only printed
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from hipslake_cluster.processes import Background
from hipslake_demo.landing import write_landing
from hipslake_demo.scheduler import Scheduler

from benchmarks import last_seconds_parsing, machine
from benchmarks.last_seconds_tasks import COLUMNS, TaskSeconds, seconds_of_run
from benchmarks.processes import ROOT

RUNS = 5
KEPT = ROOT / "docs" / "benchmarks" / "last_seconds.md"
SPEC = ROOT / "include" / "specs" / "catalogs" / "gaia_dr3.yaml"
CHANGED_OF, CHANGED_IN = 300, (1, 15)  # specs, and the numbers of folders that they lie in
ALWAYS_SPARK = "spark_above_bytes: 0"
DAG = "catalog_ingest__gaia_dr3"
SETUP = ROOT / "include" / "setup"
AS_AIRFLOW = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "HIPSLAKE_SPARK_SESSION": "",
}


@dataclass(frozen=True)
class Way:
    """One way to ingest."""

    name: str
    given: Mapping[str, str]
    spark: bool = True
    bar: float | None = None  # seconds from trigger to asset event


WAYS = (
    Way("Airflow's executor and pauses, Spark started twice", AS_AIRFLOW),
    Way("`make up`, Spark started twice", {"HIPSLAKE_SPARK_SESSION": ""}, bar=18.0),
    Way("`make up`, with the session that stands", {}, bar=10.0),
    Way("`make up`, without Spark", {"HIPSLAKE_SPARK_SESSION": ""}, spark=False),
)


@dataclass(frozen=True)
class Ingest:
    """One run: seconds from trigger to asset event, processor seconds until its end, and its tasks."""

    seconds: float
    processor: float
    tasks: list[TaskSeconds]
    load: float


def environment_of(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that `make` has, for an Airflow in a folder."""
    chosen = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")} | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "HIPSLAKE_LANDING": str(folder / "landing"),
        "HIPSLAKE_WAREHOUSE": str(folder / "warehouse"),
        "HIPSLAKE_STATE": str(folder / "state"),
        "HIPSLAKE_SPECS": str(folder / "specs"),
        "HIPSLAKE_PORT": os.environ.get("HIPSLAKE_BENCH_PORT", "18640"),
        **given,
    }
    command = ["bash", "-euc", 'source "$1"; env -0', "bash", str(SETUP / "environment.sh")]
    done = subprocess.run(command, env=chosen, capture_output=True, text=True, check=True)
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


@contextmanager
def airflow(folder: Path, given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start Airflow with its database; its environment."""
    environment = with_database(folder, given)
    script = [sys.executable, str(SETUP / "standalone.py")]
    subprocess.run([*script, "up"], env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        yield environment
    finally:
        subprocess.run([*script, "down"], env=environment, check=True, stdout=subprocess.DEVNULL)


def with_database(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an Airflow whose database is up."""
    script = [str(SETUP / "setup.sh"), "database"]
    subprocess.run(script, env=environment_of(folder, given), check=True, stdout=subprocess.DEVNULL)
    return environment_of(folder, given)


def ingests(folder: Path, way: Way, runs: int) -> list[Ingest]:
    """Ingest as often as asked for, after one that is not counted."""
    spec = folder / "specs" / "catalogs" / SPEC.name
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text("".join(line for line in SPEC.open() if way.spark or ALWAYS_SPARK not in line))
    with airflow(folder, way.given) as environment:
        os.environ.update({name: environment[name] for name in ("AIRFLOW_HOME", "AIRFLOW__API__BASE_URL")})
        scheduler = Scheduler.of_environment()
        scheduler.unpause(DAG)
        wait_for_session(environment)
        return [ingest(scheduler, environment) for _ in range(runs + 1)][1:]


def wait_for_session(environment: Mapping[str, str], seconds: float = 120.0) -> None:
    """Wait until the Spark session stands, if one was started: a deployment has long had one."""
    log = Path(environment["AIRFLOW_HOME"], "session.log")
    end = time.monotonic() + seconds
    while log.exists() and "stands at" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.5)


def ingest(scheduler: Scheduler, environment: Mapping[str, str]) -> Ingest:
    """Start a run by hand and wait for its end."""
    load, before, since = os.getloadavg()[0], processor_seconds(environment), datetime.now(UTC)
    run_id = scheduler.trigger(DAG, {"force": True})
    while True:
        found = [run for run in scheduler.runs(since.replace(microsecond=0)) if run.run_id == run_id]
        if found and found[0].has_ended:
            break
        time.sleep(0.5)
    if found[0].state != "success":
        raise SystemExit(f"{DAG} {run_id} ended as {found[0].state}")
    processor = processor_seconds(environment) - before
    seconds, tasks = seconds_of_run(environment, DAG, run_id, since)
    return Ingest(seconds, processor, tasks, load)


def processor_seconds(environment: Mapping[str, str]) -> float:
    """Processor seconds of Airflow, its database and the Spark session, and of what they have waited for."""
    home = Path(environment["AIRFLOW_HOME"])
    found = [
        Background(home, f"{home}#standalone", record="standalone.json"),
        Background(home, f"{home}#session", record="session.json"),
        Background(home / "postgres", f"{home}#postgres", record="server.json"),
    ]
    total = 0.0
    for process in {process for each in found for process in each.family()}:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def median_run(runs: list[Ingest]) -> Ingest:
    """The run in the middle, by its seconds."""
    return sorted(runs, key=lambda run: run.seconds)[(len(runs) - 1) // 2]


def page(
    outcome: list[tuple[Way, list[Ingest]]],
    rounds: list[last_seconds_parsing.Round],
    changes: list[last_seconds_parsing.Change],
) -> tuple[str, bool]:
    """The outcome as Markdown, and whether the bars are met."""
    about = machine.describe(sys.executable, peers=())
    lines = [
        "# The last seconds",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {about['processor']}, {about['cores']} cores, "
        f"{about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}, Python {about['python']}. "
        "Made by `make bench-last`.",
        "",
        "Gaia's 482,176 stars of the demo, 48 leaves, ingested by a quiet Airflow: seconds from the trigger "
        "to the asset event. *Processor* is that of all processes of Airflow, its database and Spark until "
        "the run's end, as the median of the runs. *Load* is that of the machine before each run: beyond the "
        "number of its cores, there was not enough for all who wanted some.",
        "",
        "| | runs | least | median | most | bar | processor | load |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    met = True
    for way, runs in outcome:
        seconds = [run.seconds for run in runs]
        middle = statistics.median(seconds)
        met &= way.bar is None or middle <= way.bar
        loads = [run.load for run in runs]
        bar = f"{way.bar:.0f}" if way.bar else ""
        lines.append(
            f"| {way.name} | {len(runs)} | {min(seconds):.1f} | {middle:.1f} | {max(seconds):.1f} | {bar} "
            f"| {statistics.median(run.processor for run in runs):.1f} "
            f"| {min(loads):.1f} to {max(loads):.1f} |"
        )
    for way, runs in outcome:
        lines += ["", f"## {way.name.replace('`', '')}", "", *table_of(median_run(runs))]
    lines += ["", *last_seconds_parsing.table(rounds)]
    lines += ["", *last_seconds_parsing.table_of_changes(changes)]
    met &= last_seconds_parsing.is_met(rounds)
    return "\n".join(lines) + "\n", met


def table_of(run: Ingest) -> list[str]:
    """Every second of a run: a line for each task, whose numbers make up the time since the task before."""
    lines = [f"| task | {' | '.join(COLUMNS)} | all |", "|---|" + "---:|" * (len(COLUMNS) + 1)]
    for task in run.tasks:
        cells = [f"{task.seconds[name]:.2f}" if task.seconds[name] else "" for name in COLUMNS]
        lines.append(f"| {task.name} | {' | '.join(cells)} | {task.whole:.2f} |")
    sums = [f"{sum(task.seconds[name] for task in run.tasks):.2f}" for name in COLUMNS]
    lines.append(f"| **all** | {' | '.join(sums)} | **{sum(task.whole for task in run.tasks):.2f}** |")
    return lines


def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a bar is missed."""
    folder: Path = options.folder / "last_seconds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_landing(folder / "landing")
    outcome = []
    for way in WAYS:
        outcome.append((way, ingests(folder, way, options.runs)))
        seconds = ", ".join(f"{run.seconds:.1f}" for run in outcome[-1][1])
        print(f"{way.name}: {seconds} s", flush=True)
    environment = with_database(folder, {})
    try:
        rounds = last_seconds_parsing.measured(folder, environment, options.specs)
        changes = last_seconds_parsing.changes(folder, environment, CHANGED_OF, CHANGED_IN)
    finally:
        script = [sys.executable, str(SETUP / "standalone.py"), "down"]
        subprocess.run(script, env=environment, check=True, stdout=subprocess.DEVNULL)
    text, met = page(outcome, rounds, changes)
    print(text)
    if options.page or options.runs == RUNS:
        KEPT.write_text(text)
    shutil.rmtree(folder)
    return 0 if met else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each way (default: {RUNS})")
    parser.add_argument(
        "--specs", type=int, nargs="*", default=[20, 200, 1000], help="numbers of specs to parse"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="where the data lie")
    parser.add_argument("--page", action="store_true", help="keep the page, whatever was measured")
    sys.exit(main(parser.parse_args()))
