"""Keys along space-filling curves: Morton (z-order) by interleaving bits, and Hilbert.

Rows that are near to each other in several columns get keys that are near to each other, so files that each
hold a run of keys have small bounds in every column.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

KEY_BITS = 64
MOST_LOOKED_UP = 3
"""Columns whose Hilbert curve is looked up: with more, a curve has hundreds of states."""

_TABLE_ENTRIES = 1 << 14
_TABLE_BITS = 12  # of an id, whose bits are looked up rather than moved one by one


class Curve(Enum):
    """The curves that a table can be clustered along."""

    Z_ORDER = "zorder"
    HILBERT = "hilbert"

    def keys(self, ids: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint64]:
        """Return the keys of points; see `interleave_bits` and `hilbert_index`."""
        return interleave_bits(ids, bits) if self is Curve.Z_ORDER else hilbert_index(ids, bits)

    def may_follow(self, columns: int) -> bool:
        """Whether `of_interleaved` gives keys of so many columns."""
        return self is Curve.Z_ORDER or columns <= MOST_LOOKED_UP

    def of_interleaved(self, places: NDArray[np.int64], columns: int, bits: int) -> NDArray[np.int64]:
        """Return the keys of points whose interleaved bits are known; see `hilbert_of_interleaved`."""
        return places if self is Curve.Z_ORDER else hilbert_of_interleaved(places, columns, bits)


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


def hilbert_of_interleaved(places: NDArray[np.int64], columns: int, bits: int) -> NDArray[np.int64]:
    """Return the place on the Hilbert curve of points whose bits are interleaved already.

    The curve is an automaton: what it does in a cell depends on a state, and each of the cells in it leads to
    another. Several levels are looked up together.

    Parameters
    ----------
    places : int64[n]
        As `interleave_bits` gives them, each below 2**(columns * bits).
    columns : int
        Dimensions, at most `MOST_LOOKED_UP`.
    bits : int
        Bits of each id; `columns * bits` is at most 63.

    Returns
    -------
    int64[n]
        What `hilbert_index` gives.
    """
    automaton = _automaton(columns)
    levels = automaton.levels
    width, first = columns * levels, (bits - 1) % levels + 1
    low, high = np.int64((1 << width) - 1), np.int64(-1 << width)
    rest = columns * (bits - first)
    found = _from_root(columns, first).take(places >> rest)
    keys = found & low
    while rest:
        rest -= width
        found &= high
        found |= (places >> rest) & low
        found = automaton.table.take(found)
        keys <<= width
        keys |= found & low
    return keys


@dataclass(frozen=True)
class _Automaton:
    """The Hilbert curve as states of cells.

    Attributes
    ----------
    levels : int
        That are looked up together, w = levels * columns bits.
    digits : int64[states, 2**columns]
        Which of the cells in a cell the curve comes to as which, by their interleaved bits. The first state
        is that of the whole cube.
    following : int64[states, 2**columns]
        The state of each of them.
    table : int64[states * 2**w]
        By state << w and the interleaved bits of `levels` levels: the state that they lead to, << w, and the
        digits.
    """

    levels: int
    digits: NDArray[np.int64]
    following: NDArray[np.int64]
    table: NDArray[np.int64]


@lru_cache(maxsize=64)
def _from_root(columns: int, levels: int) -> NDArray[np.int64]:
    """As the table of an automaton, of the first levels of a key, by their bits alone."""
    automaton = _automaton(columns)
    width = columns * automaton.levels
    return _looked_up(automaton.digits, automaton.following, 1, columns, levels, width)


def _looked_up(
    digits: NDArray[np.int64],
    following: NDArray[np.int64],
    states: int,
    columns: int,
    levels: int,
    shift: int,
) -> NDArray[np.int64]:
    """Where the bits of some levels lead from each of the first states.

    Returns
    -------
    int64[states * 2**(levels * columns)]
        By state and bits: the state that they lead to, shifted, and the digits.
    """
    state = np.repeat(np.arange(states), 1 << (levels * columns))
    bits = np.tile(np.arange(1 << (levels * columns)), states)
    found = np.zeros_like(bits)
    for level in range(levels - 1, -1, -1):
        cell = (bits >> (level * columns)) & ((1 << columns) - 1)
        found = found << columns | digits[state, cell]
        state = following[state, cell]
    return state << shift | found


@lru_cache(maxsize=8)
def _automaton(columns: int) -> _Automaton:
    """Find the states by `hilbert_index`, cell by cell: cells of a state have the same digits."""
    cells = _cells(columns)

    def digits_in(path: tuple[int, ...]) -> tuple[int, ...]:
        """The digits of the cells in the cell that a path of cells leads to."""
        ids = np.zeros_like(cells)
        for cell in path:
            ids = ids << np.uint64(1) | cells[cell]
        keys = hilbert_index(ids << np.uint64(1) | cells, len(path) + 1)
        return tuple((keys & np.uint64(len(cells) - 1)).tolist())

    paths: dict[tuple[int, ...], tuple[int, ...]] = {digits_in(()): ()}
    states, following = [*paths], list[list[int]]()
    while len(following) < len(states):
        path = paths[states[len(following)]]
        own = []
        for cell in range(len(cells)):
            found = digits_in((*path, cell))
            if found not in paths:
                paths[found] = (*path, cell)
                states.append(found)
            own.append(states.index(found))
        following.append(own)
    digits, after = np.array(states, np.int64), np.array(following, np.int64)
    levels = max(1, (_TABLE_ENTRIES // len(states)).bit_length() - 1) // columns or 1
    table = _looked_up(digits, after, len(states), columns, levels, columns * levels)
    return _Automaton(levels, digits, after, table)


def _cells(columns: int) -> NDArray[np.uint64]:
    """The cells of a cube of side 2 by their interleaved bits: uint64[2**columns, columns]."""
    places = np.arange(1 << columns, dtype=np.uint64)[:, None]
    return places >> np.arange(columns, dtype=np.uint64)[None, ::-1] & np.uint64(1)


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
