"""The leaves of an outcome: planned from what the tasks have counted, as those of any catalog.

Left in the run folder is what the histogram and plan steps of an ingest leave, so that the steps that follow
a join need not know that it is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.catalog.coverage import write_coverage
from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.partitions import PARTITION_SCHEMA, total_of
from hipslake.catalog.schema import check_columns
from hipslake.errors import EmptySourceError
from hipslake.planning.pixel_histogram import Histogram
from hipslake.sources.source_file import Split
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.threshold import ThresholdUnit
from hipslake.sphere.pixels import MAX_ORDER, Pixel, starts, stops
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
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
from hipslake.steps.join.standing_outcome import OutcomeRows, StandingOutcome
from hipslake.steps.join.state import counts_path, only_group, store_leaves, store_matched
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage


class PlannedOutcome(NamedTuple):
    """What an outcome will be.

    Attributes
    ----------
    rows : int
        Of all leaves.
    written : int
        Of the leaves that are to be written.
    kept : pyarrow.Table
        The leaf files of earlier writes that are named again, as `PARTITION_SCHEMA`.
    """

    rows: int
    written: int
    kept: pa.Table


def plan_outcome(
    folder: RunFolder,
    frozen: FrozenRun,
    join: CatalogJoin,
    attempt: str,
    found: pa.Table,
    standing: StandingOutcome | None,
) -> PlannedOutcome:
    """Plan the leaves of an outcome: of what was matched, and of what stands of its last version.

    Parameters
    ----------
    folder : RunFolder
    frozen : FrozenRun
    join : CatalogJoin
    attempt : str
        The folder of what the tasks have matched.
    found : pyarrow.Table
        What they have said, `MATCHED`.
    standing : StandingOutcome or None
        What is taken over of the last version; None: nothing.

    Raises
    ------
    EmptySourceError
        If there is no row.
    PlanError
        If no plan of leaves keeps the threshold.
    """
    matched = store_matched(folder, Pieces(Storage.at(frozen.catalog_uri), attempt), found)
    spec, schema = frozen.spec, join.columns.schema
    histogram = _counted(folder.storage, spec, attempt, matched)
    if standing is not None:
        histogram = standing.with_cells(histogram)
    rows = histogram.total_rows
    if rows == 0:
        raise EmptySourceError(
            f"no row of {join.left_catalog} is in the outcome ({join.described}); nothing is published"
        )
    group = only_group(spec)
    _store_coverage(folder, frozen, histogram)
    outcome = OutcomeRows(matched, standing, check_columns(spec, schema)[group])
    weight = _weight(outcome, histogram, spec)
    histogram = _deepened(histogram, outcome, spec, weight)
    folder.storage.delete_tree(COUNTS)
    if standing is not None and spec.threshold_of(group).unit is ThresholdUnit.ROWS:
        histogram = standing.with_whole_leaves(histogram)
    _store_counted(folder, schema, group, rows, histogram, weight)
    planning.run(PlanRequest(run_uri=folder.uri))
    plan, kept = read_table(folder.storage, RunFolder.PLAN), PARTITION_SCHEMA.empty_table()
    if standing is not None:
        stays = standing.stays(plan)
        kept, plan = standing.files_of(plan.filter(pa.array(stays))), plan.filter(pa.array(~stays))
    store_leaves(folder, plan)
    return PlannedOutcome(rows, total_of(plan, "rows"), kept)


def _store_coverage(folder: RunFolder, frozen: FrozenRun, histogram: Histogram) -> None:
    """Write the coverage of the outcome, once for all steps that describe it; leave its name for them."""
    found = PointMap.from_cells(histogram.order, histogram.npix, histogram.rows)
    stored = write_coverage(Storage.at(frozen.catalog_uri), frozen.write_id, found)
    folder.write(RunFolder.COVERAGE, stored)


def _counted(storage: Storage, spec: CatalogSpec, attempt: str, matched: MatchedRows) -> Histogram:
    """What the tasks have counted, together."""
    paths = [counts_path(attempt, task) for task in matched.tasks.tolist()]
    counts = sum_parts(storage, paths, max(spec.mapping_order, spec.lowest_order))
    return Histogram.from_counts(counts.order, *counts.total())


def _weight(outcome: OutcomeRows, histogram: Histogram, spec: CatalogSpec) -> RowBytes:
    """What a row of the outcome weighs.

    For a threshold in bytes by rows from its beginning, its middle and its end: by those of the outcome,
    however it was made. Else it only says how much a task may take, and no leaf is opened for that.
    """
    threshold, joined = spec.threshold_of(only_group(spec)), outcome.joined
    if threshold.unit is ThresholdUnit.BYTES:
        samples = list(_samples(outcome, histogram))
    elif len(joined.tasks):
        last = len(joined.tasks) - 1
        samples = [joined.pieces.read(int(joined.tasks[at]))[0] for at in sorted({0, last // 2, last})]
    else:
        assert outcome.standing is not None
        known = outcome.standing.metadata.groups[0]
        mean = known.bytes / known.rows
        return RowBytes(rows=known.rows, disk=mean, memory=mean, footer=0)
    return mean_row_bytes([{"": weight_of(rows.slice(0, SAMPLE_ROWS), spec.parquet)} for rows in samples])[""]


def _samples(outcome: OutcomeRows, histogram: Histogram) -> Iterator[pa.RecordBatch]:
    """Some rows from the first cell on, from that of the middle row, and from that where the last ones begin.

    Cells are those of the coverage, which are known of rows that were not joined, too.
    """
    order = min(MAP_ORDER, int(histogram.order.min()))
    cells = histogram.npix.astype(np.int64) >> 2 * (histogram.order.astype(np.int64) - order)
    first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    cells, rows = cells[first], np.add.reduceat(histogram.rows, first)
    ends = np.cumsum(rows)
    begin, end = starts(order, cells), stops(order, cells)
    total = int(ends[-1])
    for row in sorted({0, total // 2, max(total - SAMPLE_ROWS, 0)}):
        at = int(np.searchsorted(ends, row, side="right"))
        last = min(int(np.searchsorted(ends, ends[at] - rows[at] + SAMPLE_ROWS)), len(ends) - 1)
        found = pa.Table.from_batches(outcome.within(int(begin[at]), int(end[last])), outcome.schema)
        yield found.slice(0, SAMPLE_ROWS).combine_chunks().to_batches()[0]


def _deepened(histogram: Histogram, outcome: OutcomeRows, spec: CatalogSpec, weight: RowBytes) -> Histogram:
    """Count crowded cells deeper, until each can be a leaf."""
    row_bytes = {only_group(spec): weight.disk}
    if outcome.standing is not None:
        histogram = _as_deep(histogram, outcome, outcome.standing, spec, weight)
    while (crowded := crowded_pixels(histogram, spec, row_bytes)).any():
        cells = histogram.select(crowded)
        histogram = histogram.refined(crowded, _counted_in(cells, outcome, deeper_order(cells, spec)))
    return histogram


def _as_deep(
    histogram: Histogram, outcome: OutcomeRows, standing: StandingOutcome, spec: CatalogSpec, weight: RowBytes
) -> Histogram:
    """Divide cells of the coverage that hold more than a leaf may, as if all rows had been counted.

    A cell of which the last version has the leaves is divided into those, and none is opened. In bytes, what
    a cell weighs depends on the cells that rows were counted in: there leaves deeper than these are no help.
    """
    group, counted = only_group(spec), max(spec.mapping_order, spec.lowest_order)
    in_rows = spec.threshold_of(group).unit is ThresholdUnit.ROWS
    _, most = planning.rows_and_limit(spec, group, histogram, weight)
    heavy = (histogram.order < counted) & (histogram.rows > most)
    known, leaves = standing.leaves_in(histogram.select(heavy), most, MAX_ORDER if in_rows else counted)
    divided = heavy.copy()
    divided[heavy] = known
    histogram = histogram.refined(divided, leaves)
    heavy = (histogram.order < counted) & (histogram.rows > most)
    return histogram.refined(heavy, _counted_in(histogram.select(heavy), outcome, counted))


def _counted_in(cells: Histogram, outcome: OutcomeRows, order: int) -> Histogram:
    """The rows in some cells, counted at an order."""
    counts = PixelCounts(order)
    for level, npix in zip(cells.order.tolist(), cells.npix.tolist(), strict=True):
        counts.add_rows(outcome.keys_within(*Pixel(level, npix).interval))
    return Histogram.from_counts(order, *counts.total())


def _store_counted(
    folder: RunFolder, schema: pa.Schema, group: str, rows: int, histogram: Histogram, weight: RowBytes
) -> None:
    """Leave what the histogram step of an ingest leaves."""
    inputs = FrozenInputs.of(folder)
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
