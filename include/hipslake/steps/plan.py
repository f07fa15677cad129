"""Plan: the leaves of every column group, each group on its own threshold. Needs no Spark."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from hipslake.errors import PlanError, VerificationError
from hipslake.planning.histogram import Histogram
from hipslake.planning.splits import assign_targets, plan_leaves
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.threshold import ThresholdUnit
from hipslake.steps.histogram import HistogramReport, HistogramRequest, RowBytes
from hipslake.steps.plan_table import plan_of_group
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.write import DEFAULT_TARGET_BYTES


class PlanRequest(Request):
    """Plan the leaves of a counted run."""

    step: ClassVar[str] = "plan"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PLAN, RunFolder.PLAN_SUMMARY)

    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # Arrow bytes that one reduce task writes


class PlanReport(Report):
    """Rows in: the rows of the histogram. Rows out: the rows of the leaves, the same for every group."""

    step: str = PlanRequest.step
    leaves: dict[str, int] = Field(default_factory=dict)  # column group -> leaves
    per_order: dict[str, dict[int, int]] = Field(default_factory=dict)  # column group -> order -> leaves
    targets: int = 0  # reduce tasks, over all groups
    text: str = ""  # the same for people


def run(request: PlanRequest) -> PlanReport:
    """Plan.

    Raises
    ------
    PlanError
        If no plan can keep a threshold.
    """
    phases = Phases()
    folder = request.folder
    spec = folder.run().spec
    with phases("read"):
        counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
        histogram = Histogram.from_table(read_table(folder.storage, RunFolder.HISTOGRAM))
    if histogram.total_rows != counted.rows_out:
        raise VerificationError(
            f"{folder.uri_of(RunFolder.HISTOGRAM)} holds {histogram.total_rows} rows, but its report counts "
            f"{counted.rows_out}; clear the histogram task to count again"
        )
    tables: list[pa.Table] = []
    with phases("plan"):
        for group in spec.column_groups:
            first_target = 1 + max(
                (int(table["target"].to_numpy().max(initial=-1)) for table in tables), default=-1
            )
            weight = counted.row_bytes[group.name]
            tables.append(
                plan_group(
                    spec, group.name, histogram, weight, request.target_bytes, first_target=first_target
                )
            )
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
    text = _text(spec, per_order, tables)
    with phases("store"):
        write_table(folder.storage, RunFolder.PLAN, plan)
        folder.storage.write(RunFolder.PLAN_SUMMARY, text.encode())
    return PlanReport(
        rows_in=histogram.total_rows,
        rows_out=histogram.total_rows,
        bytes=int(plan["bytes"].to_numpy().sum()),
        files=plan.num_rows,
        leaves={name: sum(orders.values()) for name, orders in per_order.items()},
        per_order=per_order,
        targets=int(plan["target"].to_numpy().max(initial=-1)) + 1,
        text=text,
        seconds=phases.seconds,
    )


def plan_group(
    spec: CatalogSpec,
    group: str,
    histogram: Histogram,
    weight: RowBytes,
    target_bytes: int,
    *,
    first_target: int = 0,
) -> pa.Table:
    """Return the plan of one column group, as `PLAN_SCHEMA`."""
    weights, limit = weights_and_limit(spec, group, histogram, weight)
    leaves = plan_leaves(
        histogram, weights, limit, lowest_order=spec.lowest_order, highest_order=spec.highest_order
    )
    memory = np.ceil(leaves.rows * weight.memory).astype(np.int64)
    return plan_of_group(
        group,
        leaves,
        file_bytes=np.ceil(leaves.rows * weight.disk).astype(np.int64) + weight.footer,
        memory=memory,
        targets=(assign_targets(memory, target_bytes) + first_target).astype(np.int32),
    )


def weights_and_limit(
    spec: CatalogSpec, group: str, histogram: Histogram, weight: RowBytes
) -> tuple[NDArray[np.int64], int]:
    """Return what counts against a group's threshold, per cell, and the largest sum of it that a leaf may have.

    With a threshold in bytes a leaf has its rows' bytes and what a file takes beside them, so the latter is
    taken off. Those bytes are estimates, and the write splits again what comes out too large: so a pixel
    that cannot be split (one row, or the highest order) is left for the write to judge by the real file.

    Raises
    ------
    PlanError
        If the threshold is below the file of a single row.
    """
    threshold = spec.threshold_of(group)
    if threshold.unit is ThresholdUnit.ROWS:
        return histogram.rows, threshold.value
    if threshold.value < weight.footer:
        raise PlanError(
            f"column group {group!r}: a file with one row takes {weight.footer} bytes, more than the "
            f"threshold of {threshold}; raise the threshold to several times that"
        )
    limit = max(threshold.value - weight.footer, 1)
    whole = (histogram.rows == 1) | (histogram.order >= spec.highest_order)
    weights = histogram.bytes[group].astype(np.int64)
    return np.where(whole, np.minimum(weights, limit), weights), limit


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
