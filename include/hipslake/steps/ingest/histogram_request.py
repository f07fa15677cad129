"""Histogram: rows and bytes per pixel, and the schema and row count of every split. Runs in Spark.

The work is in `hipslake.steps.ingest.histogram`; here is what it is told and what it says.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder


class RowBytes(Frozen):
    """What a row of a column group weighs, estimated by encoding a few rows as they will be encoded."""

    rows: int  # of the sample
    disk: float  # bytes per row in a leaf file
    memory: float  # bytes per row as Arrow columns
    footer: int  # bytes of a leaf file beside its rows


class HistogramRequest(Request):
    """Count the frozen files of a run."""

    step: ClassVar[str] = "histogram"
    outputs: ClassVar[tuple[str, ...]] = (
        RunFolder.SPLITS,
        RunFolder.HISTOGRAM,
        RunFolder.PER_ORDER,
        RunFolder.SCHEMA,
    )

    split_target_bytes: int = Field(default=256 << 20, ge=1)  # decoded bytes that one task reads
    max_examples: int = Field(default=5, ge=1)  # bad rows that an error or a report shows


class HistogramReport(Report):
    """Rows in: every row of the files. Rows out: those that have a place."""

    step: str = HistogramRequest.step
    splits: int = 0
    cells: int = 0  # occupied pixels of the histogram
    highest_order: int = 0  # of a cell: the mapping order, or deeper where pixels were crowded
    crowded: dict[int, int] = Field(default_factory=dict)  # order -> cells that were counted deeper
    rejected: dict[str, int] = Field(default_factory=dict)  # reason -> rows
    unmatched: int = 0  # rows with an id of no object, which lie at their own positions
    examples: tuple[str, ...] = ()  # the first bad rows: file, row, values
    group_bytes: dict[str, int] = Field(default_factory=dict)  # estimated bytes on disk per column group
    row_bytes: dict[str, RowBytes] = Field(default_factory=dict)  # per column group
