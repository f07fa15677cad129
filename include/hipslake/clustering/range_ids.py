"""Range ids: each value of a column becomes the number of the range of values that it lies in.

Ids make columns of all types and distributions alike, so that their bits can be interleaved. The ranges of
all columns come of one sample, and each holds about as many rows as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.clustering.column_values import path_of, type_at, values_at
from hipslake.clustering.curves import Curve, interleave_bits
from hipslake.clustering.lookup import SortedNumbers
from hipslake.errors import InputError, SpecError

NUM_RANGES = 1000
_SIGNED_KEY_BITS = 63  # keys travel through engines that know signed 64-bit numbers only
_MAX_BITS = 31  # an id times 2**bits must not overflow


@dataclass(frozen=True)
class ColumnRanges:
    """The ranges of one column.

    Attributes
    ----------
    name : str
    bounds : pyarrow.Array
        The highest value of every range but the last: ascending, distinct, without nulls. NaN is above all
        numbers.
    nulls : bool
        The sample had nulls: they are a range of their own, below all others. If it had none, they are
        counted to the lowest range.
    """

    name: str
    bounds: pa.Array
    nulls: bool

    @classmethod
    def of_sample(cls, name: str, values: pa.Array, num_ranges: int) -> ColumnRanges:
        """Cut the values of a sample into at most `num_ranges` ranges of about equal numbers of rows."""
        ordered = _ascending(values.drop_null())
        size = len(ordered)
        last = -(-np.arange(1, num_ranges) * size // num_ranges) - 1  # of each range but the last
        bounds = _distinct(ordered.take(pa.array(np.unique(last[last >= 0])))) if size else ordered
        if len(bounds) and _number_below(bounds, ordered.slice(size - 1))[0] < len(bounds):
            bounds = bounds.slice(0, len(bounds) - 1)  # nothing lies above the largest value
        return cls(name, bounds, values.null_count > 0)

    @property
    def count(self) -> int:
        """Number of ranges."""
        return len(self.bounds) + 1 + self.nulls

    def ids(self, values: pa.Array | pa.ChunkedArray) -> NDArray[np.uint64]:
        """Return the range of each value, in [0, count); nulls are 0.

        Parameters
        ----------
        values : pyarrow.Array or pyarrow.ChunkedArray
            Of the type of the bounds.
        """
        values = _flat(values)
        if not values.null_count:
            below = self._number_below(values)
            return below + np.uint64(1) if self.nulls else below
        ids = np.zeros(len(values), np.uint64)
        valid = np.asarray(values.is_valid())
        ids[valid] = self._number_below(values.drop_null()) + np.uint64(self.nulls)
        return ids

    def _number_below(self, values: pa.Array) -> NDArray[np.uint64]:
        numbers = _numbers(values)
        if numbers is None or self._sorted is None or numbers.dtype != self._sorted.numbers.dtype:
            return _number_below(self.bounds, values)
        return self._sorted.below(numbers).view(np.uint64)

    @cached_property
    def _sorted(self) -> SortedNumbers | None:
        """The bounds for look-ups, if they are numbers."""
        numbers = _numbers(self.bounds)
        return None if numbers is None else SortedNumbers.of(numbers)


@dataclass(frozen=True)
class RangeBounds:
    """The ranges of the columns that a table is clustered by, and the sample that they come of.

    Attributes
    ----------
    columns : tuple of ColumnRanges
    bits : int
        Bits of a stretched id.
    sample_ids : uint64[m, k]
        Range ids of the sampled rows.
    """

    columns: tuple[ColumnRanges, ...]
    bits: int
    sample_ids: NDArray[np.uint64]

    @classmethod
    def of_sample(cls, sample: pa.Table, names: Sequence[str], num_ranges: int = NUM_RANGES) -> RangeBounds:
        """Find the ranges of all columns in one sample of the rows.

        Parameters
        ----------
        sample : pyarrow.Table
            Rows drawn evenly from all; it has the columns.
        names : sequence of str
            The columns to cluster by, the most significant first; `place.ra` is a field of a struct.
        num_ranges : int
            The most ranges of a column, at least 2. With many columns there are fewer: all keys have to fit
            into 63 bits.

        Raises
        ------
        SpecError
            No column, one that is missing or named twice, or too few ranges.
        InputError
            A column has values that have no order.
        """
        check_clustering_columns(sample.schema, names)
        check_num_ranges(num_ranges)
        bits = min((num_ranges - 1).bit_length(), _SIGNED_KEY_BITS // len(names), _MAX_BITS)
        most = min(num_ranges, 2**bits)
        columns = tuple(ColumnRanges.of_sample(name, _flat(values_at(sample, name)), most) for name in names)
        found = cls(columns, bits, np.empty((0, len(names)), np.uint64))
        return replace(found, sample_ids=found.range_ids(sample))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(column.name for column in self.columns)

    @property
    def counts(self) -> NDArray[np.uint64]:
        """Ranges per column, as uint64[k]."""
        return np.array([column.count for column in self.columns], np.uint64)

    def without_sample(self) -> RangeBounds:
        """The same ranges, light enough to travel to tasks."""
        return replace(self, sample_ids=self.sample_ids[:0])

    def range_ids(self, rows: pa.Table | pa.RecordBatch) -> NDArray[np.uint64]:
        """Return the range of each row in each column, as uint64[n, k]."""
        # Columns stay whole in memory: what follows goes along them.
        return np.stack([column.ids(values_at(rows, column.name)) for column in self.columns]).T

    def stretched(self, range_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Spread range ids over all of [0, 2**bits).

        So a column with few values sets the highest bits of a key too. With its plain ids it would only count
        where all other columns are equal.
        """
        ids = range_ids.T.astype(np.int64, copy=False)
        return np.stack([stretched.take(own) for stretched, own in zip(self._stretched, ids, strict=True)]).T

    @cached_property
    def _stretched(self) -> list[NDArray[np.uint64]]:
        """Per column, what each of its range ids becomes."""
        side = np.uint64(1 << self.bits)
        return [np.arange(count, dtype=np.uint64) * side // count for count in self.counts]

    def keys(self, rows: pa.Table | pa.RecordBatch, curve: Curve) -> NDArray[np.uint64]:
        """Return the key of each row along a curve, as uint64[n], below 2**63."""
        return self._keys([column.ids(values_at(rows, column.name)) for column in self.columns], curve)

    def keys_of_ids(self, range_ids: NDArray[np.uint64], curve: Curve) -> NDArray[np.uint64]:
        """Return the keys of rows whose range ids are known."""
        return self._keys(list(range_ids.T), curve)

    def _keys(self, range_ids: Sequence[NDArray[np.uint64]], curve: Curve) -> NDArray[np.uint64]:
        if not curve.may_follow(len(self.columns)):
            return curve.keys(self.stretched(np.stack(range_ids).T), self.bits)
        places = self._interleaved[0].take(range_ids[0].view(np.int64))
        for interleaved, ids in zip(self._interleaved[1:], range_ids[1:], strict=True):
            places |= interleaved.take(ids.view(np.int64))
        return curve.of_interleaved(places, len(self.columns), self.bits).view(np.uint64)

    @cached_property
    def _interleaved(self) -> list[NDArray[np.int64]]:
        """Per column, the bits of a point that come of each of its range ids, where others are 0."""
        found = []
        for at, stretched in enumerate(self._stretched):
            points = np.zeros((len(stretched), len(self.columns)), np.uint64)
            points[:, at] = stretched
            found.append(interleave_bits(points, self.bits).view(np.int64))
        return found


def check_clustering_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise if a table cannot be clustered by these columns.

    Raises
    ------
    SpecError
        No column, one that is missing or named twice.
    InputError
        A column has values that have no order.
    """
    fields = [name for name in names if name not in schema.names and path_of(schema, name) is not None]
    check_names([*schema.names, *dict.fromkeys(fields)], names)
    for name in names:
        if not is_orderable(type_at(schema, name)):
            raise unorderable(name, type_at(schema, name))


def check_num_ranges(num_ranges: int) -> None:
    """Raise `SpecError` if so few ranges cannot tell rows apart."""
    if num_ranges < 2:
        raise SpecError(f"num_ranges is {num_ranges}: it takes at least 2 to tell rows apart")


def check_names(present: Sequence[str], names: Sequence[str]) -> None:
    """Raise if a table with some columns cannot be clustered by these: the part that needs no types."""
    if not names:
        raise SpecError("no columns to cluster by: name at least one")
    missing = sorted(set(names) - set(present))
    if missing:
        raise SpecError(f"no column {', '.join(missing)} to cluster by; there are {', '.join(present)}")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise SpecError(f"column {', '.join(twice)} is named twice to cluster by: a column counts once")
    alike = sorted({name for name in names if list(present).count(name) > 1})
    if alike:
        raise several(", ".join(alike))
    if len(names) > _SIGNED_KEY_BITS:
        raise SpecError(f"{len(names)} columns to cluster by: a key has room for {_SIGNED_KEY_BITS}")


def several(name: str) -> SpecError:
    """The error about a name that several columns have."""
    return SpecError(f"there are several columns {name}: rename them to cluster by one")


def unorderable(name: str, kind: object) -> InputError:
    """The error about a column whose values have no order."""
    return InputError(
        f"column {name} is {kind}, whose values have no order to cluster by; take a column of numbers, text, "
        "dates, times, decimals, booleans or bytes"
    )


def is_orderable(kind: pa.DataType) -> bool:
    """Whether values of a type can be put in order."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_orderable(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return is_orderable(kind.storage_type)
    number_or_time = types.is_primitive(kind) and not types.is_interval(kind)
    return number_or_time or types.is_decimal(kind) or _is_text(kind) or _is_bytes(kind)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    of_any_length = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(of_any_length or types.is_fixed_size_binary(kind))


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, in a type that Arrow sorts."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_text(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if _is_bytes(values.type) else values


def _numbers(values: pa.Array) -> NDArray | None:
    """The values as numbers of the same order, where there are such; the array has no nulls."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return values.to_numpy(zero_copy_only=False)


def _ascending(values: pa.Array) -> pa.Array:
    return values.take(pc.sort_indices(values))


def _distinct(ordered: pa.Array) -> pa.Array:
    """The first of each run of equal values."""
    numbers = _numbers(ordered)
    if numbers is not None:
        same = (numbers[1:] == numbers[:-1]) | ((numbers[1:] != numbers[1:]) & (numbers[:-1] != numbers[:-1]))
    else:
        same = np.asarray(pc.equal(ordered.slice(1), ordered.slice(0, max(len(ordered) - 1, 0))))
    return ordered.take(pa.array(np.flatnonzero(np.append(True, ~same))))


def _number_below(bounds: pa.Array, values: pa.Array) -> NDArray[np.uint64]:
    """How many of the bounds lie below each value; neither array has nulls."""
    numbers, ends = _numbers(values), _numbers(bounds)
    if numbers is not None and ends is not None:
        return np.searchsorted(ends, numbers, side="left").astype(np.uint64)
    # Texts and decimals: put the distinct values and the bounds in order together. The sort keeps the order
    # of equal ones, so a bound comes behind the value that it is equal to.
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary
    order = np.asarray(pc.sort_indices(pa.concat_arrays([distinct, bounds])))
    is_bound = order >= len(distinct)
    below = np.empty(len(distinct), np.uint64)
    below[order[~is_bound]] = np.cumsum(is_bound)[~is_bound]
    return below[np.asarray(encoded.indices)]
