"""What the deployment is at while it is disturbed: an ingest of Gaia, and a backfill of nights."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake_cluster.postgres import find_postgres

from tests.airflow_home import PROJECT
from tests.steps.nights import FIRST, SPEC, night_rows
from tests.system.agreeing import difference
from tests.trust.deployment import BUCKET, Deployment, running_deployment
from tests.trust.waiting import until

GAIA, STARS = "gaia_dr3", "stars"
_LOOK_SECONDS = 5
_END_SECONDS = 3600


def write_specs(folder: Path) -> None:
    """Write the specs of both catalogs."""
    catalogs = folder / "catalogs"
    catalogs.mkdir(parents=True)
    gaia = PROJECT / "include" / "specs" / "catalogs" / f"{GAIA}.yaml"
    (catalogs / gaia.name).write_text(gaia.read_text())
    stars = SPEC.format(
        landing="${HIPSLAKE_LANDING}/stars", threshold="300 rows", layout="hats", more='schedule: "0 0 * * *"'
    )
    (catalogs / f"{STARS}.yaml").write_text(stars)


@contextmanager
def landed_deployment(folders: pytest.TempPathFactory, **more: str) -> Iterator[tuple[Deployment, Path]]:
    """A deployment on whose store the demo's files have landed, and a folder with the same files.

    Parameters
    ----------
    folders : pytest.TempPathFactory
    **more : str
        As for `running_deployment`.
    """
    from hipslake_demo.landing import write_landing

    if find_postgres() is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    specs, landing = (folders.mktemp(name) for name in ("specs", "landing"))
    write_specs(specs)
    write_landing(landing)
    with running_deployment(specs, **more) as deployment:
        write_landing(f"s3://{BUCKET}/landing")
        yield deployment, landing


@dataclass
class Workload:
    """Runs of both catalogs, one batch after the other; every batch has nights of its own.

    Parameters
    ----------
    deployment : Deployment
    gaia : pyarrow.Table
        The rows that have landed of Gaia.
    """

    deployment: Deployment
    gaia: pa.Table
    landed: dict[int, pa.Table] = field(default_factory=dict)  # by night
    awaited: deque[int] = field(default_factory=deque)  # nights that are backfilled and have not landed
    versions: int = 0  # of Gaia
    expected: dict[str, int] = field(default_factory=lambda: {GAIA: 0, STARS: 0})  # runs

    def begin(self, nights: int, landed: int) -> None:
        """Ingest Gaia anew, and backfill so many nights, of which some have landed; see `land_next`."""
        first = len(self.landed)
        last = first + nights - 1
        self.awaited.extend(range(first, last + 1))
        self.land_next(landed)
        api = self.deployment.api
        for name in (GAIA, STARS):
            api.unpause(dag_of(name))
        api.trigger(dag_of(GAIA), {"force": True})
        start, end = (FIRST + timedelta(days=number) for number in (first, last))
        api.backfill(dag_of(STARS), start, end, {"wait_minutes": 60})
        self.versions += 1
        self.expected[GAIA] += 1
        self.expected[STARS] += nights

    def land_next(self, nights: int) -> None:
        """Land the first so many of the nights that are waited for."""
        for _ in range(nights):
            self.land(self.awaited.popleft())

    def land(self, number: int) -> None:
        """Put a night there, whole at once."""
        self.landed[number] = rows = night_rows(number, rows=100)
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        night = f"stars/night={FIRST + timedelta(days=number):%Y-%m-%d}/part-0.parquet"
        self.deployment.landing.write(night, sink.getvalue())

    def wait_for_task(self, name: str, task: str, *states: str) -> None:
        """Wait until a task of a run that has not ended is in one of some states.

        If all nights that have landed are done before, one more lands.
        """

        def found() -> bool:
            api = self.deployment.api
            runs = api.runs(dag_of(name))
            if name == STARS and self.awaited and [*runs.values()].count("success") >= len(self.landed):
                self.land_next(1)
            running = {run for run, state in runs.items() if state == "running"}
            return any(
                one["task_id"] == task and one["state"] in states and one["dag_run_id"] in running
                for one in api.tasks(dag_of(name))
            )

        until(found, seconds=_END_SECONDS, what=f"{task} of {name}", pause=2)

    def end(self) -> dict[str, int]:
        """Wait until all runs have ended well, and check what came of them; some counts."""
        tasks = []
        for name, runs in self.expected.items():
            states = self._ended(name, runs)
            assert len(states) == runs
            assert set(states.values()) == {"success"}, f"{name}: {states}"
            tasks += [
                task for task in self.deployment.api.tasks(dag_of(name)) if task["dag_run_id"] in states
            ]
        self.check()
        attempts = sum(int(one["try_number"] or 0) for one in tasks)
        return {"runs": sum(self.expected.values()), "tasks": len(tasks), "attempts": attempts}

    def _ended(self, name: str, runs: int) -> dict[str, str]:
        api = self.deployment.api

        def all_have() -> bool:
            states = api.runs(dag_of(name))
            return len(states) >= runs and set(states.values()) <= {"success", "failed"}

        until(all_have, seconds=_END_SECONDS, what=f"the end of {runs} runs of {name}", pause=_LOOK_SECONDS)
        return api.runs(dag_of(name))

    def check(self) -> None:
        """Check that both catalogs are published and whole: nothing is lost, and nothing is there twice."""
        nights = pa.concat_tables(self.landed.values())
        for name, rows, key in ((GAIA, self.gaia, "source_id"), (STARS, nights, "id")):
            catalog = Catalog.open(self.deployment.catalog_uri(name))
            catalog.verify().raise_if_failed()
            assert difference(catalog.read(), rows, key) == ""
            assert catalog.read().num_rows == rows.num_rows
            plain = self._plain(catalog, name)
            assert plain.num_rows == rows.num_rows
            assert difference(plain, rows, key) == ""
        assert Catalog.open(self.deployment.catalog_uri(GAIA)).versions() == list(range(1, self.versions + 1))
        increments = Catalog.open(self.deployment.catalog_uri(STARS)).increments
        nights_there = sorted(increment.key or "" for increment in increments)
        assert nights_there == [
            (FIRST + timedelta(days=number)).isoformat() for number in sorted(self.landed)
        ]

    def _plain(self, catalog: Catalog, name: str) -> pa.Table:
        """The rows of the newest version by plain pyarrow, from the files of its HATS tree on the store."""
        store = self.deployment.arrow_store()
        root = self.deployment.catalog_uri(name).removeprefix("s3://")
        told = store.open_input_stream(f"{root}/collection.properties").read().decode()
        found = re.search(r"^hats_primary_table_url *= *(\S+)", told, re.MULTILINE)
        assert found is not None
        files = store.get_file_info(pafs.FileSelector(f"{root}/{found[1]}/dataset", recursive=True))
        leaves = [file.path for file in files if re.search(r"/Npix=[^/]*\.parquet$", file.path)]
        return pa.concat_tables(pq.read_table(path, filesystem=store, partitioning=None) for path in leaves)


def dag_of(name: str) -> str:
    """The DAG that ingests a catalog."""
    return f"catalog_ingest__{name}"
