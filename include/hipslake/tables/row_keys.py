"""Keys of rows: their hashes, a filter that knows which may occur, and which rows of two tables share one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SpecError
from hipslake.joins.key_codes import mixed_bits
from hipslake.tables.transforms import hash_values, is_hashable

FILTER_BITS = 1 << 26
"""Of the filter, 8 MiB: with a million keys it lets pass 1 of 6,000 others, with ten million 1 of 19."""

_WORD_BITS = 64
_PROBES = 4
_MASK_BITS = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PARTED_ROWS = 1 << 18

Hashes = NDArray[np.uint64]


def check_key(schema: pa.Schema, key: Sequence[str]) -> None:
    """Look whether columns can be a key.

    Raises
    ------
    SpecError
        One holds fractions or lists, of which equality says little.
    """
    for name in key:
        kind = schema.field(name).type
        if not (is_hashable(kind) or pa.types.is_boolean(kind)):
            raise SpecError(
                f"key: column {name!r} is of type {kind}; a key holds whole numbers, strings, dates, times, "
                "decimals, UUIDs or bytes"
            )


def key_hashes(rows: pa.RecordBatch, key: Sequence[str]) -> Hashes:
    """A hash of each row's key, uint64[n]; equal keys have equal ones, also in another batch."""
    hashes: Hashes | None = None
    for name in key:
        column = rows.column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int32())
        if pa.types.is_integer(column.type):
            words = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        else:
            words = hash_values(column).astype(np.uint64)
        hashes = mixed_bits(words if hashes is None else hashes * _GOLDEN + words)
    return np.zeros(rows.num_rows, np.uint64) if hashes is None else hashes


class KeyFilter:
    """A Bloom filter over hashes of keys: what it does not know does not occur.

    It is blocked: all bits of a key lie in one word, so that a key costs one access to memory. Which bits
    they are is looked up in a table.

    Parameters
    ----------
    bits : uint8[FILTER_BITS // 8], optional
        Of another filter.
    """

    def __init__(self, bits: NDArray[np.uint8] | None = None) -> None:
        self.bits = np.zeros(FILTER_BITS // 8, np.uint8) if bits is None else bits

    def add(self, hashes: Hashes) -> None:
        """Take up keys."""
        np.bitwise_or.at(self._words, _words_of(hashes), _masks_of(hashes))

    def may_hold(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Whether each key may have been taken up, bool[n]; False is certain."""
        mask = _masks_of(hashes)
        may: NDArray[np.bool_] = self._words.take(_words_of(hashes)) & mask == mask
        return may

    def unite(self, other: KeyFilter) -> None:
        """Take up all keys of another filter."""
        np.bitwise_or(self.bits, other.bits, out=self.bits)

    @property
    def _words(self) -> NDArray[np.uint64]:
        return self.bits.view(np.uint64)


def _words_of(hashes: Hashes) -> NDArray[np.intp]:
    """The word of each key, by the low bits of its hash."""
    return (hashes & np.uint64(FILTER_BITS // _WORD_BITS - 1)).view(np.intp)


def _masks_of(hashes: Hashes) -> NDArray[np.uint64]:
    """The bits of each key in its word, by bits that depend on all of its hash."""
    return _mask_table().take(((hashes * _GOLDEN) >> np.uint64(_WORD_BITS - _MASK_BITS)).view(np.intp))


@cache
def _mask_table() -> NDArray[np.uint64]:
    """Words with `_PROBES` bits at random places, uint64[2**_MASK_BITS]; the same in every process."""
    places = np.random.default_rng(_WORD_BITS).integers(0, _WORD_BITS, (_PROBES, 1 << _MASK_BITS), np.uint64)
    return np.bitwise_or.reduce(np.uint64(1) << places)


def joint_codes(
    old: pa.Table, new: pa.Table, key: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the keys of two tables alike: equal keys, and only they, have equal numbers, int64.

    A null is equal to a null, and to nothing else.
    """
    codes = np.zeros(old.num_rows + new.num_rows, np.int64)
    for at, name in enumerate(key):
        column = pa.chunked_array([*old[name].chunks, *new[name].chunks], new.schema.field(name).type)
        whole = column.combine_chunks()
        if isinstance(whole, pa.ExtensionArray):
            whole = whole.storage
        part, count = _numbered(whole)
        codes = np.unique(codes * (count + 1) + part, return_inverse=True)[1] if at else part
    return codes[: old.num_rows], codes[old.num_rows :]


def _numbered(values: pa.Array) -> tuple[NDArray[np.int64], int]:
    """Number values: equal ones alike, from 0; and how many numbers there are, which is that of a null.

    Many integers are parted by their hashes first, so that each part's hash table fits into the cache.
    """
    if len(values) < _PARTED_ROWS or not pa.types.is_integer(values.type):
        encoded = pc.dictionary_encode(values)
        count = len(encoded.dictionary)
        return encoded.indices.fill_null(count).to_numpy(zero_copy_only=False).astype(np.int64), count
    words = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    place = ((words * _GOLDEN) >> np.uint64(_WORD_BITS - 8)).astype(np.uint8)
    order = np.argsort(place, kind="stable")
    ends = np.bincount(place, minlength=1 << 8).cumsum().tolist()
    ordered = values.take(pa.array(order))
    numbers, count = np.empty(len(values), np.int64), 0
    for first, last in pairwise([0, *ends]):
        encoded = pc.dictionary_encode(ordered.slice(first, last - first))
        found = encoded.indices.fill_null(-1 - count).to_numpy(zero_copy_only=False)
        numbers[first:last] = found + np.int64(count)  # of a null, -1
        count += len(encoded.dictionary)
    numbers[numbers < 0] = count
    unordered = np.empty_like(numbers)
    unordered[order] = numbers
    return unordered, count
