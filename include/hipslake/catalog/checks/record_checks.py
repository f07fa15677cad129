"""Checks of leaves against key records: of each key exactly the row of the winning record is in the leaves.

Records are read by ranges of keys, and of each range the winners are found. Sums of 64-bit hashes over
their rows, one for each column of the key, are held against those of the rows in leaves, so that nothing is
held and no row travels. Only where sums differ, rows are sent to tasks that say which of them are wrong. The
rows of records that lost are looked for in the files of superseded rows.

With intervals of validity, the rows of all records are in the leaves, and sums are also of both ends of each
interval, as the records of its key have them; every column group has both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.checks.findings import Problem, ProblemKind, or_unread
from hipslake.catalog.checks.held_columns import SUMS, LeafSumsTask, held_columns, sum_of
from hipslake.catalog.checks.leaf_lists import tasks_for
from hipslake.catalog.checks.record_file_checks import record_file_problems, record_list_problems
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.metadata import CatalogMetadata, Increment, RecordRun
from hipslake.catalog.records.key_ranges import KeyRanges
from hipslake.catalog.records.record_intervals import starts_of, with_intervals
from hipslake.catalog.records.record_lookup import BY_ROW
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import (
    DELETE_COLUMN,
    key_of,
    records_schema,
)
from hipslake.catalog.records.run_files import FILE_ROWS, read_span
from hipslake.catalog.records.run_merging import ranges_of_runs
from hipslake.catalog.records.winners import winning
from hipslake.catalog.row_sets import row_text
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.selection import joined_schema
from hipslake.engine.model import Block, Engine, Routed, by_target
from hipslake.engine.reordering import in_order
from hipslake.errors import CatalogFormatError, SchemaMismatchError
from hipslake.joins.key_codes import mixed_bits
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

PASS_ROWS = 32 << 20
"""Rows that an engine which holds all of an exchange is given at once."""

_TARGET_ROWS = 2 << 20
_EXAMPLES = 3
_WORD = 1 << 64
_PLACED = pa.schema([*((name, pa.int64()) for name in ROW_IDENTITY)])
_SIDED = _PLACED.append(pa.field("in_leaves", pa.bool_()))
_FAULTS = pa.schema([("fault", pa.string()), ("count", pa.int64()), ("rows", pa.list_(pa.int64()))])
_NEEDLESS = "are in the leaves, but not those of the last records of their keys"
_MISSING = "should be in the leaves by the last records of their keys, and are not"
_ELSEWHERE = "lie elsewhere on the sky than their records say"
_MEND = "restore the catalog's files from a copy, or roll back to a version that is right; report it as a bug"


def record_problems(
    storage: Storage,
    metadata: CatalogMetadata,
    engine: Engine,
    *,
    seen: Container[str] = (),
    against_rows: bool = True,
) -> Iterator[Problem]:
    """What is wrong with the key records of a version, and with its rows by them.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    engine : Engine
        Its tasks hold about two million records each.
    seen : container of str
        Paths of files that were looked at before, and are passed over.
    against_rows : bool
        Whether to hold records against the rows of the catalog.
    """
    try:
        increments = metadata.all_increments(storage)
    except (CatalogFormatError, FileNotFoundError):  # which was said of the sidecar
        return
    listed = list(record_list_problems(metadata, increments))
    yield from listed
    records = metadata.key_records
    if records is None or listed:
        return
    try:
        schema = records_schema(joined_schema(metadata), records.key, records.order_by)
    except SchemaMismatchError as error:
        yield Problem.of(ProblemKind.RECORDS, "", f"the catalog's columns do not fit to its records: {error}")
        return
    found = list(record_file_problems(storage, metadata, increments, schema, engine, seen=seen))
    yield from found
    if found or not against_rows:
        return
    wrong = _against_rows(storage, metadata, increments, schema, engine)
    yield from or_unread(wrong, "rows were not held against key records")


@dataclass(frozen=True)
class WinnersTask:
    """Finds the records that win in ranges of keys.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    runs : tuple of RecordRun
    schema : pyarrow.Schema
        Of records.
    ranges : KeyRanges
    order : RecordOrder
    starts : mapping of int to datetime, or None
        With intervals of validity: the starts themselves.
    """

    storage: Storage
    runs: tuple[RecordRun, ...]
    schema: pa.Schema
    ranges: KeyRanges
    order: RecordOrder
    starts: Mapping[int, datetime] | None

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give sums of the hashes of rows that live: for each column of the key, order and interval."""
        lives, beaten = self.told_apart(number)
        names = [name for name in lives.column_names if name not in (*ROW_IDENTITY, DELETE_COLUMN)]
        for name in names:
            yield sum_of(name, lives.select([name, *ROW_IDENTITY]), beaten.num_rows)

    def told_apart(self, number: int) -> tuple[pa.Table, pa.Table]:
        """The records of rows that live, and of those that do not, of a range of keys."""
        spans = read_span(self.storage, self.runs, self.schema, self.ranges.by, self.ranges.span(number))
        records = pa.concat_tables([self.schema.empty_table(), *spans])
        if self.starts is not None:
            return with_intervals(records, self.order.ranks, self.starts), self.schema.empty_table()
        won = winning(records, self.order)[ROW_COLUMN].to_numpy()
        puts = ~records[DELETE_COLUMN].to_numpy()
        is_won = np.isin(records[ROW_COLUMN].to_numpy(), won)
        return records.filter(pa.array(puts & is_won)), records.filter(pa.array(puts & ~is_won))


def _against_rows(
    storage: Storage,
    metadata: CatalogMetadata,
    increments: Sequence[Increment],
    schema: pa.Schema,
    engine: Engine,
) -> Iterator[Problem]:
    records = metadata.key_records
    assert records is not None
    keys = {each.ordinal: each.key for each in increments}
    starts = starts_of(keys) if records.validity is not None else None
    order = RecordOrder.of(metadata, increments)
    ranges = ranges_of_runs(storage, records.runs, key_of(schema), FILE_ROWS)
    task = WinnersTask(storage, records.runs, schema, ranges, order, starts)
    with engine.progress("key records"):
        sums = engine.run(task, tasks=len(ranges), result=SUMS)
    held = tuple(held_columns(storage, metadata, schema))
    parts = (each._replace(files=some) for each in held for some in each.files.cut(tasks_for(engine)))
    of_leaves = LeafSumsTask(tuple(parts))
    with engine.progress("rows of keys", rows=metadata.total_rows):
        found = engine.run(of_leaves, tasks=len(of_leaves.columns), result=SUMS)
    differ = [each for each in held if _totals(sums, each.name) != _totals(found, each.label)]
    if differ:
        faults = list(_wrong_rows(task, ColumnFiles.of(storage, metadata, records.key[0]), engine, metadata))
        yield from faults
        if not faults:
            named = ", ".join(map(repr, dict.fromkeys(each.files.column for each in differ)))
            yield _fault(
                f"rows have other values in {named} than their records, or stand in the leaves twice"
            )
    beaten = int(sums.filter(pa.compute.equal(sums["column"], records.key[0]))["beaten"].to_numpy().sum())
    if beaten != records.rows_superseded:
        yield _fault(
            f"{beaten} rows are superseded by their records, metadata.json says {records.rows_superseded}"
        )
    if beaten:
        yield from _lost_rows(task, records.superseded, engine, beaten)


def _totals(sums: pa.Table, name: str) -> tuple[int, int]:
    mine = sums.filter(pa.compute.equal(sums["column"], name))
    total = mine["total"].to_numpy().view(np.uint64).sum(dtype=np.uint64)
    return int(mine["rows"].to_numpy().sum()), int(total)


@dataclass(frozen=True)
class WrongRowsTask:
    """Both halves of an exchange: rows of leaves and rows that should be there go to the task of their hash.

    Attributes
    ----------
    winners : WinnersTask
    files : tuple of ColumnFiles
        The leaves, cut into parts.
    targets, passes, this : int
        Of all rows, those of one pass are looked at.
    """

    winners: WinnersTask
    files: tuple[ColumnFiles, ...]
    targets: int
    passes: int
    this: int

    def route(self, number: int) -> Iterator[Routed]:
        """Send rows of a range of keys, or of some leaves."""
        ranges = len(self.winners.ranges)
        if number < ranges:
            yield from self._sent(self.winners.told_apart(number)[0], in_leaves=False)
            return
        for batch in self.files[number - ranges].batches((ROW_COLUMN,)):
            yield from self._sent(pa.Table.from_batches([batch]), in_leaves=True)

    def _sent(self, rows: pa.Table, *, in_leaves: bool) -> Iterator[Routed]:
        placed = rows.select(_PLACED.names).cast(_PLACED)
        hashes = mixed_bits(placed[ROW_COLUMN].to_numpy())
        share = (hashes % np.uint64(self.targets * self.passes)).astype(np.int64)
        mine = np.where(share // self.targets == self.this, share % self.targets, -1)
        for target, places in by_target(mine, self.targets):
            side = pa.array(np.full(len(places), in_leaves))
            some = in_order(placed, places).append_column("in_leaves", side).cast(_SIDED)
            yield from ((target, part) for part in some.combine_chunks().to_batches())

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Tell which rows are on one side only, and which lie elsewhere."""
        table = pa.Table.from_batches([block.rows for block in blocks], _SIDED)
        blocks.clear()
        here = table["in_leaves"].to_numpy()
        row, h29 = table[ROW_COLUMN].to_numpy(), table[HEALPIX_COLUMN].to_numpy()
        held, due = row[here], row[~here]
        both, mine, theirs = np.intersect1d(held, due, return_indices=True)
        faults = {
            _NEEDLESS: np.setdiff1d(held, due),
            _MISSING: np.setdiff1d(due, held),
            _ELSEWHERE: both[h29[here][mine] != h29[~here][theirs]],
        }
        found = [
            {"fault": fault, "count": len(rows), "rows": rows[:_EXAMPLES].tolist()}
            for fault, rows in faults.items()
            if len(rows)
        ]
        yield pa.RecordBatch.from_pylist(found, _FAULTS)


def _wrong_rows(
    winners: WinnersTask, leaves: ColumnFiles, engine: Engine, metadata: CatalogMetadata
) -> Iterator[Problem]:
    """Which rows of leaves are not those that records say."""
    files = tuple(leaves.cut(tasks_for(engine)))
    rows = 2 * metadata.total_rows
    passes = max(1, -(-rows // PASS_ROWS)) if engine.holds_exchanges else 1
    targets = max(1, -(-rows // passes // _TARGET_ROWS))
    tables = []
    for this in range(passes):
        task = WrongRowsTask(winners, files, targets, passes, this)
        tables.append(
            engine.exchange(
                sources=len(winners.ranges) + len(files),
                mapper=task.route,
                targets=targets,
                reducer=task.compare,
                result=_FAULTS,
            )
        )
    yield from _faults(tables)


@dataclass(frozen=True)
class LostRowsTask:
    """Both halves of an exchange: rows of records that lost go to the task that reads their range of `_row`.

    Attributes
    ----------
    winners : WinnersTask
    runs : tuple of RecordRun
        Of superseded rows.
    ranges : KeyRanges
        Of `_row`.
    first, last : int
        The ranges of this pass, [first, last).
    """

    winners: WinnersTask
    runs: tuple[RecordRun, ...]
    ranges: KeyRanges
    first: int
    last: int

    def route(self, number: int) -> Iterator[Routed]:
        """Send the rows of a range of keys that are in no leaf."""
        beaten = self.winners.told_apart(number)[1].select(_PLACED.names).cast(_PLACED)
        for target, batch in self.ranges.route(beaten):
            if self.first <= target < self.last:
                yield target, batch

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Tell which of them are not stored, or lie elsewhere."""
        table = pa.Table.from_batches([block.rows for block in blocks], _PLACED)
        blocks.clear()
        spans = read_span(self.winners.storage, self.runs, _PLACED, BY_ROW, self.ranges.span(target))
        stored = pa.concat_tables([_PLACED.empty_table(), *spans])
        missing = table.filter(pa.array(~_among(table, stored)))[ROW_COLUMN].to_pylist()
        if missing:
            fault = "were superseded, and are not in the files of superseded rows"
            shown = {"fault": fault, "count": len(missing), "rows": sorted(missing)[:_EXAMPLES]}
            yield pa.RecordBatch.from_pylist([shown], _FAULTS)


def _among(rows: pa.Table, others: pa.Table) -> NDArray[np.bool_]:
    """Which rows others have too, with the same place."""
    dtype = np.dtype([(name, np.int64) for name in ROW_IDENTITY])
    both = []
    for table in (rows, others):
        pairs = np.empty(table.num_rows, dtype)
        for name in ROW_IDENTITY:
            pairs[name] = table[name].to_numpy()
        both.append(pairs)
    return np.isin(both[0], both[1])


def _lost_rows(
    winners: WinnersTask, runs: tuple[RecordRun, ...], engine: Engine, beaten: int
) -> Iterator[Problem]:
    """Which rows of records that lost are not stored."""
    ranges = ranges_of_runs(winners.storage, runs, BY_ROW, _TARGET_ROWS)
    passes = max(1, -(-beaten // PASS_ROWS)) if engine.holds_exchanges else 1
    step = -(-len(ranges) // passes)
    tables = []
    for first in range(0, len(ranges), step):
        task = LostRowsTask(winners, runs, ranges, first, first + step)
        tables.append(
            engine.exchange(
                sources=len(winners.ranges),
                mapper=task.route,
                targets=len(ranges),
                reducer=task.compare,
                result=_FAULTS,
            )
        )
    yield from _faults(tables)


def _faults(tables: Iterable[pa.Table]) -> Iterator[Problem]:
    found: dict[str, tuple[int, list[int]]] = {}
    for row in pa.concat_tables(tables).to_pylist():
        count, rows = found.get(row["fault"], (0, []))
        found[row["fault"]] = count + row["count"], sorted([*rows, *row["rows"]])[:_EXAMPLES]
    for fault, (count, rows) in sorted(found.items()):
        more = "; ..." if count > len(rows) else ""
        yield _fault(f"{count} rows {fault}: {'; '.join(map(row_text, rows))}{more}")


def _fault(message: str) -> Problem:
    return Problem.of(ProblemKind.RECORDS, "", message, _MEND)
