"""Runs made of real steps in one Spark session, and what they left on disk, read by plain pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.spark.engine import SparkEngine
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import histogram, inputs, plan, resolve, write
from hipslake.steps.ingest.request import (
    HistogramReport,
    HistogramRequest,
    InputsReport,
    InputsRequest,
    PlanReport,
    PlanRequest,
    ResolveReport,
    ResolveRequest,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.tables import read_table
from numpy.typing import NDArray
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Run:
    """A run of the steps that have Spark jobs, and of those between them; without a session by threads."""

    spark: SparkSession | None
    folder: RunFolder

    @classmethod
    def start(cls, spark: SparkSession | None, place: Path, *, run_id: str = "first", **spec: Any) -> Run:
        """Resolve a run of the spec `stars` on `<place>/landing`, and freeze its files.

        What the beginnings of files tell is not looked at: the steps in Spark are to find it themselves.
        """
        spec_file = place / "stars.yaml"
        given = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "mapping_order": 6} | spec
        given.setdefault("source", {"uri": f"{place}/landing/*.parquet", "format": "parquet"})
        spec_file.write_text(yaml.safe_dump(given))
        warehouse = str(place / "warehouse")
        request = ResolveRequest(
            run_uri=run_uri(warehouse, "catalog_ingest__stars", run_id),
            dag_id="catalog_ingest__stars",
            run_id=run_id,
            warehouse=warehouse,
            spec_file=str(spec_file),
        )
        perform(resolve.run, request, ResolveReport)
        with patch.object(inputs, "check_source"):
            perform(inputs.run, InputsRequest(run_uri=request.run_uri), InputsReport)
        return cls(spark, request.folder)

    def count(self, **knobs: int) -> HistogramReport:
        """The histogram step."""
        request = HistogramRequest(run_uri=self.folder.uri, **knobs)
        return perform(lambda asked: histogram.run(asked, self.engine), request, HistogramReport)

    def plan(self) -> PlanReport:
        """The plan step."""
        return perform(plan.run, PlanRequest(run_uri=self.folder.uri), PlanReport)

    def write(self, **knobs: int) -> WriteReport:
        """The write step; always done again, never taken over."""
        return write.run(WriteRequest(run_uri=self.folder.uri, **knobs), self.engine)

    def keep(self, report: WriteReport) -> None:
        """Leave the report of a write, for the steps after it."""
        self.folder.write(RunFolder.report_path(WriteRequest.step), report)

    def ingest(self, *, count: Mapping[str, int] = {}, write: Mapping[str, int] = {}) -> WriteReport:
        """Histogram, plan and write."""
        self.count(**count)
        self.plan()
        return self.write(**write)

    @property
    def engine(self) -> Engine:
        """What runs the tasks."""
        return ThisProcess() if self.spark is None else SparkEngine(self.spark)

    @property
    def root(self) -> Path:
        """The folder of the write."""
        return Path(FrozenRun.of(self.folder).catalog_uri, FrozenRun.of(self.folder).write_id)

    def table(self, path: str) -> pa.Table:
        """A table of the run folder."""
        return read_table(self.folder.storage, path)

    def leaf_files(self, group: str = "main") -> dict[tuple[int, int], Path]:
        """The leaf files of a group in the layout hats, found by their names alone."""
        found = self.root.glob(f"{group}/dataset/Norder=*/Dir=*/Npix=*.parquet")
        return {(_number(path.parts[-3]), _number(path.stem)): path for path in found}

    def contents(self) -> dict[str, bytes]:
        """Every file of the write and its bytes, but for the heartbeat."""
        files = [path for path in self.root.rglob("*") if path.is_file() and "heartbeat" not in path.name]
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}

    def published(self, group: str = "main") -> pa.Table:
        """All rows of a group, by plain pyarrow, file by file."""
        return pa.concat_tables(read_file(path) for path in self.leaf_files(group).values())


def read_file(path: Path) -> pa.Table:
    """One Parquet file; nothing is read off its folders' names."""
    return pq.ParquetFile(path).read()


def land(place: Path, table: pa.Table, *, files: int = 3, row_group_rows: int = 700) -> None:
    """Write a table as Parquet files of a landing folder, in order."""
    (place / "landing").mkdir(parents=True)
    per_file = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * per_file, per_file)
        pq.write_table(part, place / "landing" / f"part-{number}.parquet", row_group_size=row_group_rows)


def stars(ra: NDArray[np.float64], dec: NDArray[np.float64], seed: int = 0, **more: Any) -> pa.Table:
    """A source table with these positions, degrees."""
    rng = np.random.default_rng(seed)
    rows = len(ra)
    columns = {"id": rng.permutation(rows), "ra": ra, "dec": dec, "mag": rng.normal(15, 3, rows)}
    return pa.table(columns | more)


def uniform(rows: int, seed: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions spread evenly over the sky."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))


def pixels(ra: NDArray[np.float64], dec: NDArray[np.float64], order: int = 29) -> NDArray[np.int64]:
    """healpy's own answer."""
    found: NDArray[np.int64] = healpy.ang2pix(2**order, ra, dec, nest=True, lonlat=True)
    return found


def same_rows(left: pa.Table, right: pa.Table, key: str = "id") -> bool:
    """Whether two tables hold the same rows in the same types, whatever their order; `key` is unique."""
    return _comparable(left, key).equals(_comparable(right, key))


def _comparable(table: pa.Table, key: str) -> pa.Table:
    ordered = table.select(sorted(table.column_names)).sort_by(key).combine_chunks().replace_schema_metadata()
    for at, field in enumerate(ordered.schema):
        column = ordered.column(at)
        if pa.types.is_floating(field.type):  # bit by bit, since NaN is not NaN
            bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[field.type.bit_width]
            chunks = [chunk.fill_null(0).view(bits) for chunk in column.chunks]
            ordered = ordered.append_column(f"bits of {field.name}", pa.chunked_array(chunks, bits))
            column = column.is_null()
        if pa.types.is_dictionary(field.type):  # its words may stand in another order
            ordered = ordered.append_column(
                f"type of {field.name}", pa.array([str(field.type)] * len(ordered))
            )
            column = column.cast(field.type.value_type)
        ordered = ordered.set_column(at, field.name, column)
    return ordered


def smallest_leaves(h29: NDArray[np.int64], threshold: int, lowest: int = 0) -> dict[tuple[int, int], int]:
    """The minimal plan by brute force: split a pixel as long as it holds too many rows; rows per leaf."""
    found, waiting = {}, [(lowest, int(npix)) for npix in np.unique(h29 >> 2 * (29 - lowest))]
    while waiting:
        order, npix = waiting.pop()
        inside = h29[h29 >> 2 * (29 - order) == npix]
        if len(inside) <= threshold:
            found[order, npix] = len(inside)
        else:
            waiting += [(order + 1, int(child)) for child in np.unique(inside >> 2 * (28 - order))]
    return found


def _number(part: str) -> int:
    return int(part.partition("=")[2])
