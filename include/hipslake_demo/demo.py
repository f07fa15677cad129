"""`make demo`: three catalogs of real stars, one of others, and what follows them, under a real scheduler.

Four DAGs are started by hand: the ingests, and the one that adopts the catalog of others. What they publish
starts the others: two cross-matches, a table, its compaction, a cube. Then Gaia is ingested again, in smaller
partitions, and each of the others follows.
`python -m hipslake_demo.demo` runs in the environment of include/setup/environment.sh, on a migrated Airflow.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from hipslake.api.catalog import Catalog
from hipslake.cube.store.layout import cube_uri
from hipslake.errors import CatalogNotFoundError, VersionNotFoundError
from hipslake.specs.environment import expand
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.run import RUNS, catalog_uri
from hipslake.tables.iceberg.catalogs import open_catalog, open_table

from hipslake_demo.command import DagRunError, exit_code, say
from hipslake_demo.landing import write_landing
from hipslake_demo.nearby import write_nearby
from hipslake_demo.outcome import Outcome, outcome_of, why_it_failed
from hipslake_demo.scheduler import Run, Scheduler, running
from hipslake_demo.summary import aligned, cube_at, how_to_open, reuse, table, table_of_iceberg

INGESTS = ("catalog_ingest__gaia_dr3", "catalog_ingest__hipparcos", "catalog_ingest__hipparcos_hats")
ADOPTION = "catalog_adopt__nearby_stars"
BY_HAND = (*INGESTS, ADOPTION)
MATCHES = ("catalog_crossmatch__gaia_x_hipparcos", "catalog_crossmatch__gaia_x_nearby")
FOLLOWERS = (
    *MATCHES,
    "iceberg_sink__gaia_dr3",
    "table_compact__gaia_dr3_clustered",
    "cube_align__sky",
)
CATALOGS = {dag: dag.split("__")[1] for dag in (*BY_HAND, *MATCHES)}
"""The catalogs that the chain publishes, by the DAGs that do."""
AGAIN, SMALLER = INGESTS[0], {"threshold": "5000 rows"}
"""What is started again, once the chain has ended, and with which params."""

_PARSED_WITHIN = 180.0  # seconds for the DAG files to be read
_ENDS_WITHIN = 1200.0  # seconds for the chain, on a slow machine
_QUIET = 15.0  # seconds without a run: the scheduler has made all that events ask for
_TICK = 2.0


def run_demo() -> list[Outcome]:
    """Write the landing folder, run the chain, and print what came out.

    Raises
    ------
    DagRunError
        If a run fails; the message holds why. Or the table does not have the rows of its catalog.
    SchedulerError
        If Airflow does not start or answer.
    HipslakeError
        If the landing folder cannot be written, or the result cannot be read.
    """
    landing, warehouse = expand("${HIPSLAKE_LANDING}"), expand("${HIPSLAKE_WAREHOUSE}")
    written = write_landing(landing) | write_nearby(landing)
    new = sum(written.values())
    say(f"landing folder {landing}: {new} files written, {len(written) - new} reused")
    since = datetime.now(UTC).replace(microsecond=0)  # runs say whole seconds
    with running() as scheduler:
        runs = run_chain(scheduler, warehouse)
        chain = [[run.dag_id, started_by(scheduler, run), run.state, f"{run.seconds:.1f}"] for run in runs]
    outcomes = []
    for dag_id, catalog in CATALOGS.items():
        seconds = sum(run.seconds for run in runs if run.dag_id == dag_id)
        outcomes.append(outcome_of(warehouse, dag_id, catalog, seconds_now=seconds, since=since))
        say(reuse(outcomes[-1]))
    print(f"\n{aligned([['DAG', 'started by', 'state', 'seconds'], *chain], left=3)}\n")
    print(f"{table(outcomes)}\n")
    spec = load_spec(Path(expand("${HIPSLAKE_SPECS}")) / "tables" / "gaia_dr3.yaml", TableSpec)
    check_table(spec, warehouse)
    places = [how_to_open(outcome) for outcome in outcomes]
    places.append(table_of_iceberg(spec, warehouse))
    places.append(cube_at(cube_uri(warehouse, "sky")))
    print("\n\n".join(places))
    return outcomes


def run_chain(scheduler: Scheduler, warehouse: str) -> list[Run]:
    """Start the ingests and the adoption, and follow the chain; then again from Gaia, in smaller partitions.

    Where an earlier demo has left it so, there is nothing to do a second time.

    Returns
    -------
    list of Run
        In the order of their start.
    """
    since = datetime.now(UTC)
    _until(
        lambda: all(map(scheduler.knows, (*BY_HAND, *FOLLOWERS))), _PARSED_WITHIN, "DAG files were not read"
    )
    for dag_id in (*FOLLOWERS, *BY_HAND):
        scheduler.unpause(dag_id)
    told: set[tuple[str, str, str]] = set()
    was_again = _is_smaller(warehouse)
    for dag_id in BY_HAND:
        scheduler.trigger(dag_id, SMALLER if dag_id == AGAIN and was_again else {})
    runs = _followed(scheduler, warehouse, since, told, until_all_ran=not was_again)
    if was_again:
        return runs
    say(f"{AGAIN} is started again, with {SMALLER}")
    scheduler.trigger(AGAIN, SMALLER)
    return _followed(scheduler, warehouse, since, told)


def check_table(spec: TableSpec, warehouse: str) -> None:
    """Look whether the table has the stars of the newest version of its catalog, each once.

    Raises
    ------
    DagRunError
        It has others.
    """
    catalog = Catalog.open(catalog_uri(warehouse, CATALOGS[AGAIN]))
    stars = catalog.read(columns=["source_id"]).select(["source_id"])
    with closing(open_catalog(spec.iceberg, warehouse)) as iceberg:
        rows = open_table(iceberg, spec.table).scan(selected_fields=("source_id",)).to_arrow()
    if not rows.sort_by("source_id")["source_id"].equals(stars.sort_by("source_id")["source_id"]):
        raise DagRunError(
            f"table {spec.table} has {rows.num_rows:,} rows, which are not the {stars.num_rows:,} of version "
            f"{catalog.version} of {catalog.name}"
        )


def _is_smaller(warehouse: str) -> bool:
    """Whether Gaia stands in the smaller partitions."""
    try:
        catalog = Catalog.open(catalog_uri(warehouse, CATALOGS[AGAIN]))
    except (CatalogNotFoundError, VersionNotFoundError):
        return False
    return all(str(group.threshold) == SMALLER["threshold"] for group in catalog.metadata.groups)


def _followed(
    scheduler: Scheduler,
    warehouse: str,
    since: datetime,
    told: set[tuple[str, str, str]],
    *,
    until_all_ran: bool = False,
) -> list[Run]:
    """Follow the runs that were made since a time, until there is none to wait for; these, by their start.

    Where they only need to have run, all DAGs of the chain, nobody waits for what else events may ask for.
    """
    quiet_since, end = time.monotonic(), time.monotonic() + _ENDS_WITHIN
    while True:
        runs = [run for run in scheduler.runs(since) if run.dag_id in (*BY_HAND, *FOLLOWERS)]
        _tell(scheduler, runs, told)
        if failed := [run for run in runs if run.state == "failed"]:
            raise DagRunError(
                f"{failed[0].dag_id} failed: {why_it_failed(warehouse, failed[0].dag_id)}\n"
                f"reports: {warehouse}/{RUNS}/{failed[0].dag_id}/"
            )
        if not all(run.has_ended for run in runs):
            quiet_since = time.monotonic()
        elif until_all_ran and {run.dag_id for run in runs} == {*BY_HAND, *FOLLOWERS}:
            return runs
        if time.monotonic() - quiet_since > _QUIET:
            return runs
        if time.monotonic() > end:
            going = ", ".join(run.dag_id for run in runs if not run.has_ended)
            raise DagRunError(f"the chain did not end within {_ENDS_WITHIN:.0f} s; still running: {going}")
        time.sleep(_TICK)


def started_by(scheduler: Scheduler, run: Run) -> str:
    """What started a run: the assets, or hands."""
    return ", ".join(scheduler.started_by(run)) if run.kind == "asset_triggered" else "hand"


def _tell(scheduler: Scheduler, runs: Iterable[Run], told: set[tuple[str, str, str]]) -> None:
    """Print each task once, as it has ended, and each run once, as it has started."""
    for run in runs:
        if (run.dag_id, run.run_id, "") not in told:
            told.add((run.dag_id, run.run_id, ""))
            say(f"{run.dag_id}, started by {started_by(scheduler, run)}")
        if (run.dag_id, run.run_id, run.state) in told:
            continue
        for task, state in scheduler.tasks(run).items():
            key = (run.dag_id, run.run_id, f"task {task}")
            if state in ("success", "skipped", "failed") and key not in told:
                told.add(key)
                print(f"  {run.dag_id}  {task}: {state}", flush=True)
        if run.has_ended:
            told.add((run.dag_id, run.run_id, run.state))


def _until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise DagRunError(f"{otherwise} within {seconds:.0f} s; see the log of `make up`")
        time.sleep(_TICK)


if __name__ == "__main__":
    sys.exit(exit_code(run_demo))
