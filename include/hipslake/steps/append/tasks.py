"""The tasks of an append: map tasks route the new rows, reduce tasks merge them with the standing leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.leaf_rows import ALONG, sorted_rows
from hipslake.catalog.merging import keys_of, within
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.standing import Standing
from hipslake.engine.model import Block, Counter, Routed
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel
from hipslake.steps.append.returning_rows import LateRows, returning_parts, returning_rows
from hipslake.steps.append.set_aside import store_beaten
from hipslake.steps.append.state import AppendState, load_append_state
from hipslake.steps.append.valid_rows import ValidRows
from hipslake.steps.ingest.write_state import GroupPlan
from hipslake.steps.ingest.write_tasks import LeafWriter, route_splits
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.stored_behind import flush
from hipslake.steps.stored_together import stored_together

ADDED, BESIDE, REMOVED = "added", "beside", "removed"
RESULT_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("change", pa.string()),
        ("taken_out", pa.int64()),
        ("closed", pa.int64()),
        *PARTITION_SCHEMA,
    ]
)


@dataclass(frozen=True)
class AppendTask:
    """Both halves of an append's exchange; small, so that it travels with every task.

    Attributes
    ----------
    run_uri, write_id, target_bytes, row_bytes
        What `load_append_state` takes.
    cores : int
        Cores of the engine, for the number of map tasks.
    merged : Counter
        New rows merged so far, per column group.
    """

    run_uri: str
    write_id: str
    target_bytes: int
    row_bytes: tuple[tuple[str, float], ...]
    cores: int
    merged: Counter

    @property
    def state(self) -> AppendState:
        """The run, its regions, and what stands there."""
        return load_append_state(self.run_uri, self.write_id, self.target_bytes, self.row_bytes)

    @property
    def sources(self) -> int:
        """Number of map tasks: those that read splits or rows that return, and one that announces tasks."""
        return len(self._runs) + returning_parts(self.state) + 1

    def route(self, number: int) -> Iterator[Routed]:
        """Send each reduce task its new rows; the last map task sends it none, but says that it has work."""
        state, runs = self.state, self._runs
        if number < len(runs):
            chosen = None
            if state.settled is not None and state.spec.validity is None:
                chosen = LateRows(state, state.settled.late, number).left_out
            elif state.settled is not None:
                chosen = ValidRows(state, state.settled.closed).with_intervals
            yield from route_splits(state, *runs[number], chosen)
            return
        if number < len(runs) + returning_parts(state):
            yield from returning_rows(state, number - len(runs))
            return
        for plan in state.plans:
            nothing = pa.RecordBatch.from_pylist([], plan.schema)
            yield from ((target, nothing) for target in np.unique(plan.target).tolist())

    def merge(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Merge the regions of a reduce task; say which files came, and which went."""
        state = self.state
        plan = state.plan_of(target)
        batches = [block.rows for block in blocks if block.rows.num_rows]
        blocks.clear()
        written = state.catalog, state.write_id, state.spec, plan.group, plan.schema
        together = stored_together(state.folder, state.catalog)
        with (
            together.task(),
            LeafWriter(
                *written,
                storing=partial(flush, state.folder),
                together=together,
                wrote=known_catalog(self.run_uri).wrote,
            ) as writer,
        ):
            merge = _Merge(state, plan, writer)
            for place in plan.leaves_of(target):
                mine = [within(batch, int(plan.start[place]), int(plan.stop[place])) for batch in batches]
                merge.region(Pixel(int(plan.order[place]), int(plan.npix[place])), mine)
                self.merged.add(int(plan.rows[place]))
        merge.store_beaten(target)
        yield pa.RecordBatch.from_pylist(
            [{**file, "change": merge.change_of(file), "taken_out": 0, "closed": 0} for file in writer.files]
            + merge.removed,
            schema=RESULT_SCHEMA,
        )

    @property
    def _runs(self) -> tuple[tuple[int, int], ...]:
        return self.state.splits.splits.runs(self.cores)


class _Merge:
    """Merges new rows into the leaves of one column group, region by region."""

    def __init__(self, state: AppendState, plan: GroupPlan, writer: LeafWriter) -> None:
        self.removed: list[dict[str, object]] = []
        self._state = state
        self._plan = plan
        self._writer = writer
        self._standing: Standing = state.standing[plan.group]
        self._beside: set[Pixel] = set()
        self._numbers = state.attempt.numbers
        self._beaten: list[pa.RecordBatch] = []
        self._returning = state.settled is not None and state.settled.returns.count > 0  # rows of any ordinal
        threshold = state.spec.threshold_of(plan.group)
        self._unit, self._most = threshold.unit, threshold.value

    def region(self, pixel: Pixel, new: list[pa.RecordBatch]) -> None:
        """Write the files of a region as they are after the append."""
        tree = self._standing.tree
        start, stop = pixel.interval
        if self._returning:
            new = _along_curve(new)
        first = int(np.searchsorted(tree.stop, start, side="right"))
        last = int(np.searchsorted(tree.start, stop, side="left"))
        if last - first == 1 and tree.order[first] < pixel.order:  # a part of a leaf that is split
            self._rewrite(pixel, first, new)
            return
        keys = np.sort(np.concatenate([keys_of(batch) for batch in new])) if new else np.empty(0, np.int64)
        for free in _free_pixels(pixel, tree, keys):
            self._writer.write(free, [within(batch, *free.interval) for batch in new])
        for leaf in range(first, last):
            begin, end = int(tree.start[leaf]), int(tree.stop[leaf])
            mine = [within(batch, begin, end) for batch in new]
            losing = self._state.may_lose(begin, end) or self._numbers is not None
            comes = any(batch.num_rows for batch in mine)
            if losing or (comes and not self._add_file(leaf, mine)):
                self._rewrite(tree[leaf], leaf, mine)

    def store_beaten(self, target: int) -> None:
        """Store the rows that left, and may return."""
        if self._beaten:
            state = self._state
            rows = pa.Table.from_batches(self._beaten)
            rows = in_order(rows, np.argsort(rows[ROW_COLUMN].to_numpy()))
            store_beaten(state.folder, state.write_id, self._plan.group, target, rows)

    def change_of(self, file: dict[str, object]) -> str:
        """What a file that was written is to its leaf."""
        return BESIDE if (file["order"], file["npix"]) in self._beside else ADDED

    def _add_file(self, leaf: int, new: list[pa.RecordBatch]) -> bool:
        """Write new rows as a further file of a leaf, if the spec says so and the leaf may hold them."""
        if not self._state.spec.gathers:
            return False
        pixel, files = self._standing.tree[leaf], self._standing.files(leaf)
        room = self._most - pc.sum(files[self._unit.value]).as_py()
        if not self._writer.write_if_fits(pixel, new, room):
            return False
        self._beside.add(pixel)
        return True

    def _rewrite(self, pixel: Pixel, leaf: int, new: list[pa.RecordBatch]) -> None:
        """Write what a pixel, a leaf or a part of one, holds from now on."""
        before, after, taken_out, closed = self._old_rows(pixel, leaf)
        whole = self._standing.tree[leaf] == pixel and self._numbers is None
        if whole and not (taken_out or closed) and not any(batch.num_rows for batch in new):
            return  # it stays as it is
        files = self._standing.files(leaf).to_pylist()
        for file in files:
            told = {"group": self._plan.group, "change": REMOVED, "taken_out": 0, "closed": 0}
            self.removed.append({**file, **told})
        self.removed[-1] |= {"taken_out": taken_out, "closed": closed}
        rows = [*before, *new, *after]
        self._writer.write(pixel, _along_curve(rows) if self._returning else rows)

    def _old_rows(
        self, pixel: Pixel, leaf: int
    ) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch], int, int]:
        """The rows that stay, of lower ordinals and of higher ones; how many do not, and how many change.

        Equal positions stand in the order of `_row`: so the new rows belong between the two.
        """
        before: list[pa.RecordBatch] = []
        after: list[pa.RecordBatch] = []
        taken_out = closed = 0
        ordinal = self._state.attempt.ordinal
        for rows in self._standing_rows(pixel, leaf):
            ordinals = _ordinals(rows)
            goes = self._going(rows, ordinals)
            taken_out += int(goes.sum())
            rows, changed = self._with_ends(rows)
            closed += changed
            for side, kept in ((before, ordinals < ordinal), (after, ordinals > ordinal)):
                kept &= ~goes
                if kept.all():
                    side.append(rows)
                elif kept.any():
                    side.append(rows.filter(pa.array(kept)))
        return before, after, taken_out, closed

    def _with_ends(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Rows of a leaf with the ends of their intervals from now on, and how many have another one."""
        settled, validity = self._state.settled, self._state.spec.validity
        if settled is None or validity is None or not settled.closes.count:
            return rows, 0
        at = rows.schema.get_field_index(validity.end)
        number = rows.column(rows.schema.get_field_index(ROW_COLUMN)).to_numpy()
        ends, count = settled.closes.with_ends(number, rows.column(at))
        return (rows.set_column(at, rows.schema.field(at), ends) if count else rows), count

    def _going(self, rows: pa.RecordBatch, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows of a leaf are taken out; those that may return are kept beside."""
        settled = self._state.settled
        if settled is None:
            return np.isin(ordinals, list(self._state.attempt.replaces))
        h29, number = keys_of(rows), rows.column(rows.schema.get_field_index(ROW_COLUMN)).to_numpy()
        goes = settled.goes.hold(h29, number)
        beaten = np.flatnonzero(goes)
        beaten = beaten[settled.beaten.hold(h29[beaten], number[beaten])]
        if len(beaten):
            self._beaten.append(rows.take(pa.array(beaten)))
        return goes

    def _standing_rows(self, pixel: Pixel, leaf: int) -> list[pa.RecordBatch]:
        """The rows of a pixel that are there, with their `_row`.

        Where it was not stored, rows are numbered along the curve: they stand in the order of their source
        already, as far as that decides anything.
        """
        files = self._standing.files(leaf)
        if self._numbers is None:
            return sorted_rows(self._state.catalog, files, self._plan.schema, pixel)
        stored = self._plan.schema.remove(self._plan.schema.get_field_index(ROW_COLUMN))
        number = (self._numbers << ORDINAL_SHIFT) + self._standing.rows_before(leaf)
        numbered = []
        for batch in sorted_rows(self._state.catalog, files, stored, self._standing.tree[leaf]):
            rows = pa.array(np.arange(number, number + batch.num_rows))
            number += batch.num_rows
            whole = pa.RecordBatch.from_arrays([*batch.columns, rows], schema=self._plan.schema)
            numbered.append(within(whole, *pixel.interval))
        return [batch for batch in numbered if batch.num_rows]


def _ordinals(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """The ordinal of each row's increment."""
    numbers: NDArray[np.int64] = rows.column(rows.schema.get_field_index(ROW_COLUMN)).to_numpy()
    return numbers >> ORDINAL_SHIFT


def _along_curve(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of batches as one, by (`_healpix_29`, `_row`)."""
    if not batches:
        return []
    rows = in_sort_order(pa.Table.from_batches(batches), ALONG).combine_chunks()
    found: list[pa.RecordBatch] = rows.to_batches()
    return found


def _free_pixels(pixel: Pixel, tree: PixelTree, keys: NDArray[np.int64]) -> Iterator[Pixel]:
    """The largest pixels in a region that hold new rows, but no leaf nor a part of one."""
    start, stop = pixel.interval
    if np.searchsorted(keys, start) == np.searchsorted(keys, stop):
        return
    at = int(np.searchsorted(tree.stop, start, side="right"))
    if at == len(tree) or tree.start[at] >= stop:
        yield pixel
    elif tree.order[at] > pixel.order:
        for child in pixel.children():
            yield from _free_pixels(child, tree, keys)
