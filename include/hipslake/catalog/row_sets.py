"""Sets of rows, told apart without holding them: a digest that adds up, and a bitmap per increment.

`_row` is `increment ordinal << 40 | row number in the increment's source order`. Column groups of one catalog
hold the same rows, in other files: their digests are equal. A row number that stands twice is found by a
bitmap of one bit per row, so its memory is known from the metadata before the first file is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.key_codes import mixed_bits
from hipslake.specs.base import Frozen

ORDINAL_SHIFT = 40
_NUMBER_MASK = (1 << ORDINAL_SHIFT) - 1
_WORD = 1 << 64


class RowDigest(Frozen):
    """A digest of a set of (`_healpix_29`, `_row`) pairs: their order and their files do not matter.

    Two sums of 64-bit hashes, so that a change of any pair goes unseen with a chance of about 2^-64.
    """

    count: int = 0
    total: int = 0  # sum of the pairs' hashes, modulo 2^64
    rows: int = 0  # sum of the hashes of `_row` alone, modulo 2^64

    def __add__(self, other: RowDigest) -> RowDigest:
        return RowDigest(
            count=self.count + other.count,
            total=(self.total + other.total) % _WORD,
            rows=(self.rows + other.rows) % _WORD,
        )


def digest(h29: NDArray[np.int64], rows: NDArray[np.int64]) -> RowDigest:
    """Digest of the pairs (`_healpix_29`, `_row`), int64[n] each."""
    row_hashes = mixed_bits(rows)
    pair_hashes = mixed_bits(row_hashes ^ (h29.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)))
    return RowDigest(
        count=len(rows),
        total=int(pair_hashes.sum(dtype=np.uint64)),
        rows=int(row_hashes.sum(dtype=np.uint64)),
    )


def digest_of_range(ordinal: int, start: int, stop: int, *, chunk: int = 1 << 20) -> int:
    """The `rows` of the digest of row numbers [start, stop) of an increment, each exactly once."""
    total = 0
    for begin in range(start, stop, chunk):
        numbers = np.arange(begin, min(begin + chunk, stop), dtype=np.int64) | (ordinal << ORDINAL_SHIFT)
        total = (total + int(mixed_bits(numbers).sum(dtype=np.uint64))) % _WORD
    return total


class RowBitmap:
    """Which row numbers were seen, one bit each; safe to share between threads.

    Parameters
    ----------
    sizes : mapping of int to int
        Row numbers that each increment can have, by ordinal: [0, size).
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self._bits = {ordinal: np.zeros((size + 7) // 8, np.uint8) for ordinal, size in sizes.items()}
        self._ordinals = np.array(sorted(sizes), np.int64)
        self._sizes = np.array([sizes[ordinal] for ordinal in sorted(sizes)], np.int64)
        self._lock = threading.Lock()

    @staticmethod
    def bytes_needed(sizes: Iterable[int]) -> int:
        """Memory of a bitmap, in bytes."""
        return sum((size + 7) // 8 for size in sizes)

    def unknown(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the rows whose increment, or whose number in it, the metadata does not know."""
        if not len(self._ordinals):
            return np.ones(len(rows), bool)
        ordinals, numbers = rows >> ORDINAL_SHIFT, rows & _NUMBER_MASK
        at = np.minimum(np.searchsorted(self._ordinals, ordinals), len(self._ordinals) - 1)
        unknown: NDArray[np.bool_] = (self._ordinals[at] != ordinals) | (numbers >= self._sizes[at])
        return unknown

    def add(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Note rows as seen; returns those that were seen before, or that stand twice in `rows`. Sorted.

        Rows that `unknown` names are left out.
        """
        repeated = []
        ordered = np.sort(rows[~self.unknown(rows)])
        if len(ordered):
            twice = ordered[1:] == ordered[:-1]
            repeated.append(np.unique(ordered[1:][twice]))
            ordered = ordered[np.concatenate([[True], ~twice])]
        ordinals = ordered >> ORDINAL_SHIFT
        cuts = np.flatnonzero(ordinals[1:] != ordinals[:-1]) + 1
        for mine in np.split(ordered, cuts) if len(ordered) else ():
            numbers = mine & _NUMBER_MASK
            places = numbers >> 3
            masks = np.left_shift(np.uint8(1), (numbers & 7).astype(np.uint8))
            starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
            bits = self._bits[int(mine[0]) >> ORDINAL_SHIFT]
            with self._lock:
                repeated.append(mine[(bits[places] & masks) != 0])
                bits[places[starts]] |= np.bitwise_or.reduceat(masks, starts)
        return np.unique(np.concatenate(repeated)) if repeated else rows[:0]

    def missing_from(self, other: RowBitmap, limit: int) -> tuple[int, list[int]]:
        """How many rows are here and not in `other`, and the first `limit` of them as `_row` values."""
        count = 0
        examples: list[int] = []
        for ordinal, bits in sorted(self._bits.items()):
            theirs = other._bits.get(ordinal)
            extra = bits & ~theirs if theirs is not None else bits
            count += int(np.bitwise_count(extra).sum(dtype=np.int64))
            for place in np.flatnonzero(extra)[: max(limit - len(examples), 0)]:
                numbers = int(place) * 8 + np.flatnonzero(
                    np.unpackbits(extra[place : place + 1], bitorder="little")
                )
                examples += [int(number) | (ordinal << ORDINAL_SHIFT) for number in numbers]
        return count, examples[:limit]


def row_text(row: int) -> str:
    """A `_row` as people read it.

    Examples
    --------
    >>> row_text((2 << 40) | 17)
    'row 17 of increment 2'
    """
    return f"row {row & _NUMBER_MASK} of increment {row >> ORDINAL_SHIFT}"
