"""A pass over the new rows of a sink: how many each partition value has, and which keys they bear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.engine.model import Counter
from hipslake.errors import InputError
from hipslake.specs.partition_fields import PartitionField
from hipslake.specs.table_writing import TableMode
from hipslake.steps.sink.sink_try import Interval, NewRows, RowPositions, SinkTry, without
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.partition_values import added_up, counted, value_columns
from hipslake.tables.row_keys import KeyFilter, key_hashes
from hipslake.tables.writing_protocol import RowWriter

SOURCE = "source"
"""The column of `Counted.values` that says of which part rows are."""

_SAMPLE_PARTS = 3
_SAMPLE_ROWS = 16_384

_RESULT = pa.schema(
    [
        ("source", pa.int64()),
        ("rows", pa.int64()),
        ("counts", pa.binary()),  # Arrow IPC: partition values, rows
        ("ranges", pa.binary()),  # Arrow IPC: least and greatest of each key column
        ("filter", pa.binary()),  # zstd: the bits of a KeyFilter
        ("row_bytes", pa.float64()),
        ("delete_records", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Counted:
    """What a pass over the new rows found.

    Attributes
    ----------
    rows : int
    values : pyarrow.Table or None
        Per part: its number as `source`, partition values, `rows`.
    ranges : list of pyarrow.Table
        Least and greatest of each key column.
    keys : KeyFilter
    row_bytes : float
        That a row takes in a data file.
    delete_records : int
        Records of change data that delete the row of their key.
    """

    rows: int
    values: pa.Table | None
    ranges: list[pa.Table]
    keys: KeyFilter
    row_bytes: float
    delete_records: int = 0


def count_rows(tried: SinkTry, dropped: RowPositions) -> Counted:
    """Count the new rows of a sink, without those of each part that are `dropped`.

    Raises
    ------
    InputError
        A key is null, or a row lies outside of the interval.
    """
    order, engine, tasks = tried.order, tried.engine, tried.new.rows.tasks
    samples = frozenset(sampled_parts(tasks))
    within = Interval.of(order) if order.spec.mode is TableMode.OVERWRITE_INTERVAL else None
    task = CountRowsTask(
        tried.new,
        tried.fields,
        order.spec.key,
        order.spec.order_by,
        within,
        tried.writer,
        samples,
        dropped,
        engine.counter(),
    )
    with engine.progress("count", done=task.done):
        found = engine.run(task, tasks=tasks + tried.new.deleted_tasks, result=_RESULT)
    counts, keys, ranges = [], KeyFilter(), []
    for row in found.to_pylist():
        if row["counts"] is not None:
            table = from_ipc(row["counts"])
            counts.append(table.append_column(SOURCE, pa.array([row["source"]] * len(table), pa.int64())))
        if row["filter"] is not None:
            bits = pa.decompress(row["filter"], len(keys.bits), "zstd")
            keys.unite(KeyFilter(np.frombuffer(bits, np.uint8)))
            ranges.append(from_ipc(row["ranges"]))
    weights = [weight for weight in found["row_bytes"].to_pylist() if weight is not None]
    return Counted(
        rows=pc.sum(found["rows"]).as_py() or 0,
        values=pa.concat_tables(counts) if counts else None,
        ranges=ranges,
        keys=keys,
        row_bytes=sum(weights) / len(weights) if weights else 1.0,
        delete_records=pc.sum(found["delete_records"]).as_py() or 0,
    )


@dataclass(frozen=True)
class CountRowsTask:
    """Counts the partition values of the rows of each part, and takes up their keys.

    The parts of deleted rows come after those of the new ones; of them, keys are taken up.

    Attributes
    ----------
    new : NewRows
    fields : tuple of PartitionField
        Of the table's columns.
    key : tuple of str
        Columns that must not be null; empty: none.
    order_by : str or None
        A column that must not be null, nor NaN.
    within : Interval or None
        That all rows must lie in.
    writer : RowWriter
        Measures the size of rows.
    samples : frozenset of int
        Parts that tell it.
    dropped : RowPositions
        Rows of each part that are left out.
    done : Counter
        Rows counted so far.
    """

    new: NewRows
    fields: tuple[PartitionField, ...]
    key: tuple[str, ...]
    order_by: str | None
    within: Interval | None
    writer: RowWriter
    samples: frozenset[int]
    dropped: RowPositions
    done: Counter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Count a part."""
        if number >= self.new.rows.tasks:
            yield self._keys_of_deleted(number)
            return
        columns = [field.column for field in self.fields] + list(self.key)
        columns += [self.within.column] if self.within else []
        columns += [self.order_by] if self.order_by is not None else []
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
                ranges.append(extremes(batch, self.key))
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
                [0],
            ],
            schema=_RESULT,
        )

    def _keys_of_deleted(self, number: int) -> pa.RecordBatch:
        keys, ranges, records = KeyFilter(), [], 0
        columns = list(self.key) if self.order_by is None else [*self.key, self.order_by]
        for batch in self.new.read_deleted(number - self.new.rows.tasks, columns):
            if not self.new.follows:
                self._check_record(batch)
                records += batch.num_rows
            if batch.num_rows:
                keys.add(key_hashes(batch, self.key))
                ranges.append(extremes(batch, self.key))
            self.done.add(batch.num_rows)
        return pa.record_batch(
            [
                [number],
                [0],
                [None],
                [to_ipc(pa.concat_tables(ranges)) if ranges else None],
                [pa.compress(keys.bits, "zstd", asbytes=True) if ranges else None],
                [None],
                [records],
            ],
            schema=_RESULT,
        )

    def _check_record(self, batch: pa.RecordBatch) -> None:
        for name in self.key:
            if nulls := batch.column(name).null_count:
                raise InputError(
                    f"key: column {name!r} is null in {nulls} rows or more of the source; a row without a "
                    "key cannot replace another. Filter them out, or choose another key"
                )
        if self.order_by is not None:
            column = batch.column(self.order_by)
            floats = pa.types.is_floating(column.type)
            missing = pc.sum(pc.is_null(column, nan_is_null=floats)).as_py() or 0
            if missing:
                raise InputError(
                    f"order_by: column {self.order_by!r} is null or NaN in {missing} records or more of the "
                    "source; it is not known which of their key counts. Filter them out, or mend them"
                )

    def _check(self, batch: pa.RecordBatch) -> None:
        self._check_record(batch)
        if self.within is not None:
            inside = pc.fill_null(self.within.holds(batch), False)
            outside = batch.num_rows - (pc.sum(inside).as_py() or 0)
            if outside:
                raise InputError(
                    f"interval: {outside} rows or more of the source have a {self.within.column!r} that is "
                    f"null or outside of {self.within.start} to {self.within.end}; a rerun would add them "
                    "twice. Filter them out, or take mode upsert"
                )

    def _row_bytes(self, number: int) -> float | None:
        found = row_bytes_of(self.new, self.writer, number)
        return None if found is None else found[0]


def sampled_parts(parts: int) -> list[int]:
    """The numbers of those parts that tell the size of rows."""
    found: list[int] = np.linspace(0, max(parts - 1, 0), min(_SAMPLE_PARTS, parts)).astype(int).tolist()
    return found


def row_bytes_of(new: NewRows, writer: RowWriter, number: int) -> tuple[float, pa.RecordBatch] | None:
    """The size in a file of the first rows of a part, and these; None if it has no rows."""
    for batch in new.read(number, new.schema.names, _SAMPLE_ROWS):
        if batch.num_rows:
            rows = batch.slice(0, _SAMPLE_ROWS)
            return writer.row_bytes(pa.Table.from_batches([rows])), rows
    return None


def extremes(batch: pa.RecordBatch, key: Sequence[str]) -> pa.Table:
    """The least and the greatest value of each key column of some rows, as two rows."""
    found = {}
    for name in key:
        column = batch.column(name)
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if pa.types.is_fixed_size_binary(column.type):
            column = column.cast(pa.binary())
        extremes = pc.min_max(column)
        found[name] = pa.array([extremes["min"], extremes["max"]], column.type)
    return pa.table(found)
