"""Lists of rows by `_healpix_29` and `_row`, in files of a run folder: which go, come late, or return.

Lists of rows whose intervals of validity end at other times have these ends, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.records.record_rows import END_COLUMN
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.specs.base import Frozen
from hipslake.sphere.pixels import HEALPIX_COLUMN, coarsen
from hipslake.steps.ingest.superseded_rows import read_rows
from hipslake.steps.run_storage import run_storage

_KEPT = 16  # files in the memory of a process: 32 bytes a row


class ListedRows(NamedTuple):
    """Rows, int64[n] each, in the order of the curve or of `_row`."""

    h29: NDArray[np.int64]
    row: NDArray[np.int64]


_NONE = ListedRows(np.empty(0, np.int64), np.empty(0, np.int64))


class RowList(Frozen):
    """Rows of a catalog, each by its `_healpix_29` and its `_row`; small, so that it travels with every task.

    Attributes
    ----------
    folder : str
        URI of the run folder.
    paths : tuple of str
        Files in it, each a table sorted by (`_healpix_29`, `_row`); no row is in two.
    count : int
        Rows of all of them.
    """

    folder: str
    paths: tuple[str, ...]
    count: int

    def within(self, start: int, stop: int) -> ListedRows:
        """The rows in a stretch of the curve, [start, stop), along it."""
        found = [_NONE]
        for path in self.paths:
            along = _along_curve(self.folder, path)
            low, high = np.searchsorted(along.h29, [start, stop])
            found.append(ListedRows(along.h29[low:high], along.row[low:high]))
        return _together(found, by_row=False)

    def of_numbers(self, first: int, last: int) -> ListedRows:
        """The rows whose `_row` is in [first, last), ascending by it."""
        found = [_NONE]
        for path in self.paths:
            numbered = _by_row(self.folder, path)
            low, high = np.searchsorted(numbered.row, [first, last])
            found.append(ListedRows(numbered.h29[low:high], numbered.row[low:high]))
        return _together(found, by_row=True)

    def hold(self, h29: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some rows are in the list, bool[n]."""
        held = np.zeros(len(row), bool)
        if not len(row):
            return held
        for path in self.paths:
            listed = _by_row(self.folder, path)
            if not len(listed.row):
                continue
            at = np.minimum(np.searchsorted(listed.row, row), len(listed.row) - 1)
            held |= (listed.row[at] == row) & (listed.h29[at] == h29)
        return held

    def along_curve(self) -> Iterator[NDArray[np.int64]]:
        """The `_healpix_29` of all rows, file by file, ascending in each."""
        return (_along_curve(self.folder, path).h29 for path in self.paths)

    def numbers(self) -> NDArray[np.int64]:
        """The `_row` of all rows, ascending."""
        rows = [_by_row(self.folder, path).row for path in self.paths]
        return np.sort(np.concatenate([_NONE.row, *rows]))

    def plus(self, other: RowList) -> RowList:
        """The rows of two lists, of which none is in both."""
        return RowList(folder=self.folder, paths=(*self.paths, *other.paths), count=self.count + other.count)

    def pixels(self, order: int) -> NDArray[np.int64]:
        """The pixels of an order that the rows lie in, ascending."""
        npix = np.empty(0, np.int64)
        for h29 in self.along_curve():
            npix = np.union1d(npix, coarsen(h29, order))
        return npix


class EndList(RowList):
    """Rows, each with the time at which its interval of validity ends; null if it has no end."""

    def with_ends(self, row: NDArray[np.int64], ends: pa.Array) -> tuple[pa.Array, int]:
        """Ends of the intervals of some rows, of which those of the list are as it says.

        Parameters
        ----------
        row : int64[n]
            Their `_row`.
        ends : pyarrow.Array of n
            As they were.

        Returns
        -------
        pyarrow.Array of n, int
            The ends, and how many rows are in the list.
        """
        count = 0
        for path in self.paths if len(row) else ():
            listed, theirs = _by_row(self.folder, path), _ends(self.folder, path)
            if not len(listed.row):
                continue
            at = np.minimum(np.searchsorted(listed.row, row), len(listed.row) - 1)
            held = listed.row[at] == row
            if held.any():
                count += int(np.count_nonzero(held))
                chosen = pc.if_else(pa.array(held), theirs.take(pa.array(at)).cast(ends.type), ends)
                ends = chosen.cast(ends.type)  # of small decimals, Arrow makes larger ones
        return ends, count


def _together(found: list[ListedRows], *, by_row: bool) -> ListedRows:
    some = [each for each in found if len(each.row)]
    if len(some) < 2:
        return some[0] if some else _NONE
    h29, row = (np.concatenate(column) for column in zip(*some, strict=True))
    along = np.argsort(row) if by_row else np.lexsort((row, h29))
    return ListedRows(h29[along], row[along])


@lru_cache(maxsize=_KEPT)
def _along_curve(folder: str, path: str) -> ListedRows:
    table = read_rows(run_storage(folder), path)
    return ListedRows(table[HEALPIX_COLUMN].to_numpy(), table[ROW_COLUMN].to_numpy())


@lru_cache(maxsize=_KEPT)
def _by_row(folder: str, path: str) -> ListedRows:
    along = _along_curve(folder, path)
    order = np.argsort(along.row)
    return ListedRows(along.h29[order], along.row[order])


@lru_cache(maxsize=_KEPT)
def _ends(folder: str, path: str) -> pa.Array:
    """The ends of the rows of a file, in the order of `_by_row`."""
    ends = read_rows(run_storage(folder), path)[END_COLUMN].combine_chunks()
    return ends.take(pa.array(np.argsort(_along_curve(folder, path).row)))
