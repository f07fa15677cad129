"""Objects and their sources, made up, ingested by the real steps without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.index import request as index_step
from hipslake.steps.index import run as index_work
from hipslake.steps.ingest import resolve, write
from hipslake.steps.ingest.request import ResolveReport, ResolveRequest, WriteReport, WriteRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, Window, run_uri

from tests.steps import in_process

KINDS = {
    "integers": lambda numbers: pa.array(numbers * 1_000_003, pa.int64()),
    "texts": lambda numbers: pa.array([f"object {number}" for number in numbers]),
}


def objects_table(rows: int = 2000, seed: int = 1, kind: str = "integers") -> pa.Table:
    """Objects all over the sky, with a cluster; their ids are not in order."""
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    ra[: rows // 3], dec[: rows // 3] = rng.normal(80, 1, rows // 3), rng.normal(30, 1, rows // 3)
    ids = KINDS[kind](rng.permutation(rows))
    return pa.table({"id": ids, "ra": ra, "dec": dec, "class": rng.integers(0, 5, rows)})


def sources_table(objects: pa.Table, rows: int = 10_000, seed: int = 2) -> pa.Table:
    """Sources seen up to some arcseconds beside their objects; a tenth of the objects has none."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, objects.num_rows * 9 // 10, rows)
    ra, dec = objects["ra"].to_numpy()[of], objects["dec"].to_numpy()[of]
    return pa.table(
        {
            "source_id": rng.permutation(rows),
            "object_id": objects["id"].take(pa.array(of)),
            "ra": (ra + rng.normal(0, 1e-3, rows)) % 360,
            "dec": np.clip(dec + rng.normal(0, 1e-3, rows), -90, 90),
            "time": rng.uniform(60000, 61000, rows).round(2),
            "flux": rng.normal(100, 10, rows),
        }
    )


@dataclass
class Lake:
    """A warehouse with some catalogs."""

    place: Path
    runs: int = 0

    @property
    def warehouse(self) -> str:
        return str(self.place / "warehouse")

    def open(self, name: str, version: int | None = None) -> Catalog:
        return Catalog.open(f"{self.warehouse}/catalogs/{name}", version)

    def land(self, name: str, table: pa.Table, files: int = 3) -> None:
        """Put the files of a catalog there, and nothing else."""
        folder = self.place / "landing" / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        per_file = -(-table.num_rows // files)
        for number in range(files):
            pq.write_table(table.slice(number * per_file, per_file), folder / f"part-{number}.parquet")

    def start(self, name: str, window: Window | None = None, **spec: Any) -> RunFolder:
        """Resolve a run of the spec that the fields make."""
        self.runs += 1
        given = {
            "name": name,
            "source": {"uri": f"{self.place}/landing/{name}/*.parquet", "format": "parquet"},
            "position": {"ra": "ra", "dec": "dec"},
            "mapping_order": 6,
        } | spec
        if "column_groups" not in spec:  # each of them has a threshold of its own
            given.setdefault("threshold", "200 rows")
        path = self.place / f"{name}.yaml"
        path.write_text(yaml.safe_dump(given))
        request = ResolveRequest(
            run_uri=run_uri(self.warehouse, f"catalog_ingest__{name}", f"run-{self.runs}"),
            dag_id=f"catalog_ingest__{name}",
            run_id=f"run-{self.runs}",
            warehouse=self.warehouse,
            spec_file=str(path),
            window=window or Window(),
        )
        perform(resolve.run, request, ResolveReport)
        return request.folder

    def write(self, folder: RunFolder) -> None:
        """The steps up to the leaf files."""
        in_process.freeze(folder)
        in_process.count(folder)
        in_process.make_plan(folder)
        request = WriteRequest(run_uri=folder.uri)
        perform(lambda asked: write.run(asked, ThisProcess()), request, WriteReport)
        if FrozenRun.of(folder).spec.index:
            self.build_index(folder)
        in_process.make_margins(folder)

    def build_index(self, folder: RunFolder, **knobs: Any) -> index_step.BuildIndexReport:
        """The index step."""
        asked = index_step.BuildIndexRequest(run_uri=folder.uri, **({"file_rows": 2000} | knobs))
        return perform(lambda given: index_work.run(given, ThisProcess()), asked, index_step.BuildIndexReport)

    def finish(self, folder: RunFolder) -> None:
        """The steps after them."""
        in_process.check(folder)
        in_process.commit(folder)
        in_process.show(folder)

    def ingest(self, name: str, table: pa.Table, **spec: Any) -> Catalog:
        """Land a table and publish it."""
        self.land(name, table)
        folder = self.start(name, **spec)
        self.write(folder)
        self.finish(folder)
        return self.open(name)

    def ingest_objects(self, table: pa.Table, **spec: Any) -> Catalog:
        """Publish objects that sources can be placed by."""
        return self.ingest("objects", table, **({"co_partitioned": ["id"], "threshold": "150 rows"} | spec))

    def ingest_sources(self, table: pa.Table, **spec: Any) -> Catalog:
        """Publish sources in the pixels of their objects."""
        return self.ingest("sources", table, **({"position_from": by_objects()} | spec))


def by_objects(**policy: Any) -> dict[str, Any]:
    """The spec's `position_from`."""
    return {"catalog": "objects", "on": {"object_id": "id"}} | policy
