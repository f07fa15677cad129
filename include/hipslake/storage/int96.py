"""Times in Parquet's INT96: nanoseconds of a day, and a Julian day; more than any timestamp of Arrow holds.

The type says no unit, so a reader has to choose one. pyarrow takes nanoseconds unless it is told otherwise,
and wraps times before 1677 and after 2262; in microseconds it drops what is finer. Here the values are looked
at as they are stored, and a unit is only taken if it holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.errors import InputError
from hipslake.storage.parquet_footer import stored_footer

Unit = Literal["us", "ns"]

NANOS_PER_DAY = 86_400_000_000_000
_EPOCH = 2_440_588  # the Julian day of 1970-01-01
_STORED = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_BATCH_ROWS = 1 << 18
_LARGEST = 2**63 - 1
_MEND = (
    "write the file anew with times as INT64 (Spark: spark.sql.parquet.outputTimestampType="
    "TIMESTAMP_MICROS; pyarrow: without use_deprecated_int96_timestamps)"
)


def int96_columns(metadata: pq.FileMetaData) -> tuple[str, ...]:
    """The top-level columns that are INT96, or hold such."""
    schema = metadata.schema
    if not any(schema.column(at).physical_type == "INT96" for at in range(metadata.num_columns)):
        return ()
    found = _leaf_types(metadata)
    return tuple(name for name, leaves in found.items() if "INT96" in leaves)


def int96_unit(file: Any, metadata: pq.FileMetaData, *, rows: int | None = None) -> Unit:
    """The unit that holds the times of a file: microseconds, unless there are parts of them.

    Parameters
    ----------
    file
        Opened for pyarrow.
    metadata : pyarrow.parquet.FileMetaData
    rows : int, optional
        Look at the row groups from the beginning until so many rows were seen; None: at all.
    """
    names = int96_columns(metadata)
    groups: list[int] = []
    seen = 0
    for group in range(metadata.num_row_groups if names else 0):
        groups.append(group)
        seen += metadata.row_group(group).num_rows
        if rows is not None and seen >= rows:
            break
    return "ns" if any(np.any(times.nanos % 1000) for _, times in _times(file, names, groups)) else "us"


def with_int96_as(schema: pa.Schema, metadata: pq.FileMetaData, unit: Unit) -> pa.Schema:
    """The schema of a file whose INT96 times are read in a unit; pyarrow's own says nanoseconds."""
    names = int96_columns(metadata)
    if unit == "ns" or not names:
        return schema
    kinds = _leaf_types(metadata)
    fields = [
        field.with_type(_in_unit(field.type, iter(kinds[field.name]), unit)) if field.name in names else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _in_unit(kind: pa.DataType, leaves: Iterator[str], unit: Unit) -> pa.DataType:
    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(_in_unit(field.type, leaves, unit))

    if pa.types.is_struct(kind):
        return pa.struct([inside(field) for field in kind])
    if pa.types.is_map(kind):
        key = inside(kind.key_field)
        return pa.map_(key, inside(kind.item_field), keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(inside(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(inside(kind.value_field))
    stored = next(leaves)
    return pa.timestamp(unit, kind.tz) if stored == "INT96" and pa.types.is_timestamp(kind) else kind


def unit_for(schema: pa.Schema, names: Iterable[str]) -> Unit:
    """The unit in which columns are read that are to be of certain types: the finest of them."""
    kinds = [schema.field(name).type for name in names if name in schema.names]
    return "ns" if any(_has_nanoseconds(kind) for kind in kinds) else "us"


def check_int96(file: Any, names: Sequence[str], groups: Sequence[int], unit: Unit, where: str) -> None:
    """Look that a unit holds all times of INT96 columns.

    Parameters
    ----------
    file
        Opened for pyarrow.
    names : sequence of str
        Top-level columns; those without INT96 are passed over.
    groups : sequence of int
        Row groups.
    unit : {"us", "ns"}
    where : str
        The file, for messages.

    Raises
    ------
    InputError
        A value would be changed.
    """
    for name, times in _times(file, names, groups):
        why = times.misfit(unit)
        if why is not None:
            raise InputError(f"{where}: column {name!r} is of INT96 times, and {why}; {_MEND}")


class StoredTimes(NamedTuple):
    """Times as INT96 stores them, without nulls.

    Attributes
    ----------
    days : int64[n]
        Since 1970.
    nanos : int64[n]
        Of the day.
    """

    days: NDArray[np.int64]
    nanos: NDArray[np.int64]

    @classmethod
    def of(cls, stored: pa.Array) -> StoredTimes:
        """Times from the 12 bytes of each value; at nulls, anything."""
        if not len(stored):
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        values = np.frombuffer(stored.buffers()[1], _STORED, len(stored), stored.offset * _STORED.itemsize)
        return cls(values["day"].astype(np.int64) - _EPOCH, values["nanos"].astype(np.int64))

    def misfit(self, unit: Unit) -> str | None:
        """Why a unit does not hold all of them; None if it does."""
        if np.any((self.nanos < 0) | (self.nanos >= NANOS_PER_DAY)):
            return "a time of day lies outside of the day"
        if unit == "us" and np.any(self.nanos % 1000):
            return "has parts of a microsecond, which the timestamp[us] that it is read as does not hold"
        per_day = NANOS_PER_DAY if unit == "ns" else NANOS_PER_DAY // 1000
        within = self.nanos if unit == "ns" else self.nanos // 1000
        last, rest = divmod(_LARGEST, per_day)
        first = -last - 1
        late = (self.days > last) | ((self.days == last) & (within > rest))
        # -2**63 is first * per_day + (per_day - 1 - rest); numpy calls it "not a time".
        early = (self.days < first) | ((self.days == first) & (within <= per_day - 1 - rest))
        if np.any(late | early):
            return f"lies beyond what timestamp[{unit}] holds"
        return None


def _times(file: Any, names: Sequence[str], groups: Sequence[int]) -> Iterator[tuple[str, StoredTimes]]:
    """The INT96 values of columns, batch by batch."""
    if not names or not groups:
        return
    kinds = _leaf_types(pq.read_metadata(file))
    wanted = [name for name in names if "INT96" in kinds.get(name, ())]
    for name, leaves in stored_leaves(file, wanted, groups):
        for leaf, kind in zip(leaves, kinds[name], strict=True):
            if kind == "INT96":
                yield name, StoredTimes.of(leaf.drop_null())


def stored_leaves(
    file: Any, names: Sequence[str], groups: Sequence[int]
) -> Iterator[tuple[str, list[pa.Array]]]:
    """The values of columns as they are stored, in batches.

    Parameters
    ----------
    file
        Opened for pyarrow.
    names : sequence of str
        Top-level columns.
    groups : sequence of int
        Row groups.

    Yields
    ------
    name : str
        Of a top-level column.
    leaves : list of pyarrow.Array
        Some of its values: one array for each column of Parquet that it is made of.
    """
    if not names:
        return
    with pq.ParquetFile(file, metadata=stored_footer(file)) as stored:
        for batch in stored.iter_batches(_BATCH_ROWS, list(groups), list(names), use_threads=False):
            for name in names:
                yield name, list(leaves_of(batch.column(batch.schema.get_field_index(name))))


def _leaf_types(metadata: pq.FileMetaData) -> dict[str, list[str]]:
    """By top-level column, the physical types of its leaves in their order."""
    leaves = iter(range(metadata.num_columns))
    return {
        field.name: [
            metadata.schema.column(next(leaves)).physical_type for _ in range(leaf_count(field.type))
        ]
        for field in metadata.schema.to_arrow_schema()
    }


def leaf_count(kind: pa.DataType) -> int:
    """How many columns of Parquet a type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return leaf_count(kind.storage_type)
    if pa.types.is_map(kind):
        return leaf_count(kind.key_type) + leaf_count(kind.item_type)
    if pa.types.is_nested(kind):
        return sum(leaf_count(kind.field(at).type) for at in range(kind.num_fields))
    return 1


def leaves_of(array: pa.Array) -> Iterator[pa.Array]:
    """The values at the leaves of an array that was read as stored, in the order of Parquet's columns."""
    kind = array.type
    if pa.types.is_struct(kind):
        for part in array.flatten():
            yield from leaves_of(part)
    elif pa.types.is_map(kind):
        pairs = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))).flatten()
        yield from leaves_of(pairs)
    elif pa.types.is_nested(kind):
        yield from leaves_of(array.flatten())
    else:
        yield array


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_nanoseconds(kind.key_type) or _has_nanoseconds(kind.item_type)
    if pa.types.is_nested(kind):
        return any(_has_nanoseconds(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
