"""How many bytes of rows a process holds at once when it does a whole step, with no Spark to spill them."""

from __future__ import annotations

from hipslake.specs.catalog_spec import Mode
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.ingest.request import HistogramReport
from hipslake.steps.report import Request
from hipslake.steps.run import RunFolder


def of_join(request: Request) -> int:
    """Of a join, none: each task reads a stretch of the curve, and leaves its rows in files."""
    return 0


def of_count(request: Request) -> int:
    """Of the count of an ingest, none, unless keys of rows are compared: then, at most, the source files."""
    spec = FrozenRun.of(request.folder).spec
    is_by_keys = spec.mode is Mode.UPSERT or spec.newest is not None or spec.position_from is not None
    return FrozenInputs.of(request.folder).total_bytes if is_by_keys else 0


def of_counted_rows(request: Request) -> int:
    """Of the write, or the append, of an ingest, all rows that were counted, as they lie in memory.

    What a row weighs was found of a sample. Not less than the source files, in case that is of lighter rows.
    """
    folder = request.folder
    counted = folder.read(RunFolder.report_path("histogram"), HistogramReport)
    row = sum(weight.memory for weight in counted.row_bytes.values())
    return max(int(row * counted.rows_out), FrozenInputs.of(folder).total_bytes)
