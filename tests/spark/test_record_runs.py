"""Runs of key records are the same files whichever engine makes them, and every range is woken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hipslake.catalog.metadata import RecordRun
from hipslake.catalog.records.key_ranges import KeyRanges
from hipslake.catalog.records.record_rows import key_of
from hipslake.catalog.records.run_building import build_run
from hipslake.catalog.records.run_merging import merged_runs
from hipslake.engine.model import Block, Engine, Routed
from hipslake.engine.this_process import ThisProcess
from hipslake.spark.engine import SparkEngine
from hipslake.storage.folder import Storage

from tests.catalog.keyed import WRITE
from tests.catalog.test_record_files import records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = pa.schema([("target", pa.int64()), ("rows", pa.int64())])


@dataclass(frozen=True)
class Drawn:
    """Records of a part, drawn by its number."""

    ordinal: int

    def __call__(self, part: int) -> Iterator[pa.Table]:
        rng = np.random.default_rng(10 * self.ordinal + part)
        for start in (0, 150):
            table = records_of("two", rng.integers(0, 1000, 150).tolist(), [self.ordinal] * 150)
            rows = table["_row"].to_numpy() + part * 1000 + start
            yield table.set_column(
                table.column_names.index("_row"), table.schema.field("_row"), pa.array(rows)
            )


def runs_of(storage: Storage, engine: Engine) -> list[RecordRun]:
    """Two runs in ranges, and one that they become."""
    schema = records_of("two", [1], [0]).schema
    by = key_of(schema)
    runs = [
        build_run(
            storage,
            engine,
            Drawn(ordinal),
            parts=3,
            rows=900,
            schema=schema,
            by=by,
            write_id=WRITE,
            name=f"night_{ordinal}",
            ordinals=[ordinal],
            file_rows=300,
        )
        for ordinal in (1, 2)
    ]
    merged = merged_runs(storage, engine, runs, schema, by, write_id=WRITE, name="merged")
    return [*runs, merged.run]


@dataclass(frozen=True)
class Waking:
    """Sends a few records, and an empty batch to every range."""

    ranges: KeyRanges
    table: pa.Table

    def route(self, number: int) -> Iterator[Routed]:
        if number == 0:
            yield from self.ranges.wake(self.table.schema)
        else:
            yield from self.ranges.route(self.table.slice(0, 1))

    def count(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[target], [sum(block.rows.num_rows for block in blocks)]], schema=COUNT)


def test_spark_makes_the_files_that_threads_make(spark: SparkSession, tmp_path: Path) -> None:
    engines: list[Engine] = [ThisProcess(2), SparkEngine(spark)]
    found = [runs_of(Storage.at(tmp_path / str(at)), engine) for at, engine in enumerate(engines)]
    assert found[0] == found[1]
    assert [run.rows for run in found[0]] == [900, 900, 1800]
    assert [len(run.files or ()) for run in found[0]] == [3, 3, 1]


def test_spark_calls_the_tasks_of_ranges_that_got_an_empty_batch(spark: SparkSession) -> None:
    table = records_of("two", list(range(0, 1000, 7)), [1] * 143)
    ranges = KeyRanges.even(key_of(table.schema), table, 5)
    task = Waking(ranges, table)
    counts = []
    for engine in (ThisProcess(2), SparkEngine(spark)):
        result = engine.exchange(
            sources=2, mapper=task.route, targets=len(ranges), reducer=task.count, result=COUNT
        )
        counts.append(result.sort_by("target").to_pylist())
    assert counts[0] == counts[1] == [{"target": at, "rows": int(at == 0)} for at in range(5)]
