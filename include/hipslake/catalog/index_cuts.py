"""Where the files of an index begin: told by the entries near that place alone, whoever builds the index.

Files that were cut by counts would all begin elsewhere as soon as one entry comes before them. So the place
of a cut follows from content, as in content-defined chunking. Every entry has a hash. Those whose hash is
below a limit are candidates, a few dozen to a file, and each has a rank. A file begins at a candidate whose
rank is the least among the candidates on either side, as far as the rule reaches: a local minimum. So a
change of entries moves cuts only that are within reach of it, files have no fewer candidates than the rule
reaches, and few have more than three times as many entries as asked for.

Source: Bjørner, Blass, Gurevich 2010, "Content-dependent chunking for differential compression, the local
maximum approach".
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.joins.key_codes import key_codes, mixed_bits

CUTS = 2
"""The number of this rule. By 1 all entries whose value is their `_healpix_29` had one hash, and one file."""

_REACH = 16
_WORD = 1 << 64


@dataclass(frozen=True)
class CutRule:
    """How an index is cut into files.

    Attributes
    ----------
    file_entries : int
        Entries of a file, about; at least 1.
    """

    file_entries: int

    @property
    def reach(self) -> int:
        """Candidates on either side that decide whether a file begins at one: cuts lie further apart."""
        return max(1, min(_REACH, (self.file_entries - 1) // 2))

    def candidates(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which entries are candidates, bool[n]; of the hashes that `entry_hashes` gives."""
        limit = (2 * self.reach + 1) * _WORD // self.file_entries  # local minima are so far apart
        if limit >= _WORD:
            return np.ones(len(hashes), bool)
        found: NDArray[np.bool_] = hashes < np.uint64(limit)
        return found

    def begins(self, ranks: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """At which candidates a file begins, bool[n]; the first file begins with the first entry.

        Parameters
        ----------
        ranks : uint32[n]
            Of all candidates of the index, in the order of its entries. Of equal ones the first is the least.
        """
        count, reach = len(ranks), self.reach
        least = np.zeros(count, bool)
        least[reach : max(reach, count - reach)] = True
        for step in range(1, min(reach, count - 1) + 1):
            least[step:] &= ranks[step:] < ranks[:-step]
            least[:-step] &= ranks[:-step] <= ranks[step:]
        return least


def entry_hashes(keys: pa.Array, h29: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash for each pair of value and `_healpix_29`, uint64[n].

    Parameters
    ----------
    keys : pyarrow.Array
        Of `plain_keys`, without nulls.
    h29 : int64[n]
    """
    # A sum, and one of the two is mixed: values may well be the pixels themselves.
    return mixed_bits(key_codes(keys) + h29.view(np.uint64))


def ranks_of(hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The ranks of candidates, of bits of their hashes that do not tell whether they are candidates."""
    return hashes.astype(np.uint32)  # the lower half


def ranks_as_text(ranks: NDArray[np.uint32]) -> str:
    """Ranks as metadata.json keeps them: base64 of 4 bytes each, little-endian."""
    return base64.b64encode(ranks.astype("<u4").tobytes()).decode()


def ranks_in_text(text: str) -> NDArray[np.uint32]:
    """The inverse of `ranks_as_text`.

    Examples
    --------
    >>> ranks_in_text(ranks_as_text(np.array([7, 2**32 - 1], np.uint32))).tolist()
    [7, 4294967295]
    """
    return np.frombuffer(base64.b64decode(text), "<u4").astype(np.uint32)
