"""Plan: the leaves of every column group, each group on its own threshold. Needs no Spark."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import PlanError, VerificationError
from hipslake.planning.pixel_histogram import CELL_COLUMNS, Histogram
from hipslake.planning.splits import plan_leaves
from hipslake.sources import open_source
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.threshold import ThresholdUnit
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, PlanReport, PlanRequest, RowBytes
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.small_files import together

_COARSE_ORDER = 8  # down to which the sky has a million pixels

PLAN_SCHEMA = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("order", pa.int32(), nullable=False),
        pa.field("npix", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),  # expected size of the file
    ]
)


def run(request: PlanRequest) -> PlanReport:
    """Plan.

    Raises
    ------
    PlanError
        If no plan can keep a threshold.
    """
    try:
        return _run(request)
    except PlanError:
        if request.folder.storage.is_local:  # rows that were kept for the leaves that there will not be
            request.folder.storage.delete_tree(RunFolder.SORTED)
        raise


def _run(request: PlanRequest) -> PlanReport:
    phases = Phases()
    folder = request.folder
    spec = FrozenRun.of(folder).spec
    with phases("read"):
        counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
        histogram = _deciding_cells(folder, spec, counted)
    if histogram.total_rows != counted.rows_out:
        raise VerificationError(
            f"{folder.uri_of(RunFolder.HISTOGRAM)} holds {histogram.total_rows} rows, but its report counts "
            f"{counted.rows_out}; start a new run"
        )
    with phases("plan"):
        tables = [
            plan_group(spec, group.name, histogram, counted.row_bytes[group.name])
            for group in spec.column_groups
        ]
    for table in tables:
        planned = int(table["rows"].to_numpy().sum())
        if planned != histogram.total_rows:
            raise VerificationError(
                f"{planned} of {histogram.total_rows} rows are in planned leaves; report a bug"
            )
    per_order = {
        group.name: _leaves_per_order(table) for group, table in zip(spec.column_groups, tables, strict=True)
    }
    plan = pa.concat_tables(tables)
    shaping = open_source(FrozenRun.of(folder).source).shaping_lines(folder.schema())
    text = _text(spec, per_order, tables) + "".join(f"{line}\n" for line in shaping)
    if spec.newest is not None:
        text += f"{spec.newest} stays: {counted.rows_superseded} of {counted.rows_in} rows are superseded\n"
    with phases("store"):
        together(
            folder.storage,
            partial(write_table, folder.storage, RunFolder.PLAN, plan),
            partial(folder.storage.write, RunFolder.PLAN_SUMMARY, text.encode()),
        )
    return PlanReport(
        rows_in=histogram.total_rows,
        rows_out=histogram.total_rows,
        bytes=int(plan["bytes"].to_numpy().sum()),
        files=plan.num_rows,
        leaves={name: sum(orders.values()) for name, orders in per_order.items()},
        per_order=per_order,
        text=text,
        seconds=phases.seconds,
    )


def _deciding_cells(folder: RunFolder, spec: CatalogSpec, counted: HistogramReport) -> Histogram:
    """The cells that the leaves follow from.

    Where no pixel of an order is over a threshold, no leaf is deeper: the coarsest such order serves, if it
    is of those that are read in a moment. Else it takes all cells that were counted.
    """
    limit = min(_limit(spec, group.name, counted.row_bytes[group.name]) for group in spec.column_groups)
    few = pc.field("order") <= _COARSE_ORDER
    coarse = Histogram.from_table(read_table(folder.storage, RunFolder.PER_ORDER, CELL_COLUMNS, few))
    for order in coarse.orders:
        cells = coarse.select(coarse.order == order)
        # Below the orders that were counted are only the pixels that were counted deeper.
        is_whole = cells.total_rows == counted.rows_out
        if spec.lowest_order <= order <= spec.highest_order and is_whole and cells.rows.max() <= limit:
            return cells
    return Histogram.from_table(read_table(folder.storage, RunFolder.HISTOGRAM, CELL_COLUMNS))


def plan_group(spec: CatalogSpec, group: str, histogram: Histogram, weight: RowBytes) -> pa.Table:
    """Return the plan of one column group, as `PLAN_SCHEMA`."""
    counted, limit = rows_and_limit(spec, group, histogram, weight)
    leaves = plan_leaves(
        histogram, counted, limit, lowest_order=spec.lowest_order, highest_order=spec.highest_order
    )
    columns = {
        "group": pa.array(np.full(len(leaves.npix), group, object), pa.string()),
        "order": leaves.order.astype(np.int32),
        "npix": leaves.npix.astype(np.int64),
        "rows": leaves.rows.astype(np.int64),
        "bytes": np.ceil(leaves.rows * weight.disk).astype(np.int64) + weight.footer,
    }
    return pa.table(columns, schema=PLAN_SCHEMA)


def rows_and_limit(
    spec: CatalogSpec, group: str, histogram: Histogram, weight: RowBytes
) -> tuple[NDArray[np.int64], int]:
    """Return the rows of every cell, as far as they count, and the most rows of a leaf of a group.

    With a threshold in bytes, what a file takes beside its rows is taken off, and the rest is held in rows of
    the mean size. That is an estimate, and the write splits again what comes out too large; so a cell that is
    over it by itself does not fail the plan here, but is a leaf for the write to judge by the real file.

    Raises
    ------
    PlanError
        If the threshold is below the file of a single row.
    """
    most = _limit(spec, group, weight)
    if spec.threshold_of(group).unit is ThresholdUnit.ROWS:
        return histogram.rows, most
    return np.minimum(histogram.rows, most), most


def _limit(spec: CatalogSpec, group: str, weight: RowBytes) -> int:
    """The most rows of a leaf of a group."""
    threshold = spec.threshold_of(group)
    if threshold.unit is ThresholdUnit.ROWS:
        return threshold.value
    if threshold.value < weight.footer:
        raise PlanError(
            f"column group {group!r}: a file with one row takes {weight.footer} bytes, more than the "
            f"threshold of {threshold}; raise the threshold to several times that"
        )
    return 1 + int((threshold.value - weight.footer) / max(weight.disk, 1e-3))


def _leaves_per_order(table: pa.Table) -> dict[int, int]:
    orders, counts = np.unique(table["order"].to_numpy(), return_counts=True)
    return dict(zip(orders.tolist(), counts.tolist(), strict=True))


def _text(spec: CatalogSpec, per_order: dict[str, dict[int, int]], tables: list[pa.Table]) -> str:
    lines = []
    for group, table in zip(spec.column_groups, tables, strict=True):
        rows = table["rows"].to_numpy()
        orders = ", ".join(f"order {order}: {count}" for order, count in per_order[group.name].items())
        lines.append(
            f"{group.name}: {table.num_rows} leaves of at most {spec.threshold_of(group.name)} ({orders}); "
            f"rows per leaf {rows.min() if len(rows) else 0} to {rows.max(initial=0)}, "
            f"about {int(table['bytes'].to_numpy().sum()) / 1e6:.1f} MB on disk"
        )
    return "\n".join(lines) + "\n"
