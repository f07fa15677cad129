"""The tasks of the write step: map tasks index, sort and route rows; reduce tasks write leaf files.

Rows that are not on the sky are kept whole beside the catalog, with the reason and where they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.layouts import layout_paths, rejects_root
from hipslake.catalog.leaf import LeafEnds, encode_leaf_into, read_footer, write_options
from hipslake.catalog.leaf_buffer import LeafBuffer
from hipslake.catalog.merging import SortedBatches
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.placement import REASONS, in_curve_order
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.engine.model import Block, Counter, Routed
from hipslake.errors import PlanError, StorageError
from hipslake.sources.names import REJECT_COLUMNS
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.threshold import ThresholdUnit
from hipslake.sphere.pixels import MAX_ORDER, Pixel
from hipslake.steps.ingest.leaf_ends import ENDS_SCHEMA, MOST_BYTES, TaskEnds
from hipslake.steps.ingest.rows_to_merge import RowsToMerge
from hipslake.steps.ingest.split_rows import CHUNK_BYTES, Chunk, chunks
from hipslake.steps.ingest.write_state import GroupPlan, WriteState, load_write_state
from hipslake.steps.run import RunFolder
from hipslake.steps.stored_together import AtOnce
from hipslake.storage.atomic import synced_behind, synced_later
from hipslake.storage.folder import Storage

REASON_COLUMN, FILE_COLUMN, FILE_ROW_COLUMN = REJECT_COLUMNS


MIN_BLOCK_BYTES = 256 << 10
MAX_CHUNK_BYTES = 256 << 20  # what a map task holds of its split at once

RESULT_SCHEMA = pa.schema([("group", pa.string()), *PARTITION_SCHEMA])
WRITTEN_SCHEMA = pa.schema([*RESULT_SCHEMA, *ENDS_SCHEMA])


@dataclass(frozen=True)
class WriteTask:
    """Both halves of the write step's exchange; small, so that it travels with every task.

    Attributes
    ----------
    run_uri, attempt, target_bytes, row_bytes
        What `load_write_state` takes.
    cores : int
        Cores of the cluster, for the number of map tasks.
    written : Counter
        Rows written so far, per column group.
    kept : str
        Where the rows are that the histogram step has kept, relative to the run folder; "" if it has not.
    step_syncs : bool
        Whether the step syncs the leaf files when all tasks have ended.
    """

    run_uri: str
    attempt: str
    target_bytes: int
    row_bytes: tuple[tuple[str, float], ...]
    cores: int
    written: Counter
    kept: str = ""
    step_syncs: bool = False

    @property
    def state(self) -> WriteState:
        """The run, its plan and its splits."""
        return load_write_state(self.run_uri, self.attempt, self.target_bytes, self.row_bytes)

    @property
    def sources(self) -> tuple[tuple[int, int], ...]:
        """The splits that each map task reads."""
        return self.state.splits.splits.runs(self.cores)

    def route(self, number: int) -> Iterator[Routed]:
        """Read splits, and send each reduce task its rows: indexed, in curve order, per column group."""
        yield from route_splits(self.state, *self.sources[number])

    def merge(self, target: int) -> Iterator[pa.RecordBatch]:
        """Write the leaf files of a task from the rows that the histogram step has kept; as `write`."""
        state = self.state
        kept = RowsToMerge(RunFolder(self.run_uri).storage, self.kept, state.splits.row_starts)
        yield from self._write(target, kept.batches(*state.stretch_of(target)))

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the leaf files of a reduce task; give a row for each."""
        batches = [block.rows for block in blocks]
        blocks.clear()
        yield from self._write(target, batches)

    def _write(self, target: int, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        state = self.state
        plan = state.plan_of(target)
        rows = SortedBatches(batches)
        kept = state.spec.layout is Layout.HATS  # for its further files, which hold them
        ends = TaskEnds(MOST_BYTES // state.targets if kept else 0)
        with LeafWriter(
            state.catalog,
            state.write_id,
            state.spec,
            plan.group,
            plan.schema,
            wrote=ends.wrote,
            synced=synced_later if self.step_syncs else synced_behind,
        ) as writer:
            # The smallest last: where the task syncs its files, it waits for that one.
            for leaf in sorted(plan.leaves_of(target), key=lambda leaf: -plan.rows[leaf]):
                pixel = Pixel(int(plan.order[leaf]), int(plan.npix[leaf]))
                writer.write(pixel, rows.within(int(plan.start[leaf]), int(plan.stop[leaf])))
                self.written.add(int(plan.rows[leaf]))
        yield pa.RecordBatch.from_pylist(ends.with_ends(writer.files), schema=WRITTEN_SCHEMA)


def route_splits(
    state: WriteState, first: int, last: int, chosen: Callable[[Chunk, int], Chunk] | None = None
) -> Iterator[Routed]:
    """The rows of splits for every reduce task: indexed, in curve order, per column group.

    Parameters
    ----------
    state : WriteState
    first, last : int
        The splits [first, last).
    chosen : callable, optional
        Takes a chunk and the `_row` of its first row; leaves those rows out that are not to be sent.
    """
    splits = state.splits.splits.between(first, last)
    row_start = (state.ordinal << ORDINAL_SHIFT) + int(state.splits.row_starts[first])
    # The more reduce tasks, the more rows at a time, so that a block is worth its envelope.
    chunk_bytes = min(max(CHUNK_BYTES, state.targets * MIN_BLOCK_BYTES), MAX_CHUNK_BYTES)
    read = chunks(
        state.source,
        splits,
        state.schema,
        state.placer,
        superseded=state.superseded,
        chunk_bytes=chunk_bytes,
    )
    for chunk in read:
        if chunk.placed.reasons is not None:
            write_rejects(state, chunk)
        if chosen is not None:
            chunk = chosen(chunk, row_start + chunk.first)
        keys, groups = in_curve_order(
            chunk.rows,
            chunk.placed,
            position=state.spec.position,
            schemas=state.schemas,
            row_start=row_start + chunk.first,
        )
        for plan in state.plans:
            yield from to_leaves(plan, keys, groups[plan.group])


def to_leaves(plan: GroupPlan, keys: NDArray[np.int64], rows: pa.RecordBatch) -> Iterator[Routed]:
    """Rows of a column group, each to the reduce task of its leaf.

    Parameters
    ----------
    plan : GroupPlan
    keys : int64[n]
        Their `_healpix_29`, ascending.
    rows : pyarrow.RecordBatch of n
    """
    targets, starts = plan.target_starts()
    cuts = np.append(np.searchsorted(keys, starts), len(keys)).tolist()
    for target, first, last in zip(targets.tolist(), cuts[:-1], cuts[1:], strict=True):
        if last > first:
            yield target, rows.slice(first, last - first)


class LeafWriter:
    """Writes leaf files of one column group; splits what comes out over the threshold.

    A file is put into a store while the next one is encoded: the store makes the task wait, but not the core.
    On a disk it is synced while the next ones are, unless `synced` leaves that to others. Errors of it are
    raised by the next `write`, or at the end of the block, when all files are stored and, as a rule, synced.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    write_id : str
        The folder that is written into.
    spec : CatalogSpec
    group : str
    schema : pyarrow.Schema
        Of the group's leaf files.
    splits : bool
        Whether the group has a threshold. A margin has none: its pixels are what they are.
    known : callable, optional
        Gives the file of a pixel that an earlier write has stored, as `PARTITION_SCHEMA`, or None: what comes
        out the same is not stored again.
    storing : callable
        Called before each file is stored: for what is to be asked of stores beside it.
    together : AtOnce, optional
        With which files of other writers files are stored.
    wrote : callable
        Told of each file that was stored: its path, and its ends.
    synced : callable
        Gives the block in which files of a disk are written: `synced_behind`, or `synced_later`.

    Attributes
    ----------
    files : list of dict
        What lies there, as `RESULT_SCHEMA`; complete after the block.
    """

    def __init__(
        self,
        catalog: Storage,
        write_id: str,
        spec: CatalogSpec,
        group: str,
        schema: pa.Schema,
        *,
        splits: bool = True,
        known: Callable[[Pixel], Mapping[str, object] | None] = lambda pixel: None,
        storing: Callable[[], object] = lambda: None,
        together: AtOnce | None = None,
        wrote: Callable[[str, LeafEnds], None] = lambda path, ends: None,
        synced: Callable[[], AbstractContextManager[None]] = synced_behind,
    ) -> None:
        self._known, self._storing, self._wrote = known, storing, wrote
        self._together, self._synced = together or AtOnce(), synced
        self.files: list[dict[str, object]] = []
        self._pool = ThreadPoolExecutor(1)
        self._stored: Future[dict[str, object]] | None = None
        self._syncing = ExitStack()
        self._spec, self._catalog, self._write_id = spec, catalog, write_id
        self._group, self._schema = group, schema
        self._layout = layout_paths(spec.layout, gathers=spec.gathers)
        self._options = write_options(spec.parquet, schema)
        self._most_bytes: int | None = None
        self._most_rows: int | None = None
        if splits:
            threshold = spec.threshold_of(group)
            in_bytes = threshold.unit is ThresholdUnit.BYTES
            self._most_bytes = threshold.value if in_bytes else None
            self._most_rows = None if in_bytes else threshold.value

    def __enter__(self) -> LeafWriter:
        if self._catalog.is_local:
            self._syncing.enter_context(self._synced())
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        with self._pool:
            self._syncing.__exit__(kind, *error)
            if kind is None:
                self._collect()

    def write(self, pixel: Pixel, batches: SortedBatches | Sequence[pa.RecordBatch]) -> None:
        """Write the leaf of a pixel, or those of its children; `batches` as of `SortedBatches`.

        Raises
        ------
        PlanError
            If the file is over the threshold and the pixel cannot be split.
        """
        sorted_rows = SortedBatches.of(batches)
        rows = sorted_rows.num_rows
        if rows == 0:
            return
        if self._most_rows is not None and rows > self._most_rows:
            self._check_order(pixel, f"{rows} rows, over the threshold of {self._most_rows} rows")
            self._split(pixel, sorted_rows)
            return
        encoded, ends = self._encoded(sorted_rows)
        if self._most_bytes is not None and encoded.tell() > self._most_bytes:
            self._check_can_split(pixel, rows, encoded.tell())
            encoded.give_back()
            self._split(pixel, sorted_rows)
            return
        self._hand_over(pixel, rows, encoded, ends)

    def write_if_fits(self, pixel: Pixel, batches: list[pa.RecordBatch], room: int) -> bool:
        """Write a file if it takes no more than the room, in the unit of the threshold; whether it did."""
        rows = sum(batch.num_rows for batch in batches)
        if self._most_rows is not None and rows > room:
            return False
        encoded, ends = self._encoded(SortedBatches(batches))
        if self._most_bytes is not None and encoded.tell() > room:
            encoded.give_back()
            return False
        self._hand_over(pixel, rows, encoded, ends)
        return True

    def _encoded(self, rows: SortedBatches) -> tuple[LeafBuffer, LeafEnds]:
        buffer = LeafBuffer.taken()
        row_groups = rows.row_groups(self._spec.parquet.row_group_rows)
        return buffer, encode_leaf_into(buffer, row_groups, self._schema, self._options)

    def _hand_over(self, pixel: Pixel, rows: int, encoded: LeafBuffer, ends: LeafEnds) -> None:
        told = pixel, rows, encoded.content, encoded.sha256, ends
        if self._catalog.is_local:
            self.files.append(self._store(*told))
            encoded.give_back()
            return
        self._collect()  # one file at a time is held beside the one that is encoded
        # Its memory is not given back: what is put into a store may still be on its way.
        self._stored = self._pool.submit(self._store, *told)

    def _split(self, pixel: Pixel, rows: SortedBatches) -> None:
        for child in pixel.children():
            self.write(child, rows.within(*child.interval))

    def _collect(self) -> None:
        if self._stored is not None:
            with self._together.waiting():
                self.files.append(self._stored.result())
            self._stored = None

    def _store(
        self, pixel: Pixel, rows: int, content: pa.Buffer, sha256: str, ends: LeafEnds
    ) -> dict[str, object]:
        path = self._layout.partition_path(self._write_id, self._group, pixel)
        known = self._known(pixel)
        if known is not None and known["sha256"] == sha256:
            return {"group": self._group, **known}
        self._together.before(content.size)
        self._storing()
        self._catalog.write(path, content)
        if self._catalog.is_local:
            found = read_footer(self._catalog, path, content.size).num_rows
        else:  # an object is put whole, or not at all: who puts it need not wait for another answer
            found = pq.read_metadata(pa.BufferReader(content)).num_rows
        if found != rows:
            raise StorageError(
                f"{self._catalog.uri(path)}: {rows} rows were written, but its footer says {found}"
            )
        self._wrote(path, ends)
        return {
            "group": self._group,
            "order": pixel.order,
            "npix": pixel.npix,
            "path": path,
            "rows": rows,
            "bytes": content.size,
            "sha256": sha256,
        }

    def _check_can_split(self, pixel: Pixel, rows: int, size: int) -> None:
        excess = f"{rows} rows make a file of {size} bytes, over the threshold of {self._most_bytes} bytes"
        if rows == 1:
            raise PlanError(
                f"column group {self._group!r}, {pixel}: {excess}; a file of one row cannot be split: "
                "raise the threshold above it"
            )
        self._check_order(pixel, excess)

    def _check_order(self, pixel: Pixel, excess: str) -> None:
        highest = min(self._spec.highest_order, MAX_ORDER)
        if pixel.order >= highest:
            raise PlanError(
                f"column group {self._group!r}, {pixel}: {excess}, and it may not be split below order "
                f"{highest}; raise the threshold" + ("" if highest == MAX_ORDER else " or highest_order")
            )


def write_rejects(state: WriteState, chunk: Chunk) -> None:
    """Write the bad rows of a chunk: all source columns, then reason, file and row in it (from 1)."""
    reasons, bad_rows = chunk.placed.reasons, chunk.placed.bad
    assert reasons is not None
    assert bad_rows is not None
    bad = np.flatnonzero(bad_rows)
    if not len(bad):
        return
    rows = chunk.rows.take(pa.array(bad))
    split, row = (places[bad] for places in chunk.places)
    in_file = state.splits.rows_in_file_before[split] + row + 1
    table = pa.Table.from_batches([rows])
    table = table.append_column(REASON_COLUMN, pa.array(np.array(REASONS)[reasons[bad]]))
    table = table.append_column(FILE_COLUMN, state.splits.splits.table["uri"].take(pa.array(split)))
    table = table.append_column(FILE_ROW_COLUMN, pa.array(in_file))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    name = f"split-{chunk.pieces[0].split:08d}-row-{chunk.pieces[0].first:012d}.parquet"
    state.catalog.write(f"{rejects_root(state.write_id)}/{name}", sink.getvalue())
