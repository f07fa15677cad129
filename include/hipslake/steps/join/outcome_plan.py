"""The leaves of an outcome: planned from what the tasks have counted, as those of any catalog.

Left in the run folder is what the histogram and plan steps of an ingest leave, so that the steps that follow
a join need not know that it is one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.joining.join import CatalogJoin
from hipslake.errors import EmptySourceError
from hipslake.planning.pixel_histogram import Histogram
from hipslake.sources.source_file import Split
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel
from hipslake.steps.ingest import plan as planning
from hipslake.steps.ingest.crowding import crowded_pixels, deeper_order
from hipslake.steps.ingest.histogram import store_histogram
from hipslake.steps.ingest.pixel_counts import PixelCounts, sum_parts
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, PlanRequest, RowBytes
from hipslake.steps.ingest.row_bytes import SAMPLE_ROWS, mean_row_bytes, weight_of
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.join.match_pieces import MatchedRows, Pieces
from hipslake.steps.join.request import COUNTS
from hipslake.steps.join.state import counts_path, only_group, store_matched
from hipslake.steps.run import FrozenRun, RunFolder
from hipslake.storage.folder import Storage


def plan_outcome(
    folder: RunFolder, frozen: FrozenRun, join: CatalogJoin, attempt: str, found: pa.Table
) -> int:
    """Plan the leaves of what was matched; return its number of rows.

    Parameters
    ----------
    folder : RunFolder
    frozen : FrozenRun
    join : CatalogJoin
    attempt : str
        The folder of what the tasks have matched.
    found : pyarrow.Table
        What they have said, `MATCHED`.

    Raises
    ------
    EmptySourceError
        If there is no row.
    PlanError
        If no plan of leaves keeps the threshold.
    """
    rows: int = pc.sum(found["rows"]).as_py() or 0
    if rows == 0:
        raise EmptySourceError(
            f"no row of {join.left_catalog} is in the outcome ({join.described}); nothing is published"
        )
    matched = store_matched(folder, Pieces(Storage.at(frozen.catalog_uri), attempt), found)
    weight = _weight(matched, frozen.spec)
    histogram = _deepened(
        _counted(folder.storage, frozen.spec, attempt, matched), matched, frozen.spec, weight
    )
    folder.storage.delete_tree(COUNTS)
    _store_counted(folder, join.columns.schema, only_group(frozen.spec), rows, histogram, weight)
    planning.run(PlanRequest(run_uri=folder.uri))
    return rows


def _counted(storage: Storage, spec: CatalogSpec, attempt: str, matched: MatchedRows) -> Histogram:
    """What the tasks have counted, together."""
    paths = [counts_path(attempt, task) for task in matched.tasks.tolist()]
    counts = sum_parts(storage, paths, max(spec.mapping_order, spec.lowest_order))
    return Histogram.from_counts(counts.order, *counts.total())


def _weight(matched: MatchedRows, spec: CatalogSpec) -> RowBytes:
    """What a row of the outcome weighs, from the first rows of the first, the middle and the last stretch."""
    last = len(matched.tasks) - 1
    samples = []
    for at in sorted({0, last // 2, last}):
        first = matched.pieces.read(int(matched.tasks[at]))[0]
        samples.append({"": weight_of(first.slice(0, SAMPLE_ROWS), spec.parquet)})
    return mean_row_bytes(samples)[""]


def _deepened(histogram: Histogram, matched: MatchedRows, spec: CatalogSpec, weight: RowBytes) -> Histogram:
    """Count crowded cells deeper, until each can be a leaf."""
    row_bytes = {only_group(spec): weight.disk}
    while (crowded := crowded_pixels(histogram, spec, row_bytes)).any():
        cells = histogram.select(crowded)
        counts = PixelCounts(deeper_order(cells, spec))
        for order, npix in zip(cells.order.tolist(), cells.npix.tolist(), strict=True):
            counts.add_rows(matched.keys_within(*Pixel(order, npix).interval))
        histogram = histogram.refined(crowded, Histogram.from_counts(counts.order, *counts.total()))
    return histogram


def _store_counted(
    folder: RunFolder, schema: pa.Schema, group: str, rows: int, histogram: Histogram, weight: RowBytes
) -> None:
    """Leave what the histogram step of an ingest leaves."""
    inputs = folder.inputs()
    splits = SplitList.of(Split(file.ordinal, file, "rows", 0, rows) for file in inputs.files)
    # Every row of the outcome is counted with the left catalog, whose row it is.
    of_side = np.where(np.arange(len(splits)) == 0, rows, 0)
    table = SplitTable(splits, of_side, np.zeros(len(splits), np.int64))
    store_histogram(folder.storage, table, schema, histogram, {group: weight.disk})
    report = HistogramReport(
        files=len(inputs.files),
        rows_in=rows,
        rows_out=rows,
        bytes=inputs.total_bytes,
        cells=len(histogram),
        highest_order=int(histogram.order.max()),
        row_bytes={group: weight},
    )
    folder.write(RunFolder.report_path(HistogramRequest.step), report)
