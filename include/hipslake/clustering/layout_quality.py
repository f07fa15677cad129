"""How well files skip: what their bounds tell of how many a query has to open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 24  # comparisons of a box with a point or query that are held at once


@dataclass(frozen=True)
class FileBoxes:
    """The lowest and the highest value of each file in each column.

    Attributes
    ----------
    low, high : float64[f, k]
        NaN where a file has no value in a column: no range meets it.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of_rows(cls, points: NDArray[np.float64], files: NDArray[np.int64]) -> FileBoxes:
        """Bound the rows of each file.

        Parameters
        ----------
        points : float64[n, k]
            NaN where a row has no value.
        files : int64[n]
            The file of each row; files that get none are left out.
        """
        order = np.argsort(files, kind="stable")
        ordered = files[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(files) else ordered
        points = points[order]
        return cls(np.fmin.reduceat(points, first), np.fmax.reduceat(points, first))

    def __len__(self) -> int:
        return len(self.low)

    def touched(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many files each query has to open.

        Parameters
        ----------
        low, high : float64[q, k]
            Boxes, both ends included; infinite where a query says nothing of a column.
        """
        found = np.zeros(len(low), np.int64)
        step = max(1, _AT_ONCE // max(1, self.low.size))
        for start in range(0, len(low), step):
            part = slice(start, start + step)
            meets = np.ones((len(low[part]), len(self)), bool)
            for column in range(self.low.shape[1]):
                lowest, highest = low[part, column, None], high[part, column, None]
                unbounded = np.isneginf(lowest) & np.isposinf(highest)
                meets &= unbounded | ((self.low[:, column] <= highest) & (self.high[:, column] >= lowest))
            found[part] = meets.sum(axis=1)
        return found

    def depth(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many boxes hold each point, given as float64[p, k]."""
        return self.touched(points, points)


@dataclass(frozen=True)
class Quality:
    """How well a set of files skips.

    Attributes
    ----------
    files : int
    touched : float
        Mean number of files that a query opens: boxes with a tenth of the rows' span in each column.
    depth : float
        Average overlap depth: of boxes that hold a point, over all points that any box holds.
    """

    files: int
    touched: float
    depth: float


def quality(boxes: FileBoxes, *, side: float = 0.1, queries: int = 1000, seed: int = 0) -> Quality:
    """Ask seeded box queries of files whose bounds lie in the unit cube.

    Parameters
    ----------
    boxes : FileBoxes
        In shares of the rows: 0.25 is where a quarter of the rows lies below. So skewed columns, texts and
        dates are measured alike, and each query of a column asks for the same share of its rows.
    side : float
        Of the box, in each column.
    queries : int
        Boxes, and as many points.
    seed : int
    """
    if not len(boxes):
        return Quality(0, 0.0, 0.0)
    random = np.random.default_rng(seed)
    columns = boxes.low.shape[1]
    low = random.uniform(0, 1 - side, (queries, columns))
    touched = boxes.touched(low, low + side)
    depths = boxes.depth(random.uniform(0, 1, (queries, columns)))
    held = depths[depths > 0]
    return Quality(len(boxes), float(touched.mean()), float(held.mean()) if len(held) else 0.0)
