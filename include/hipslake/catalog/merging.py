"""Rows in curve order: merging sorted batches into row groups.

The order is (`_healpix_29`, place in the source). Batches are given in source order, and the place of equal
keys is kept, so `_row` itself need not be compared, nor be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


def merged_row_groups(batches: Sequence[pa.RecordBatch], row_group_rows: int) -> Iterator[pa.Table]:
    """Merge sorted batches into one sorted sequence of row groups.

    Only the keys are merged as a whole. Some row groups at a time are then gathered from one slice of every
    batch, so that no more than the batches themselves and some 16 MiB are held, or one row group.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
        Each sorted by `_healpix_29`, with equal keys in source order; together in source order.
    row_group_rows : int
        Rows of each row group but the last.

    Yields
    ------
    pyarrow.Table
    """
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    keys = np.concatenate([keys_of(batch) for batch in batches])
    if np.all(keys[1:] >= keys[:-1]):  # stretches of the curve, one after another: nothing to merge
        table = pa.Table.from_batches(batches)
        for begin in range(0, len(keys), row_group_rows):
            yield table.slice(begin, row_group_rows)
        return
    lengths = np.array([batch.num_rows for batch in batches])
    order = curve_order(keys)
    of_row = np.repeat(np.arange(len(batches), dtype=np.min_scalar_type(len(batches))), lengths)
    starts, taken = np.cumsum(lengths) - lengths, np.zeros_like(lengths)
    gathering = Gathering(batches)
    # Slices cost the same however many rows they have: with few rows in each, several times the rows.
    row_bytes = max(1, sum(batch.nbytes for batch in batches) // len(keys))
    gathered_rows = max(1, _GATHERED_BYTES // (row_bytes * row_group_rows)) * row_group_rows
    for begin in range(0, len(order), gathered_rows):
        chosen = order[begin : begin + gathered_rows]
        of_batch = of_row.take(chosen)
        counts = np.bincount(of_batch, minlength=len(batches))
        # From a row's place in all batches to its place in the slices, which stand one after another.
        shift = np.cumsum(counts) - counts - taken - starts
        gathered = gathering.rows(taken, counts, chosen + shift.take(of_batch))
        taken += counts
        for first in range(0, len(chosen), row_group_rows):
            yield gathered.slice(first, row_group_rows)
