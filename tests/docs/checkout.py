"""A folder that looks like a checkout of the project, with data of its own, for pages to work in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.timetables.interval import CronDataIntervalTimetable
from hipslake import Catalog, adopt
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.index import request as index_step
from hipslake.steps.index import run as index_work
from hipslake.steps.ingest.request import ResolveReport, ResolveRequest
from hipslake.steps.ingest.resolve import run as resolve
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, Window, run_uri
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.sink_order import FileRows, SinkOrder, VersionRows
from pendulum import instance

from tests.docs.blocks import ROOT
from tests.steps import in_process


class Checkout:
    """A folder with what a checkout of the project has, and data of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.warehouse = root / ".data" / "warehouse"

    @classmethod
    def made(cls, root: Path) -> Checkout:
        """Make one without data. What pages write to is a copy, the rest are links."""
        (root / "include").mkdir(parents=True)
        for path in (ROOT / "include").iterdir():
            if path.name == "specs":
                shutil.copytree(path, root / "include" / "specs")
            else:
                (root / "include" / path.name).symlink_to(path)
        for name in ("dags", "plugins", "spark_jobs", "benchmarks", "Makefile", "docker-compose.yml"):
            (root / name).symlink_to(ROOT / name)
        (root / "docs").mkdir()
        return cls(root)

    def copied(self, root: Path) -> Checkout:
        """Another one with the same data; files of Iceberg tables stay where their metadata names them."""
        shutil.copytree(self.root, root, symlinks=True)
        return Checkout(root)

    @property
    def environment(self) -> dict[str, str]:
        """What `include/setup/environment.sh` says there."""
        return {
            "HIPSLAKE_ROOT": str(self.root),
            "HIPSLAKE_LANDING": str(self.root / ".data" / "landing"),
            "HIPSLAKE_WAREHOUSE": str(self.warehouse),
            "HIPSLAKE_STATE": str(self.root / ".data" / "state"),
            "HIPSLAKE_SPECS": str(self.root / "include" / "specs"),
        }

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work in it."""
        with ExitStack() as stack:
            environment = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in self.environment.items():
                environment.setenv(name, value)
            stack.enter_context(chdir(self.root))
            yield

    def spec(self, kind: str, name: str) -> Path:
        return self.root / "include" / "specs" / kind / f"{name}.yaml"

    def land(self, name: str, *tables: pa.Table) -> None:
        folder = self.root / ".data" / "landing" / name
        folder.mkdir(parents=True)
        for number, table in enumerate(tables):
            pq.write_table(table, folder / f"{name}_{number:02d}.parquet")

    def ingest(self, name: str, window: Window | None = None) -> Catalog:
        """Publish a catalog, or append to it, by the steps of its DAG."""
        dag_id = f"catalog_ingest__{name}"
        request = ResolveRequest(
            run_uri=run_uri(str(self.warehouse), dag_id, os.urandom(4).hex()),
            dag_id=dag_id,
            run_id="sample",
            warehouse=str(self.warehouse),
            spec_file=str(self.spec("catalogs", name)),
            window=window or Window(),
        )
        perform(resolve, request, ResolveReport)
        folder = request.folder
        in_process.freeze(folder)
        in_process.count(folder)
        if FrozenRun.of(folder).spec.mode is Mode.APPEND:
            in_process.append(folder)
        else:
            in_process.make_plan(folder)
            in_process.write_leaves(folder)
            if FrozenRun.of(folder).spec.index:
                _index(folder)
            in_process.make_margins(folder)
            in_process.check(folder)
            in_process.commit(folder)
        in_process.show(folder)
        return Catalog.open(self.warehouse / "catalogs" / name)

    def ingest_as_tested(self, name: str, date: datetime | None) -> None:
        """What `airflow dags test` ingests: everything, or the interval that ended last at a date."""
        spec = load_spec(self.spec("catalogs", name), CatalogSpec)
        window = None
        if spec.schedule is not None and date is not None:
            timetable = CronDataIntervalTimetable(spec.schedule, timezone="UTC")
            found = timetable.infer_manual_data_interval(run_after=instance(date))
            window = Window(start=found.start, end=found.end, origin="data_interval")
        self.ingest(name, window)

    def adopt(self, name: str) -> None:
        adopt(self.spec("catalogs", name), warehouse=self.warehouse, spark=False)

    def match(self, name: str) -> None:
        in_process.publish_match(in_process.start_match(self.warehouse, self.spec("joins", name)))

    def sink_catalog(self, name: str) -> None:
        """Sink a version by the spec of a table."""
        spec = load_spec(self.spec("tables", name), TableSpec)
        catalog = Catalog.open(self.warehouse / "catalogs" / name)
        rows = VersionRows(uri=str(catalog.uri), version=catalog.version, content="sample")
        self._sink(spec, rows)

    def sink_rows(self, name: str, table: pa.Table, **fields: object) -> None:
        """Sink rows into a table of a name."""
        self.land(name, table)
        uri = str(self.root / ".data" / "landing" / name / "*.parquet")
        source = {"uri": uri, "format": "parquet"}
        spec = TableSpec.model_validate(
            {"name": name, "table": f"survey.{name}", "source": {"files": source}, **fields}
        )
        given = spec.source.files  # type: ignore[union-attr]
        self._sink(spec, FileRows(source=given, files=tuple(open_source(given).list_files())))

    def _sink(self, spec: TableSpec, rows: VersionRows | FileRows) -> None:
        write_id = f"20261122T0000-{os.urandom(6).hex()}"
        order = SinkOrder(spec=spec, warehouse=str(self.warehouse), rows=rows, write_id=write_id, whole=True)
        sink(order, ThisProcess(2), stale_after=3600)


def _index(folder: RunFolder) -> None:
    request = index_step.BuildIndexRequest(run_uri=folder.uri)
    perform(lambda asked: index_work.run(asked, ThisProcess()), request, index_step.BuildIndexReport)
