"""Rows in curve order: merging sorted batches into row groups.

The order is (`_healpix_29`, place in the source). Batches are given in source order, and the place of equal
keys is kept, so `_row` itself need not be compared, nor be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.gathering import Gathering
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN

_GATHERED_BYTES = 16 << 20


def keys_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The `_healpix_29` column of a batch, without a copy."""
    keys: NDArray[np.int64] = batch.column(batch.schema.get_field_index(HEALPIX_COLUMN)).to_numpy()
    return keys


def within(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    """The rows of a sorted batch whose `_healpix_29` lies in [start, stop), as a view."""
    first, last = np.searchsorted(keys_of(batch), [start, stop])
    return batch.slice(first, last - first)


class _LookedUp:
    """What is looked up once for all stretches of some batches."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches

    @cached_property
    def gathering(self) -> Gathering:
        """Of the batches."""
        return Gathering(self._batches)

    @cached_property
    def row_bytes(self) -> int | None:
        """Of a row, where all have the same number, at least of one; else None."""
        try:
            bits = sum(kind.bit_width for kind in self._batches[0].schema.types)
        except ValueError:  # of texts, lists and the like
            return None
        return max(1, bits // 8)


class SortedBatches:
    """Rows of sorted batches, and stretches of them, which are merged into one sorted sequence.

    Stretches share what is looked up once in each batch, such as where the values of a column are.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
        Each sorted by `_healpix_29`, with equal keys in source order; together in source order.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = [batch for batch in batches if batch.num_rows]
        self._looked_up = _LookedUp(self._batches)
        self._keys = [keys_of(batch) for batch in self._batches]
        self._first = np.zeros(len(self._batches), np.int64)
        self._stop = np.array([len(keys) for keys in self._keys], np.int64)

    @classmethod
    def of(cls, batches: SortedBatches | Sequence[pa.RecordBatch]) -> SortedBatches:
        """Batches as this class, if they are not yet."""
        return batches if isinstance(batches, SortedBatches) else cls(batches)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int((self._stop - self._first).sum())

    def within(self, start: int, stop: int) -> SortedBatches:
        """The rows whose `_healpix_29` lies in [start, stop), as a view."""
        ends = np.array([start, stop])
        places = [keys.searchsorted(ends) for keys in self._keys]
        found = copy(self)
        if places:
            first, last = np.stack(places, axis=1)
            found._first = np.clip(first, self._first, self._stop)
            found._stop = np.clip(last, self._first, self._stop)
        return found

    def row_groups(self, row_group_rows: int) -> Iterator[pa.Table]:
        """The rows by `_healpix_29`, with equal ones in source order.

        Only the keys are merged as a whole. Some row groups at a time are then gathered from one slice of
        every batch, so that no more than the batches themselves and some 16 MiB are held, or one row group.

        Parameters
        ----------
        row_group_rows : int
            Rows of each row group but the last.

        Yields
        ------
        pyarrow.Table
        """
        lengths = self._stop - self._first
        if not lengths.any():
            return
        bounds = list(zip(self._first.tolist(), self._stop.tolist(), strict=True))
        keys = np.concatenate(
            [each[first:stop] for each, (first, stop) in zip(self._keys, bounds, strict=True)]
        )
        if np.all(keys[1:] >= keys[:-1]):  # stretches of the curve, one after another: nothing to merge
            table = pa.Table.from_batches(self._slices())
            for begin in range(0, len(keys), row_group_rows):
                yield table.slice(begin, row_group_rows)
            return
        order = curve_order(keys)
        of_row = np.repeat(np.arange(len(lengths), dtype=np.min_scalar_type(len(lengths))), lengths)
        starts, taken = np.cumsum(lengths) - lengths, np.zeros_like(lengths)
        gathering = self._looked_up.gathering
        # Slices cost the same however many rows they have: with few rows in each, several times the rows.
        gathered_rows = max(1, _GATHERED_BYTES // (self._row_bytes() * row_group_rows)) * row_group_rows
        for begin in range(0, len(order), gathered_rows):
            chosen = order[begin : begin + gathered_rows]
            of_batch = of_row.take(chosen)
            counts = np.bincount(of_batch, minlength=len(lengths))
            # From a row's place in all batches to its place in the slices, which stand one after another.
            shift = np.cumsum(counts) - counts - taken - starts
            gathered = gathering.rows(self._first + taken, counts, chosen + shift.take(of_batch))
            taken += counts
            for first in range(0, len(chosen), row_group_rows):
                yield gathered.slice(first, row_group_rows)

    def _slices(self) -> list[pa.RecordBatch]:
        """The batches' rows, as views of those that have any."""
        bounds = zip(self._batches, self._first.tolist(), self._stop.tolist(), strict=True)
        return [batch.slice(first, stop - first) for batch, first, stop in bounds if stop > first]

    def _row_bytes(self) -> int:
        """Of a row, in the mean."""
        if (fixed := self._looked_up.row_bytes) is not None:
            return fixed
        return max(1, sum(batch.nbytes for batch in self._slices()) // self.num_rows)
