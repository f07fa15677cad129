"""Sets of rows: a digest that can be added up over files, and a dense numbering of all `_row`s.

`_row` is `increment ordinal << 40 | row number in the increment's source order`. Column groups of one catalog
hold the same rows, in other files: their digests are equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.key_codes import mixed_bits
from hipslake.specs.base import Frozen

ORDINAL_SHIFT = 40
NUMBER_MASK = (1 << ORDINAL_SHIFT) - 1
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


class RowNumbering:
    """The `_row`s that increments can have, as places [0, size) of one sequence.

    Parameters
    ----------
    sizes : mapping of int to int
        Row numbers that each increment can have, by ordinal: [0, size).
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self._ordinals = np.array(sorted(sizes), np.int64)
        self._sizes = np.array([sizes[ordinal] for ordinal in sorted(sizes)], np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes

    @property
    def size(self) -> int:
        """Number of places."""
        return int(self._sizes.sum())

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of rows; -1 where no increment has such a row."""
        if not len(self._ordinals):
            return np.full(len(rows), -1)
        ordinals, numbers = rows >> ORDINAL_SHIFT, rows & NUMBER_MASK
        at = np.minimum(np.searchsorted(self._ordinals, ordinals), len(self._ordinals) - 1)
        known = (self._ordinals[at] == ordinals) & (numbers < self._sizes[at])
        return np.where(known, self._starts[at] + numbers, -1)

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The `_row`s that have some places."""
        at = np.searchsorted(self._starts, places, side="right") - 1
        rows: NDArray[np.int64] = (self._ordinals[at] << ORDINAL_SHIFT) | (places - self._starts[at])
        return rows


def row_text(row: int) -> str:
    """A `_row` as people read it.

    Examples
    --------
    >>> row_text((2 << 40) | 17)
    'row 17 of increment 2'
    """
    return f"row {row & NUMBER_MASK} of increment {row >> ORDINAL_SHIFT}"
