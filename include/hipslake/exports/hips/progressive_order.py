"""Which row of a catalog stands in which tile of its HiPS: the first rows of a pixel in the coarsest tile.

Order by order, a tile takes the first rows of its pixel that no coarser tile has. So of the rows of any pixel
coarser tiles take those that come first, and of a leaf file it is enough to know how many each of them takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import SchemaMismatchError
from hipslake.sphere.pixels import MAX_ORDER, coarsen

FIRST_ORDER = 1
"""Of tiles: Aladin asks for none of order 0."""
ALLSKY_ORDERS = (1, 2)
"""Orders of which clients load all tiles at once, as one file."""
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class TileLimits:
    """How many rows a tile may have.

    Attributes
    ----------
    allsky_rows : int
        Of orders 1 and 2.
    tile_rows : int
        Of the orders below.
    deepest : int
        The last order; its tiles take all rows that are left.
    """

    allsky_rows: int
    tile_rows: int
    deepest: int

    def at(self, order: int) -> int | None:
        """Rows of a tile of an order; None: all that are left."""
        if order >= self.deepest:
            return None
        return self.allsky_rows if order in ALLSKY_ORDERS else self.tile_rows

    def above(self, order: int) -> int | None:
        """How many rows of a pixel of an order tiles of lower orders take at most; None: all."""
        limits = [self.at(each) for each in range(FIRST_ORDER, order)]
        return None if None in limits else sum(limit or 0 for limit in limits)


class RowRanks(NamedTuple):
    """Of each of n rows, what says which comes first: compared one after the other, the least first."""

    missing: NDArray[np.bool_]  # null or NaN, which come last
    key: NDArray[np.uint64]  # the value of the column that orders rows
    tie: NDArray[np.uint64]  # the position, shuffled: equal values are spread over the sky

    def along(self) -> NDArray[np.int64]:
        """Numbers of the rows, the first one first; rows at one place keep their order."""
        return np.lexsort((self.tie, self.key, self.missing))

    def take(self, rows: NDArray[np.int64]) -> RowRanks:
        """Of some rows."""
        return RowRanks(self.missing[rows], self.key[rows], self.tie[rows])


def row_ranks(
    h29: NDArray[np.int64], values: pa.ChunkedArray | None = None, *, descending: bool = False
) -> RowRanks:
    """Rank rows by a column, or by chance if there is none.

    Parameters
    ----------
    h29 : int64[n]
        `_healpix_29`.
    values : pyarrow.ChunkedArray of n numbers, times or booleans, optional
        Null and NaN come last either way. -0.0 is 0.0.
    descending : bool
        Whether large values come first.

    Raises
    ------
    SchemaMismatchError
        Values of this type have no order that rows could be shown in.
    """
    tie = _shuffled(h29)
    if values is None:
        return RowRanks(np.zeros(len(h29), bool), np.zeros(len(h29), np.uint64), tie)
    missing, key = _keys(values)
    if descending:
        key = ~key
    return RowRanks(missing, np.where(missing, np.uint64(0), key), tie)


def check_orders_rows(field: pa.Field) -> None:
    """Raise `SchemaMismatchError` if rows cannot be shown in the order of a column."""
    row_ranks(np.empty(0, np.int64), pa.chunked_array([], field.type))


def _keys(values: pa.ChunkedArray) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Which values are missing, and unsigned integers in the order of the values."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _keys(values.cast(kind.value_type))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = values.cast(pa.float64(), safe=False).to_numpy() + 0.0  # null becomes NaN, -0.0 becomes 0.0
        bits = numbers.view(np.uint64)
        return np.isnan(numbers), np.where(bits & _SIGN, ~bits, bits | _SIGN)
    missing = values.is_null().to_numpy()
    if pa.types.is_unsigned_integer(kind):
        return missing, values.cast(pa.uint64()).fill_null(0).to_numpy()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif not (pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise SchemaMismatchError(f"rows cannot be ordered by {kind}; order them by numbers or times")
    whole = values.cast(pa.int64()).fill_null(0).to_numpy()
    return missing, whole.view(np.uint64) ^ _SIGN


def _shuffled(h29: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers without a pattern, a different one for each pixel.

    Source: Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195 (splitmix64).
    """
    mixed = h29.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def tile_orders(
    h29: NDArray[np.int64], along: NDArray[np.int64], limits: TileLimits, first: int
) -> NDArray[np.int8]:
    """The order of the tile of each row, where no other rows lie in the pixels of these tiles.

    Parameters
    ----------
    h29 : int64[n]
        `_healpix_29`.
    along : int64[m]
        Numbers of the rows that tiles of order `first` and below share, the first one first.
    limits : TileLimits
    first : int

    Returns
    -------
    int8[n]
        -1 for rows that are not in `along`.
    """
    orders = np.full(len(h29), -1, np.int8)
    left = along
    for order in range(first, limits.deepest + 1):
        limit = limits.at(order)
        taken = np.ones(len(left), bool) if limit is None else _places(coarsen(h29[left], order)) < limit
        orders[left[taken]] = order
        left = left[~taken]
    return orders


def taken_above(
    start: NDArray[np.int64],
    part_order: NDArray[np.int64],
    part: NDArray[np.int64],
    along: NDArray[np.int64],
    limits: TileLimits,
) -> NDArray[np.int64]:
    """How many rows of each part of the sky stand in tiles that are coarser than the part.

    Parameters
    ----------
    start, part_order : int64[p]
        The first order-29 pixel of each part, and its order: a part is a pixel, and no two overlap.
    part : int64[n]
        The part of each row; rows that no coarser tile can take may be left out.
    along : int64[n]
        Numbers of the rows, the first one first.
    limits : TileLimits

    Returns
    -------
    int64[p, limits.deepest + 1]
        Rows by part and by order of the tile: of a part's rows, those of order 1 come first, then those of
        order 2, and so on.
    """
    taken = np.zeros((len(start), limits.deepest + 1), np.int64)
    left = part[along]
    for order in range(FIRST_ORDER, limits.deepest + 1):
        left = left[part_order[left] > order]
        if not len(left):
            break
        limit = limits.at(order)
        here = np.ones(len(left), bool) if limit is None else _places(coarsen(start[left], order)) < limit
        taken[:, order] = np.bincount(left[here], minlength=len(start))
        left = left[~here]
    return taken


def order_of_span(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """The orders of pixels that are given as order-29 pixels [start, stop), int64[p]."""
    widths = np.int64(1) << (2 * np.arange(MAX_ORDER + 1, dtype=np.int64))
    return np.asarray(MAX_ORDER - np.searchsorted(widths, stop - start), np.int64)


def _places(pixel: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows with the same pixel stand before each row, int64[n]."""
    grouped = np.argsort(pixel, kind="stable")
    there = pixel[grouped]
    begins = np.flatnonzero(np.diff(there, prepend=-1))
    places = np.empty(len(pixel), np.int64)
    places[grouped] = np.arange(len(pixel)) - np.repeat(begins, np.diff(np.append(begins, len(pixel))))
    return places
