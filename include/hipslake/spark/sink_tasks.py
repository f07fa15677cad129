"""The tasks of a sink: they count the partition values of the rows, and write the data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Block, Counter, Routed
from hipslake.errors import InputError
from hipslake.specs.partitioning import PartitionField
from hipslake.tables.keys import KeyFilter, key_hashes
from hipslake.tables.old_rows import read_data_file
from hipslake.tables.positions import Positions
from hipslake.tables.rows import Rows
from hipslake.tables.schemas import conformed
from hipslake.tables.shuffle import ShufflePlan
from hipslake.tables.values import PartitionValues, added_up, counted, value_columns
from hipslake.tables.writing import FileWriter, WrittenFile, described

FILE_COLUMN = "_file"
"""The column that rows bear on their way to their task: the number of their file."""

SAMPLE_ROWS = 16_384

COUNT_SCHEMA = pa.schema(
    [
        ("source", pa.int64()),
        ("rows", pa.int64()),
        ("counts", pa.binary()),  # Arrow IPC: partition values, rows
        ("ranges", pa.binary()),  # Arrow IPC: least and greatest of each key column
        ("filter", pa.binary()),  # zstd: the bits of a KeyFilter
        ("row_bytes", pa.float64()),
    ]
)


@dataclass(frozen=True)
class NewRows:
    """The rows of a source as the table keeps them.

    Attributes
    ----------
    rows : Rows
    schema : pyarrow.Schema
        Of the table.
    derived : tuple of PartitionField
        Pixels that are made.
    """

    rows: Rows
    schema: pa.Schema
    derived: tuple[PartitionField, ...]

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the table, of the rows of a part."""
        given = set(self.rows.schema.names)
        made = {field.column: field.source for field in self.derived}
        needed = [name if name in given else made.get(name) for name in columns]
        wanted = pa.schema([self.schema.field(name) for name in columns])
        raw = list(dict.fromkeys(name for name in needed if name is not None and name in given))
        for batch in self.rows.read(task, raw):
            yield conformed(batch, wanted, self.derived)


@dataclass(frozen=True)
class Interval:
    """The times [start, end) of a column; no end: all from start on."""

    column: str
    start: datetime
    end: datetime | None

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """Whether each row lies in it; null where it has no time."""
        column = rows.column(self.column)
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("us"))
        zone = column.type.tz
        inside = pc.greater_equal(column, _moment(self.start, zone))
        if self.end is None:
            return inside
        return pc.and_(inside, pc.less(column, _moment(self.end, zone)))


def _moment(moment: datetime, zone: str | None) -> pa.Scalar:
    micros = pa.scalar(moment, pa.timestamp("us", tz="UTC"))
    return micros if zone is not None else pa.scalar(micros.value, pa.timestamp("us"))


@dataclass(frozen=True)
class CountTask:
    """Counts the partition values of the rows of each part, and takes up their keys.

    Attributes
    ----------
    new : NewRows
    fields : tuple of PartitionField
        Of the table's columns.
    key : tuple of str
        Columns that must not be null; empty: none.
    within : Interval or None
        That all rows must lie in.
    writer : FileWriter
        Tells what rows weigh.
    samples : frozenset of int
        Parts that tell it.
    dropped : Positions
        Rows of each part that are left out.
    done : Counter
        Rows counted so far.
    """

    new: NewRows
    fields: tuple[PartitionField, ...]
    key: tuple[str, ...]
    within: Interval | None
    writer: FileWriter
    samples: frozenset[int]
    dropped: Positions
    done: Counter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Count a part."""
        columns = [field.column for field in self.fields] + list(self.key)
        columns += [self.within.column] if self.within else []
        columns = list(dict.fromkeys(columns)) or self.new.schema.names[:1]
        counts: list[pa.Table] = []
        keys, ranges = KeyFilter(), []
        rows = 0
        for batch in without(self.new.read(number, columns), self.dropped.of(number)):
            self._check(batch)
            values = value_columns(self.fields, batch)
            counts.append(counted(values, batch.num_rows))
            if self.key and batch.num_rows:
                keys.add(key_hashes(batch, self.key))
                ranges.append(_extremes(batch, self.key))
            rows += batch.num_rows
            self.done.add(batch.num_rows)
        found = added_up(pa.concat_tables(counts)) if counts else None
        yield pa.record_batch(
            [
                [number],
                [rows],
                [to_ipc(found) if found is not None else None],
                [to_ipc(pa.concat_tables(ranges)) if ranges else None],
                [pa.compress(keys.bits, "zstd", asbytes=True) if ranges else None],
                [self._row_bytes(number) if number in self.samples else None],
            ],
            schema=COUNT_SCHEMA,
        )

    def _check(self, batch: pa.RecordBatch) -> None:
        for name in self.key:
            if nulls := batch.column(name).null_count:
                raise InputError(
                    f"key: column {name!r} is null in {nulls} rows or more of the source; a row "
                    "without a key "
                    "cannot replace another. Filter them out, or choose another key"
                )
        if self.within is not None:
            inside = pc.fill_null(self.within.holds(batch), False)
            outside = batch.num_rows - (pc.sum(inside).as_py() or 0)
            if outside:
                raise InputError(
                    f"interval: {outside} rows or more of the source have a {self.within.column!r} "
                    "that is null "
                    f"or outside of {self.within.start} to {self.within.end}; a rerun would add them "
                    "twice. Filter "
                    "them out, or take mode upsert"
                )

    def _row_bytes(self, number: int) -> float | None:
        for batch in self.new.read(number, self.new.schema.names):
            if batch.num_rows:
                return self.writer.row_bytes(pa.Table.from_batches([batch.slice(0, SAMPLE_ROWS)]))
        return None


@dataclass(frozen=True)
class OldFile:
    """A file of the table that is replaced, but of which rows stay.

    Attributes
    ----------
    path : str
    rows : int
        That stay.
    value : int
        Number of their partition value.
    """

    path: str
    rows: int
    value: int


@dataclass(frozen=True)
class CountOldTask:
    """Counts the rows of old files that do not lie in an interval; gives the positions of those that do."""

    paths: tuple[str, ...]
    within: Interval
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Look through a file."""
        position, found = 0, []
        for batch in read_data_file(self.paths[number], self.schema, [self.within.column]):
            inside = pc.fill_null(self.within.holds(batch), False).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(inside) + position)
            position += batch.num_rows
        positions = np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
        yield pa.record_batch([[number], [positions.tobytes()]], schema=POSITIONS_SCHEMA)


POSITIONS_SCHEMA = pa.schema([("number", pa.int64()), ("positions", pa.binary())])


@dataclass(frozen=True)
class WriteTask:
    """Both halves of the exchange that writes data files, and the task that writes them without one.

    Sources are the old files, then the parts of the new rows.

    Attributes
    ----------
    new : NewRows
    old : tuple of OldFile
    dropped : Positions
        Rows of each part that are left out.
    gone : Positions
        Rows of each old file that are.
    fields : tuple of PartitionField
        Of the table's columns.
    values : PartitionValues
    plan : ShufflePlan
    writer : FileWriter
    written : Counter
        Rows written so far.
    """

    new: NewRows
    old: tuple[OldFile, ...]
    dropped: Positions
    gone: Positions
    fields: tuple[PartitionField, ...]
    values: PartitionValues
    plan: ShufflePlan
    writer: FileWriter
    written: Counter

    def route(self, number: int) -> Iterator[Routed]:
        """Send the rows of a source to the tasks of their files."""
        schema = self.new.schema.append(pa.field(FILE_COLUMN, pa.int64()))
        for batch, value, rank in self._ranked(number):
            file = self.plan.file_of(value, rank)
            target = self.plan.task[file]
            if not (_ascends(file) and _ascends(target)):
                order = np.lexsort((file, target))
                batch, file, target = batch.take(pa.array(order)), file[order], target[order]
            marked = pa.RecordBatch.from_arrays([*batch.columns, pa.array(file)], schema=schema)
            for first, last in runs_of(target):
                yield int(target[first]), marked.slice(first, last - first)

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the files of a task."""
        batches = [block.rows for block in blocks]
        blocks.clear()
        numbers = [batch.column(batch.num_columns - 1).to_numpy() for batch in batches]
        written = []
        for file in np.unique(np.concatenate(numbers)).tolist():
            parts = []
            for batch, number in zip(batches, numbers, strict=True):
                first, last = np.searchsorted(number, [file, file + 1]).tolist()
                if last > first:
                    parts.append(batch.slice(first, last - first))
            rows = pa.Table.from_batches(parts).drop_columns([FILE_COLUMN])
            value = int(np.searchsorted(self.plan.first_file, file, side="right")) - 1
            written.append(self._write(rows, value, f"{file:06d}"))
        yield described(written)

    def write_directly(self, number: int) -> Iterator[pa.RecordBatch]:
        """Write the rows of a part without an exchange: per value as many files as the plan says."""
        found = list(self._ranked(number))
        if not found:
            return
        rows = pa.Table.from_batches([batch for batch, _, _ in found])
        values = np.concatenate([value for _, value, _ in found])
        order = np.argsort(values, kind="stable")
        rows, values = rows.take(pa.array(order)), values[order]
        written = []
        for first, last in runs_of(values):
            value = int(values[first])
            files = self.plan.files_apart(last - first)
            for file in range(files):
                start, stop = (first + (last - first) * at // files for at in (file, file + 1))
                name = f"{number:05d}-{value:06d}-{file:04d}"
                written.append(self._write(rows.slice(start, stop - start), value, name))
        yield described(written)

    def bytes_by_task(self, files: Sequence[WrittenFile]) -> tuple[int, ...]:
        """The bytes that each task has written, told by the names of its files."""
        total = [0] * self.plan.tasks
        for file in files:
            number = int(file.path.rpartition("/")[2].split("-")[0].removesuffix(".parquet"))
            total[int(self.plan.task[number]) if self.plan.shuffled else number] += file.bytes
        return tuple(total)

    def _write(self, rows: pa.Table, value: int, name: str) -> WrittenFile:
        written = self.writer.write(rows, self._records[value], name)
        self.written.add(rows.num_rows)
        return written

    def _ranked(self, number: int) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64], NDArray[np.int64]]]:
        """The rows of a source, the value of each, and its rank among all rows of that value."""
        ranks = self._first_ranks(number)
        for batch, value in self._valued(number):
            if not batch.num_rows:
                continue
            distinct, rows = np.unique(value, return_counts=True)
            if len(distinct) == 1:
                yield batch, value, np.arange(ranks[value[0]], ranks[value[0]] + len(value))
            else:
                order = np.argsort(value, kind="stable")
                rank = np.empty(len(value), np.int64)
                rank[order] = np.arange(len(value)) - np.repeat(np.cumsum(rows) - rows, rows)
                yield batch, value, rank + ranks[value]
            ranks[distinct] += rows

    def _valued(self, number: int) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        names = self.new.schema.names
        if number < len(self.old):
            file = self.old[number]
            for batch in without(read_data_file(file.path, self.new.schema, names), self.gone.of(number)):
                yield batch, np.full(batch.num_rows, file.value, np.int64)
            return
        part = number - len(self.old)
        for batch in without(self.new.read(part, names), self.dropped.of(part)):
            columns = value_columns(self.fields, batch)
            yield batch, self.values.numbers(columns, batch.num_rows)

    def _first_ranks(self, number: int) -> NDArray[np.int64]:
        ranks = np.zeros(self.plan.counts.values, np.int64)
        mine = self.plan.counts.source == number
        ranks[self.plan.counts.value[mine]] = self._starts[mine]
        return ranks

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return self.plan.counts.first_ranks()

    @cached_property
    def _records(self) -> list[tuple[Any, ...]]:
        return self.values.records()


def without(batches: Iterator[pa.RecordBatch], dropped: NDArray[np.int64] | None) -> Iterator[pa.RecordBatch]:
    """Batches without the rows at some positions (ascending) of them all."""
    if dropped is None or not len(dropped):
        yield from batches
        return
    position = 0
    for batch in batches:
        first, last = np.searchsorted(dropped, [position, position + batch.num_rows]).tolist()
        if last > first:
            stays = np.ones(batch.num_rows, bool)
            stays[dropped[first:last] - position] = False
            position += batch.num_rows
            yield batch.filter(pa.array(stays))
        else:
            position += batch.num_rows
            yield batch


def _ascends(numbers: NDArray[np.int64]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def runs_of(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The stretches [first, last) of equal numbers in a sorted array of numbers from 0 on."""
    cuts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return list(pairwise([*cuts, len(numbers)]))


def to_ipc(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(data: bytes) -> pa.Table:
    """The inverse of `to_ipc`."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def _extremes(batch: pa.RecordBatch, key: Sequence[str]) -> pa.Table:
    found = {}
    for name in key:
        column = batch.column(name)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if pa.types.is_fixed_size_binary(column.type):
            column = column.cast(pa.binary())
        extremes = pc.min_max(column)
        found[name] = pa.array([extremes["min"].as_py(), extremes["max"].as_py()], column.type)
    return pa.table(found)
