"""Keys as 64-bit codes: what tells rows of equal ids together, whatever their type.

Integers of all widths that are equal have one code, and no two share one: the code is a bijection of 64 bits.
Two texts may share a code, so exact comparisons also compare the texts of equal codes. Codes are spread
evenly over the 64 bits: a stretch of them is a fair share of the keys.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.checksum import mix_in_place
from hipslake.errors import SchemaMismatchError

KeyKind = Literal["integer", "uint64", "text"]

_FACTOR = 0x9E3779B97F4A7C15  # odd, so that every power of it has an inverse


def key_kind(kind: pa.DataType, what: str) -> KeyKind:
    """The kind of the keys of a type; only keys of one kind are compared.

    Parameters
    ----------
    kind : pyarrow.DataType
    what : str
        The column, for the message.

    Raises
    ------
    SchemaMismatchError
        It holds neither integers nor texts: floating-point numbers and times are no ids.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_uint64(kind):  # half of them are no int64
        return "uint64"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise SchemaMismatchError(f"{what} is {kind}, which is no id; use a column of integers or of texts")


def plain_keys(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The keys of a column as int64, uint64 or large_string, nulls included, in one piece."""
    keys = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if pa.types.is_uint64(keys.type):
        return keys
    return keys.cast(pa.int64() if pa.types.is_integer(keys.type) else pa.large_string())


def key_codes(keys: pa.Array) -> NDArray[np.uint64]:
    """The codes of keys, uint64[n].

    Parameters
    ----------
    keys : pyarrow.Array
        Of `plain_keys`, without nulls.

    Examples
    --------
    >>> ids = plain_keys(pa.array([1, 2, 1], pa.int16()))
    >>> first, second, third = key_codes(ids)
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    if pa.types.is_large_string(keys.type):
        return mixed_bits(_digests(keys))
    return mixed_bits(np.ascontiguousarray(keys.to_numpy(zero_copy_only=False)))


class KeyedRows(NamedTuple):
    """The keys of a column that are not null, their codes, and the rows that they stand in."""

    rows: NDArray[np.int64]
    keys: pa.Array
    codes: NDArray[np.uint64]

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> KeyedRows:
        """The keys of a column of a type that `key_kind` takes."""
        keys = plain_keys(column)
        rows = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
        keys = keys.drop_null()
        return cls(rows, keys, key_codes(keys))


def _digests(texts: pa.Array) -> NDArray[np.uint64]:
    """Per text the polynomial of its bytes, modulo 2^64."""
    _, raw_offsets, raw_bytes = texts.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if not len(texts) or raw_bytes is None:
        return np.zeros(len(texts), np.uint64)
    characters = np.frombuffer(raw_bytes, np.uint8)[offsets[0] : offsets[-1]]
    start, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    powers = np.full(int(lengths.max(initial=0)), _FACTOR, np.uint64).cumprod(dtype=np.uint64)
    place = np.arange(len(characters)) - np.repeat(start, lengths)
    terms = (characters.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([np.zeros(1, np.uint64), terms.cumsum(dtype=np.uint64)])
    return sums[start + lengths] - sums[start]


def mixed_bits(values: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each value, no two alike: the finalizer of SplitMix64.

    Source: Steele, Lea, Flood 2014, "Fast splittable PRNGs".
    """
    return mix_in_place(values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
