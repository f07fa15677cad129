"""The rows of a Spark DataFrame, offered to a cube: they are kept as Parquet first.

A cube reads its rows twice, and what a frame computes again (a shuffle, a random number, a table that others
change) need not come out the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from hipslake.cube.store.row_sources import ParquetRows, parts_of
from hipslake.exports.writers import gathered
from hipslake.storage.folder import Storage

_WRITTEN = "path string"
_PART_BYTES = 64 << 20


@contextmanager
def frame_rows(frame: DataFrame, folder: Storage) -> Iterator[ParquetRows]:
    """The rows of a frame, as long as the block runs.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Computed once. Columns of a type that Arrow does not have are refused by Spark.
    folder : Storage
        Where rows may wait, in a folder of their own that goes with the block; workers write to it.

    Examples
    --------
    >>> with frame_rows(frame, Storage.at("/data/scratch")) as rows:  # doctest: +SKIP
    ...     extend(cube, {"features": rows}, engine=SparkEngine(spark))
    """
    name = f"frame-{uuid.uuid4().hex}"
    kept, schema = folder.sub(name), to_arrow_schema(frame.schema, timezone="UTC")
    try:
        groups = []
        for path in keep_frame(frame, kept):
            with kept.arrow_file(path) as file:
                groups += [(path, *part) for part in parts_of(pq.ParquetFile(file).metadata)]
        yield ParquetRows(kept, tuple(groups), schema)
    finally:
        folder.delete_tree(name)


def keep_frame(frame: DataFrame, folder: Storage) -> list[str]:
    """Compute the rows of a frame once, as Parquet files in a folder; return their paths in it, sorted.

    Files of tasks that were tried again may lie beside them. Columns of a type that Arrow does not have are
    refused by Spark.
    """
    keeping = _KeepRows(folder, to_arrow_schema(frame.schema, timezone="UTC"))
    return sorted(row.path for row in frame.mapInArrow(keeping, _WRITTEN).collect())


@dataclass(frozen=True)
class _KeepRows:
    """Writes the rows of a partition of the frame as one file; a task that runs again writes another."""

    folder: Storage
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        path = f"{context.partitionId():06d}-{context.taskAttemptId()}.parquet"
        small = (pa.Table.from_batches([batch.cast(self.schema)]) for batch in batches)
        tables = gathered(small, _PART_BYTES)  # each becomes a row group, and a part
        first = next(tables, None)
        if first is None:
            return
        with self.folder.open(path, "wb") as file, pq.ParquetWriter(file, self.schema) as out:
            for table in chain([first], tables):
                out.write_table(table)
        yield pa.record_batch([pa.array([path])], names=["path"])
