"""Keys along space-filling curves: Morton (z-order) by interleaving bits, and Hilbert.

Rows that are near to each other in several columns get keys that are near to each other, so files that each
hold a run of keys have small bounds in every column.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

KEY_BITS = 64
_TABLE_BITS = 12  # of an id, whose bits are looked up rather than moved one by one


class Curve(Enum):
    """The curves that a table can be clustered along."""

    Z_ORDER = "zorder"
    HILBERT = "hilbert"

    def keys(self, ids: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint64]:
        """Return the keys of points; see `interleave_bits` and `hilbert_index`."""
        return interleave_bits(ids, bits) if self is Curve.Z_ORDER else hilbert_index(ids, bits)


def interleave_bits(ids: NDArray[np.unsignedinteger], bits: int = 32) -> NDArray[np.uint64]:
    """Interleave the bits of each row's ids: its place on the Morton curve.

    Parameters
    ----------
    ids : unsigned integer[n, k]
        A row per point, a column per dimension; each below 2**bits.
    bits : int
        Bits of each id, 1 to 64.

    Returns
    -------
    uint64[n]
        The highest bit of the first column comes first, then that of the second, and so on. Of more than 64
        bits (`k * bits`) the first 64 are kept.

    Raises
    ------
    ValueError
        There is no column, or an id does not fit into `bits`.

    Examples
    --------
    >>> interleave_bits(np.array([[0b11, 0b00], [0b00, 0b11]], np.uint64), bits=2).tolist()
    [10, 5]
    """
    _check(ids, bits)
    columns = [np.ascontiguousarray(column, np.uint64) for column in ids.T]
    return _interleaved(columns, bits)


def hilbert_index(ids: NDArray[np.unsignedinteger], bits: int = 32) -> NDArray[np.uint64]:
    """Return the place of points on the Hilbert curve through a cube of side 2**bits.

    Neighbours on the curve differ by one in one id, and in no other.

    Parameters
    ----------
    ids : unsigned integer[n, k]
        A row per point, a column per dimension; each below 2**bits.
    bits : int
        Bits of each id, 1 to 64.

    Returns
    -------
    uint64[n]
        Of more than 64 bits (`k * bits`) the first 64 are kept: the place on the curve through coarser cells.

    Raises
    ------
    ValueError
        There is no column, or an id does not fit into `bits`.

    Notes
    -----
    J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 381 (2004).

    Examples
    --------
    >>> hilbert_index(np.array([[5, 10, 20]], np.uint64), bits=5).tolist()
    [7865]
    """
    _check(ids, bits)
    narrow = np.min_scalar_type(2**bits - 1)  # narrow numbers: several to an instruction
    axes = [np.ascontiguousarray(column, narrow) for column in ids.T]
    one = narrow.type(1)
    for level in range(bits - 1, 0, -1):
        below = (one << narrow.type(level)) - one
        for axis in axes:
            # All bits where the axis lies in the upper half: there the first axis runs backwards, elsewhere
            # it changes places with this one.
            upper = np.negative((axis >> narrow.type(level)) & one)
            swapped = (axes[0] ^ axis) & below & ~upper
            axes[0] ^= (upper & below) | swapped
            if axis is not axes[0]:
                axis ^= swapped
    for before, axis in pairwise(axes):
        axis ^= before
    turned = np.zeros_like(axes[0])
    for level in range(bits - 1, 0, -1):
        turned ^= np.negative((axes[-1] >> narrow.type(level)) & one) & ((one << narrow.type(level)) - one)
    for axis in axes:
        axis ^= turned
    return _interleaved([axis.astype(np.uint64) for axis in axes], bits)


def _interleaved(columns: list[NDArray[np.uint64]], bits: int) -> NDArray[np.uint64]:
    if bits > _TABLE_BITS or len(columns[0]) >> bits == 0:
        return _spread(columns, bits)
    keys = _table(0, len(columns), bits).take(columns[0].astype(np.int64))
    for at, column in enumerate(columns[1:], 1):
        keys |= _table(at, len(columns), bits).take(column.astype(np.int64))
    return keys


@lru_cache(maxsize=64)
def _table(column: int, columns: int, bits: int) -> NDArray[np.uint64]:
    """The bits of the key for each id of one column."""
    ids = [np.zeros(1 << bits, np.uint64)] * columns
    ids[column] = np.arange(1 << bits, dtype=np.uint64)
    return _spread(ids, bits)


def _spread(columns: list[NDArray[np.uint64]], bits: int) -> NDArray[np.uint64]:
    keys = np.zeros(len(columns[0]), np.uint64)
    for place in range(min(len(columns) * bits, KEY_BITS)):
        level = bits - 1 - place // len(columns)
        bit = (columns[place % len(columns)] >> np.uint64(level)) & np.uint64(1)
        keys <<= np.uint64(1)
        keys |= bit
    return keys


def _check(ids: NDArray[np.unsignedinteger], bits: int) -> None:
    if ids.ndim != 2 or not ids.shape[1]:
        raise ValueError(f"ids of {ids.shape}: they need a row per point and at least one column")
    if not 1 <= bits <= KEY_BITS:
        raise ValueError(f"{bits} bits: an id has 1 to {KEY_BITS}")
    if len(ids) and int(ids.max()) >> bits:
        raise ValueError(f"id {int(ids.max())} does not fit into {bits} bits")
