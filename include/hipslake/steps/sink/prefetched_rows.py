"""Rows of files that a thread reads before a sink asks for them, while what tables need is imported."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hipslake.sources.prefetching import prefetching
from hipslake.specs.partition_fields import TransformName
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode
from hipslake.steps.registry import STEPS
from hipslake.steps.run import Window
from hipslake.steps.sink.request import files_of
from hipslake.steps.sink.source_rows import TASK_BYTES


def prefetching_rows(spec: TableSpec, window: Window, spark: Any) -> AbstractContextManager[None]:
    """Read the files of a run during a block, if its sink is going to read each row once, in this process.

    Parameters
    ----------
    spec : TableSpec
    window : Window
        Of the run.
    spark : pyspark.sql.SparkSession or bool or None
        As for `hipslake.api.sink_by_spec`.
    """
    once = spec.mode is TableMode.APPEND and not spec.cluster_by
    if not isinstance(spec.source, FileRowsSpec) or not once or not (spark is None or spark is False):
        return nullcontext()
    columns = spec.source.columns
    if columns is not None:
        fields = (*spec.partition, *(sort.field for sort in spec.sort))
        pixels = (field.source for field in fields if field.transform is TransformName.HEALPIX)
        columns = (*columns, *pixels)
    return prefetching(
        files_of(spec, window),
        columns,
        split_bytes=TASK_BYTES,
        most_bytes=STEPS["sink"].spark_above_bytes if spark is None else None,
    )
