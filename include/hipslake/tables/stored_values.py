"""Checksums of rows by their values as Parquet files store them: no conversion of a reader has part in them.

The reader that moves rows makes Arrow values of what is stored, by the types that the footer tells. A
checksum of what it gives would be blind to its mistakes. So the values are read again, as numbers and bytes,
and this module says by itself what they mean, as the Parquet format has it: a time is its nanoseconds since
1970 in whatever unit it is stored, a decimal its unscaled number in whatever width, a number its value.

What is shared with the reader is what comes before: decompression, encodings, nulls, and where lists begin.
Where a reader has nothing to convert (`is_as_stored`), the values of a checksum may be the rows as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.clustering.checksum import Leaf, mix_in_place, row_checksum
from hipslake.errors import InputError
from hipslake.storage.int96 import NANOS_PER_DAY, StoredTimes, leaf_count
from hipslake.storage.parquet_footer import stored_footer

_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_DECIMAL_BYTES = 32
_MOST_NANOS = 2**63 - 1
_FIRST, _LAST = divmod(-_MOST_NANOS, NANOS_PER_DAY), divmod(_MOST_NANOS, NANOS_PER_DAY)


class RowSum(NamedTuple):
    """Rows as a multiset: how many, and the sum of their hashes."""

    rows: int
    checksum: int

    def plus(self, other: RowSum) -> RowSum:
        """Those of both."""
        return RowSum(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


class StoredRows:
    """A Parquet file, read as its values are stored.

    Parameters
    ----------
    file
        Opened for pyarrow; stays open as long as this is used.
    """

    def __init__(self, file: Any) -> None:
        with pq.ParquetFile(file) as told:
            metadata = told.metadata
        self._stored = pq.ParquetFile(file, metadata=stored_footer(file))
        leaves = iter(range(metadata.num_columns))
        self._leaves = {
            field.name: tuple(
                _meaning(metadata.schema.column(next(leaves))) for _ in range(leaf_count(field.type))
            )
            for field in self._stored.schema_arrow
        }

    def summed(self, names: Sequence[str], groups: Sequence[int], size: int) -> RowSum:
        """The checksum of some row groups; the order of columns counts, and their names do not."""
        total = RowSum(0, 0)
        for _, some in self.batches(names, groups, size):
            total = total.plus(some)
        return total

    def batches(
        self, names: Sequence[str], groups: Sequence[int], size: int
    ) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
        """The values of some columns as they are stored, in batches of a size, and the checksum of each."""
        for batch in self._stored.iter_batches(size, list(groups), list(names), use_threads=False):
            some = batch.select(list(names))
            yield some, RowSum(batch.num_rows, row_checksum(some, self._leaves))


def is_as_stored(column: pq.ColumnSchema, kind: pa.DataType) -> bool:
    """Whether values of an Arrow type have the very bits that a column of a Parquet file stores of them.

    So where it does, `StoredRows.batches` gives them without a conversion. Only whole and real numbers of 32
    and 64 bits, dates, timestamps, texts and bytes are known to be stored so.
    """
    told = json.loads(column.logical_type.to_json())
    meaning, physical = told.get("Type"), column.physical_type
    if meaning == "None":
        return kind == _PHYSICAL.get(physical)
    if meaning == "Int":
        signed = "int" if told["isSigned"] else "uint"
        return physical == f"INT{told['bitWidth']}" and str(kind) == f"{signed}{told['bitWidth']}"
    if meaning == "Timestamp" and physical == "INT64":
        return pa.types.is_timestamp(kind) and _PER_SECOND_OF[kind.unit] == _PER_SECOND[told["timeUnit"]]
    if meaning == "Date":
        return kind == pa.date32()
    return meaning == "String" and kind == pa.string()


_PHYSICAL = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
}
_PER_SECOND_OF = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def sum_of(rows: pa.RecordBatch) -> RowSum:
    """The checksum of rows that are in no file: as of one that had them."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([rows]), sink)
    stored = StoredRows(pa.BufferReader(sink.getvalue()))
    return stored.summed(rows.schema.names, range(1), max(rows.num_rows, 1))


def _meaning(column: pq.ColumnSchema) -> Leaf:
    """What makes a stored value what it means, in a form that does not depend on how it is stored."""
    told = json.loads(column.logical_type.to_json())
    kind = told.get("Type")
    if column.physical_type == "INT96":
        return _of_int96
    if kind == "Timestamp":
        return _Timestamp(_PER_SECOND[told["timeUnit"]])
    if kind == "Decimal":
        return _of_decimal
    if column.physical_type == "INT32":
        return _of_int32
    if column.physical_type == "FLOAT":
        return _of_float
    return _as_stored


def _as_stored(values: pa.Array) -> pa.Array:
    return values


def _of_int32(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64())


def _of_float(values: pa.Array) -> pa.Array:
    return values.cast(pa.float64())


def _of_int96(values: pa.Array) -> pa.Array:
    times = StoredTimes.of(values)
    days, nanos = times.days + times.nanos // NANOS_PER_DAY, times.nanos % NANOS_PER_DAY
    meant = days * NANOS_PER_DAY + nanos
    low = (days < _FIRST[0]) | ((days == _FIRST[0]) & (nanos < _FIRST[1]))
    far = np.flatnonzero(low | (days > _LAST[0]) | ((days == _LAST[0]) & (nanos > _LAST[1])))
    meant[far] = _far_time(days[far], nanos[far])
    return _numbers(values, meant)


class _Timestamp:
    """Of INT64 in some unit: the nanoseconds since 1970, or a hash of day and nanoseconds of the day.

    The latter where 64 bits do not hold the former, which is before 1677 and after 2262: no file of
    nanoseconds has such times, and those of other units all count alike.
    """

    def __init__(self, per_second: int) -> None:
        self._per_day = 86_400 * per_second
        self._nanos = 10**9 // per_second

    def __call__(self, values: pa.Array) -> pa.Array:
        numbers = np.frombuffer(values.buffers()[1], np.int64, len(values), values.offset * 8)
        meant = numbers * self._nanos
        most = _MOST_NANOS // self._nanos
        if len(numbers) and not -most <= int(numbers.min()) <= int(numbers.max()) <= most:
            far = np.flatnonzero((numbers < -most) | (numbers > most))
            days, rest = np.divmod(numbers[far], self._per_day)
            meant[far] = _far_time(days, rest * self._nanos)
        return _numbers(values, meant)


def _far_time(days: NDArray[np.int64], nanos: NDArray[np.int64]) -> NDArray[np.int64]:
    """A hash of days and nanoseconds of the day."""
    return mix_in_place(mix_in_place(days.astype(np.uint64)) + nanos.astype(np.uint64)).view(np.int64)


def _of_decimal(values: pa.Array) -> pa.Array:
    """The unscaled number as 32 bytes: stored as an integer, or as big-endian bytes of any length."""
    kind = values.type
    if pa.types.is_integer(kind):
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _words(values, numbers, *[numbers >> 63] * 3)
    if pa.types.is_fixed_size_binary(kind):
        ends = (values.offset + 1 + np.arange(len(values), dtype=np.int64)) * kind.byte_width
        lengths = np.full(len(values), kind.byte_width, np.int64)
        data = values.buffers()[1]
    else:
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
        ends, lengths, data = (
            offsets[1:].astype(np.int64),
            np.diff(offsets).astype(np.int64),
            values.buffers()[2],
        )
    if lengths.size and int(lengths.max()) > _DECIMAL_BYTES:
        raise InputError(f"a decimal of {int(lengths.max())} bytes cannot be checked; make it smaller")
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    # The least significant byte first.
    place = np.arange(_DECIMAL_BYTES)[None, :]
    inside = place < lengths[:, None]
    digits = content[np.where(inside, ends[:, None] - 1 - place, 0)]
    leading = content[np.clip(ends - lengths, 0, len(content) - 1)]
    sign = np.where((leading >= 128) & (lengths > 0), 255, 0).astype(np.uint8)
    words = np.where(inside, digits, sign[:, None]).astype(np.uint8).view("<i8")
    return _words(values, *words.T)


def _words(values: pa.Array, *words: NDArray[np.int64]) -> pa.Array:
    """Two or four numbers per value, as one value; what is null stays so."""
    kind = pa.decimal128(38) if len(words) == 2 else pa.decimal256(76)
    together = np.ascontiguousarray(np.stack(words, axis=1), "<i8")
    return pa.Array.from_buffers(kind, len(values), [_validity(values), pa.py_buffer(together)])


def _numbers(values: pa.Array, numbers: NDArray[np.int64]) -> pa.Array:
    """A number per value; what is null stays so."""
    return pa.Array.from_buffers(pa.int64(), len(values), [_validity(values), pa.py_buffer(numbers)])


def _validity(values: pa.Array) -> pa.Buffer | None:
    return pa.array(values.is_valid()).buffers()[1] if values.null_count else None
