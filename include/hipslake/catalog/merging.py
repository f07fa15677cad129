"""Rows in curve order: sorting a batch by `_healpix_29`, and merging sorted batches into row groups.

The order is (`_healpix_29`, place in the source). Batches are given in source order, and the place of equal
keys is kept, so `_row` itself need not be compared, nor be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.sphere.pixels import HEALPIX_COLUMN

_LEADING_BITS = 32


def curve_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Permutation that sorts the keys and keeps the order of equal ones.

    Parameters
    ----------
    keys : int64[n]

    Returns
    -------
    int64[n]

    Notes
    -----
    The same as `numpy.argsort(keys, kind="stable")`, several times as fast. numpy sorts 16-bit numbers by
    radix, so the keys are taken as digits of 16 bits, above the smallest key, from the last digit on. The
    first two digits tell nearly all rows of a sky apart; the few that they do not are put right afterwards.
    """
    if len(keys) < 2:
        return np.arange(len(keys))
    above = keys - keys.min()
    width = int(above.max()).bit_length()
    rest = max(0, width - _LEADING_BITS)
    leading = (above >> rest).astype(np.uint32)
    order = _by_digits(leading, width - rest)
    if rest:
        in_order = leading.take(order)
        tied_to_next = in_order[1:] == in_order[:-1]
        ties = np.count_nonzero(tied_to_next)
        if ties > len(keys) // 8:
            return _by_digits(above, width)
        if ties:
            tied = np.flatnonzero(np.append(tied_to_next, False) | np.append(False, tied_to_next))
            rows = order[tied]
            order[tied] = rows[np.lexsort((above[rows], in_order[tied]))]
    return order


def _by_digits(values: NDArray[np.integer], width: int) -> NDArray[np.int64]:
    """Stable permutation that sorts non-negative numbers of `width` bits."""
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(16, width, 16):
        digit = (values >> shift).astype(np.uint16)
        order = order.take(np.argsort(digit.take(order), kind="stable"))
    return order


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

    Only the keys are merged as a whole. A row group is then gathered from one slice of every batch, so that
    no more than the batches themselves and one row group is held.

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
    for begin in range(0, len(order), row_group_rows):
        chosen = order[begin : begin + row_group_rows]
        of_batch = of_row.take(chosen)
        counts = np.bincount(of_batch, minlength=len(batches))
        slices = [
            batch.slice(first, count)
            for batch, first, count in zip(batches, taken.tolist(), counts.tolist(), strict=True)
            if count
        ]
        # From a row's place in all batches to its place in the slices, which stand one after another.
        shift = np.cumsum(counts) - counts - taken - starts
        taken += counts
        table = pa.Table.from_batches(slices).combine_chunks()
        yield pc.take(table, pa.array(chosen + shift.take(of_batch)), boundscheck=False)
