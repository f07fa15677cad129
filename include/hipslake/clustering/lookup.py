"""Where numbers lie among sorted ones, by a grid: a few steps for each instead of a search through all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CELLS_PER_NUMBER = 16
_FEWEST = 8  # with fewer numbers a search is as short


@dataclass(frozen=True)
class SortedNumbers:
    """Numbers in ascending order, in which others are looked up.

    The span from the first to the last is cut into cells. A number's cell says how many lie in the cells
    before; halving those in its own cell does the rest. Rounding does no harm: a cell only has to come of a
    number by a function that never falls.

    Attributes
    ----------
    numbers : (float | integer)[m]
        Ascending.
    before : int64[c] or None
        Of each cell, how many of the numbers lie in the cells before. None: there is no grid.
    padded : (float | integer)[m + p]
        The numbers, and behind them some that nothing is above.
    rounds : int
        Halvings that the fullest cell takes.
    """

    numbers: NDArray
    before: NDArray[np.int64] | None
    padded: NDArray
    rounds: int

    @classmethod
    def of(cls, numbers: NDArray) -> SortedNumbers:
        """Lay the grid.

        Parameters
        ----------
        numbers : (float | integer)[m]
            Ascending; NaN may come last.
        """
        none = cls(numbers, None, numbers, 0)
        if len(numbers) < _FEWEST or not np.isfinite(numbers[[0, -1]]).all():
            return none
        cells = _cells_for(len(numbers))
        if numbers.dtype.kind == "f":
            with np.errstate(over="ignore", divide="ignore"):
                scale = numbers.dtype.type(cells) / (numbers[-1] - numbers[0])
            if not 0 < scale < np.inf:
                return none
            highest = numbers.dtype.type(np.inf)
        else:
            highest = np.iinfo(numbers.dtype).max
        own = _cells_of(numbers, numbers, cells)
        fullest = int(np.bincount(own).max())
        rounds = fullest.bit_length()
        padded = np.append(numbers, np.full(1 << rounds, highest, numbers.dtype))
        return cls(numbers, np.searchsorted(own, np.arange(cells)), padded, rounds)

    def below(self, values: NDArray) -> NDArray[np.int64]:
        """Return how many of the numbers lie below each value: `numpy.searchsorted`, from the left.

        Parameters
        ----------
        values : (float | integer)[n]
            Of the type of the numbers. All of these lie below NaN.
        """
        if self.before is None:
            return np.searchsorted(self.numbers, values, side="left")
        place = self.before.take(_cells_of(values, self.numbers, len(self.before)))
        probe = np.empty_like(place)
        for step in (1 << bit for bit in reversed(range(self.rounds))):
            np.add(place, step - 1, out=probe)
            above = self.padded.take(probe) < values
            place += np.multiply(above, step, out=probe)
        if values.dtype.kind == "f":
            nan = values != values
            if nan.any():
                place[nan] = len(self.numbers)
        return place


def _cells_for(count: int) -> int:
    """A power of two."""
    return 1 << (_CELLS_PER_NUMBER * count).bit_length()


def _cells_of(values: NDArray, numbers: NDArray, cells: int) -> NDArray[np.int64]:
    """The cell of each value; those outside of the span of the numbers are counted to the outermost cells."""
    first, last = numbers[0], numbers[-1]
    if numbers.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            place = values - first
            place *= numbers.dtype.type(cells) / (last - first)
        np.fmin(place, cells - 1, out=place)  # where NaN stands, the other one
        np.fmax(place, 0, out=place)
        return place.astype(np.int64)
    wide = np.uint64 if numbers.dtype == np.uint64 else np.int64
    place = np.clip(values, first, last).astype(wide, copy=False)
    # Differences of 64 bits fit into as many without a sign, whatever the sign of the numbers was.
    distance = (place - wide(first)).view(np.uint64)
    span = int(last) - int(first)
    distance >>= np.uint64(max(0, span.bit_length() - (cells.bit_length() - 1)))
    return distance.view(np.int64)
