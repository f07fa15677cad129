"""Ten nights through Airflow: a backfill under a real scheduler, with all that follows it by assets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import sqlalchemy
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CatalogNotFoundError
from hipslake.tables.iceberg.catalogs import find_table

from tests.soak.chain import Chain
from tests.soak.gauges import MIB, disk, orphans
from tests.soak.nights import FIRST, land, seen
from tests.soak.page import note_ten_nights
from tests.stores.postgres import find_postgres, running_postgres
from tests.system.standalone import Standalone, standalone

pytestmark = pytest.mark.slow
NIGHTS = 10
CHAIN = (
    "catalog_ingest__stars",
    "catalog_compact__stars",
    "iceberg_sink__stars",
    "table_compact__stars_clustered",
    "catalog_crossmatch__stars_x_bright",
    "cube_align__sky",
)
VACUUMS = (
    "catalog_vacuum__stars",
    "catalog_vacuum__stars_x_bright",
    "catalog_vacuum__joined",
    "table_vacuum__stars",
    "cube_cleanup__sky",
)
_ALL_SECONDS, _LOOK_SECONDS = 1500, 5
_MORE_FILES = 40
"""So many more open files than at the first look all services may have: connections come and go."""


class Nights:
    """A chain whose nights Airflow runs."""

    def __init__(self, place: Path) -> None:
        self.chain = Chain(place, ThisProcess(2), objects=3000, rows=100)
        self.chain.begin()
        for number in range(NIGHTS):
            rows = seen(self.chain.sky, number, self.chain.rows)
            land(place / "landing", number, rows)
            self.chain.landed.append(rows)
        spec = self.chain.spec("catalogs/stars")
        spec.write_text(spec.read_text() + 'schedule: "0 0 * * *"\n')

    def are_done(self) -> bool:
        """Whether all that follows the nights has caught up with them."""
        observed = sum(rows.num_rows for rows in self.chain.landed)
        last = pa.concat_tables(self.chain.landed).group_by("object").aggregate([("observation", "max")])
        try:
            joined = Catalog.open(self.chain.catalog("joined")).metadata.total_rows
            cube = Cube.open(self.chain.cube).metadata.dataset("matched").rows
            matched = Catalog.open(self.chain.catalog("stars_x_bright")).metadata.total_rows
        except CatalogNotFoundError:
            return False
        with self.chain.iceberg() as iceberg:
            table = find_table(iceberg, "survey.stars")
            sunk = table.scan(selected_fields=("observation",)).to_arrow() if table is not None else None
        newest = sorted(last["observation_max"].to_pylist())
        return (
            joined == observed
            and cube == matched
            and matched == sum((rows["object"].to_numpy() % 10 == 0).sum() for rows in self.chain.landed)
            and sunk is not None
            and sorted(sunk["observation"].to_pylist()) == newest
        )


def test_ten_nights_leave_nothing_behind(tmp_path: Path) -> None:
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    start = time.monotonic()
    nights = Nights(tmp_path)
    folders = {
        "HIPSLAKE_SPECS": str(tmp_path / "specs"),
        "HIPSLAKE_WAREHOUSE": str(nights.chain.warehouse),
        "HIPSLAKE_STATE": str(tmp_path / "state"),
    }
    with (
        running_postgres(programs) as database,
        standalone(tmp_path, **folders, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database) as airflow,
        connected(database) as asked,
    ):
        unpause = " && ".join(f"airflow dags unpause --yes {dag}" for dag in CHAIN)
        airflow.run(f"airflow dags reserialize && {unpause}")
        before = services(tmp_path)
        first, last = (FIRST + timedelta(days=day) for day in (0, NIGHTS - 1))
        airflow.run(
            f"airflow backfill create --dag-id {CHAIN[0]} --from-date {first:%Y-%m-%d} "
            f"--to-date {last:%Y-%m-%d} --max-active-runs 1 --dag-run-conf '{{\"wait_minutes\": 0}}'"
        )
        patient_until(lambda: asked.ended(CHAIN[0]) == NIGHTS and nights.are_done(), what="the chain")
        patient_until(lambda: asked.going_on() == 0, what="the end of all runs")
        vacuum(airflow, asked)
        after = services(tmp_path)
        assert asked.failed() == []
        runs, size = asked.runs(), asked.bytes()
    nights.chain.nights = NIGHTS
    nights.chain.check()
    assert orphans(nights.chain) == []
    assert after["open files"] <= before["open files"] + _MORE_FILES
    counts = {
        "runs that ended well": runs,
        "database, MiB": size / MIB,
        "open files of Airflow": after["open files"],
        "memory of Airflow, MiB": after["memory, MiB"],
        "orphans": 0,
        **disk(nights.chain),
        "minutes": (time.monotonic() - start) / 60,
    }
    note_ten_nights(counts)


def vacuum(airflow: Standalone, asked: Asked) -> None:
    """Have all that is old taken away."""
    conf = json.dumps({"dry_run": False, "keep_versions": 3, "keep_days": 0})
    for dag in VACUUMS:
        airflow.run(f"airflow dags unpause --yes {dag} && airflow dags trigger {dag} --conf '{conf}'")
    patient_until(lambda: all(asked.ended(dag) == 1 for dag in VACUUMS), what="the vacuums")


class Asked:
    """Airflow's database."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        self._engine = engine

    def ended(self, dag: str) -> int:
        """How many runs of a DAG, asked for by hand or by a backfill, have ended well."""
        return self._one(
            "select count(*) from dag_run where dag_id = :dag and state = 'success' "
            "and run_type in ('backfill', 'manual')",
            dag=dag,
        )

    def going_on(self) -> int:
        """How many runs go on, but for that of the schedule, which waits for a night that does not come."""
        return self._one(
            "select count(*) from dag_run where state in ('running', 'queued') and run_type != 'scheduled'"
        )

    def failed(self) -> list[tuple[str, str]]:
        with self._engine.connect() as connection:
            query = "select dag_id, run_id from dag_run where state = 'failed'"
            return [(row[0], row[1]) for row in connection.execute(sqlalchemy.text(query))]

    def runs(self) -> int:
        return self._one("select count(*) from dag_run where state = 'success'")

    def bytes(self) -> int:
        return self._one("select pg_database_size(current_database())")

    def _one(self, query: str, **given: str) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text(query), given).scalar_one())


@contextmanager
def connected(database: str) -> Iterator[Asked]:
    engine = sqlalchemy.create_engine(database)
    try:
        yield Asked(engine)
    finally:
        engine.dispose()


def services(place: Path) -> dict[str, float]:
    """Open files and memory of all of Airflow's processes that live as long as it does."""
    leader = json.loads((place / "airflow" / "standalone.json").read_text())["pid"]
    family = psutil.Process(leader).children(recursive=True)
    found = {"open files": 0.0, "memory, MiB": 0.0}
    for each in family:
        try:
            found["open files"] += each.num_fds()
            found["memory, MiB"] += each.memory_full_info().uss / MIB
        except psutil.NoSuchProcess:
            continue
    return found


def patient_until(condition: Callable[[], bool], *, what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + _ALL_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {_ALL_SECONDS} s"
        time.sleep(_LOOK_SECONDS)
