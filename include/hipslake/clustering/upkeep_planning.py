"""Which files of a clustered table are rewritten as others come in: those that queries open too often.

The bounds of a file say in how many of all queries it is opened: ranges of a tenth of the rows, of one column
or of all. A file that overlaps others, or is small, is opened more often than its bytes are worth. Sets of
such files that lie near to each other along the curve are compared with what would come of them, and those
that gain the most for what it costs to rewrite them are chosen, as far as the bound on bytes goes. It is
all known from the bounds; no row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.clustering.curves import Curve
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.planning import FileSizing, RewriteGroup, TableFile

SIDE = 0.1
"""The share of the rows that a query asks for in each column that it names."""

HEALTHY = 1.05
"""A partition is left alone while queries open no more than so many times the files of a full clustering."""

LEAST_GAIN = 0.1
"""A set of files is rewritten if queries open so much less of it afterwards, about."""

_POINTS = 32  # drawn for each file that would come of a set
_BITS = 10  # of each column, for places on the curve
_KEY_BITS = 63
_BADNESS = (1.1, 1.5, 2.0, 3.0, 5.0, 8.0)  # times what the bytes of a file are worth
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # of the bound, that a set takes
_MOST_SETS = 2000  # that are looked at more closely
_COST_POWER = 0.5  # of the bytes of a set, in the price of its gain

Kind = tuple[int, ...]
"""The columns that a kind of query names, by their places."""


def query_kinds(columns: int) -> list[Kind]:
    """The kinds of queries by which files are compared: of each column alone, and of all together.

    Examples
    --------
    >>> query_kinds(3)
    [(0,), (1,), (2,), (0, 1, 2)]
    """
    alone: list[Kind] = [(at,) for at in range(columns)]
    return alone if columns == 1 else [*alone, tuple(range(columns))]


def rank_boxes(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    rows: NDArray[np.float64],
    empty: NDArray[np.bool_],
) -> FileBoxes:
    """The bounds of files in shares of the rows, by what the bounds tell of where rows lie.

    Parameters
    ----------
    low, high : float64[f, k]
        Numbers in the order of the values; NaN where they are not known: the file then spans everything.
    rows : float64[f]
    empty : bool[f, k]
        Whether a file has no value in a column: no range meets it.
    """
    found = [_ranked(low[:, at], high[:, at], rows, empty[:, at]) for at in range(low.shape[1])]
    return FileBoxes(np.stack([a for a, _ in found], 1), np.stack([b for _, b in found], 1))


def _ranked(
    low: NDArray[np.float64], high: NDArray[np.float64], rows: NDArray[np.float64], empty: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    known = np.isfinite(low) & np.isfinite(high) & ~empty
    ranked = np.where(empty, np.nan, 0.0), np.where(empty, np.nan, 1.0)
    if not known.any():
        return ranked
    least, most = low[known].min(), high[known].max()
    width = (most - least) or 1.0
    first, last = (low[known] - least) / width, (high[known] - least) / width
    points = np.unique(np.concatenate([first, last]))
    start, stop = np.searchsorted(points, first), np.searchsorted(points, last)
    # Rows of a file lie evenly between its bounds; where these are equal, at one point.
    at_point = np.zeros(len(points))
    single = start == stop
    np.add.at(at_point, start[single], rows[known][single])
    density = np.zeros(len(points))
    spread = rows[known][~single] / (points[stop[~single]] - points[start[~single]])
    np.add.at(density, start[~single], spread)
    np.add.at(density, stop[~single], -spread)
    between = np.append(0.0, (np.cumsum(density)[:-1] * np.diff(points)).clip(0))
    upto = np.cumsum(between + at_point)  # at each point, its own rows included
    total = upto[-1] or 1.0
    ranked[0][known] = ((upto - at_point) / total)[start]
    ranked[1][known] = (upto / total)[stop]
    return ranked


def opened_share(boxes: FileBoxes, kinds: Sequence[Kind], side: float = SIDE) -> NDArray[np.float64]:
    """In what share of all queries of each kind a file is opened, as float64[f, kinds].

    Queries lie evenly over the rows, and ask for a share `side` of them in each of their columns.
    """
    low, high = boxes.low, boxes.high
    share = (np.minimum(high, 1 - side) - np.maximum(low - side, 0)) / (1 - side)
    share = np.nan_to_num(share, nan=0.0).clip(0, 1)
    return np.stack([share[:, list(kind)].prod(axis=1) for kind in kinds], axis=1)


def touched_by_kind(
    boxes: FileBoxes, kinds: Sequence[Kind], *, side: float = SIDE, queries: int = 1000, seed: int = 0
) -> list[float]:
    """How many files a query of each kind opens on average, of seeded queries."""
    found = []
    for at, kind in enumerate(kinds):
        low = np.full((queries, boxes.low.shape[1]), -np.inf)
        high = np.full_like(low, np.inf)
        first = np.random.default_rng([seed, at]).uniform(0, 1 - side, (queries, len(kind)))
        low[:, list(kind)], high[:, list(kind)] = first, first + side
        found.append(float(boxes.touched(low, high).mean()) if len(boxes) else 0.0)
    return found


@dataclass(frozen=True)
class Upkeep:
    """What is rewritten.

    Attributes
    ----------
    groups : tuple of RewriteGroup
    expected : float
        Files that a query opens, mean over kinds, in times of those of a table that is clustered anew as a
        whole; before anything is rewritten, as far as the bounds tell.
    """

    groups: tuple[RewriteGroup, ...]
    expected: float


def plan_upkeep(
    files: Sequence[TableFile],
    boxes: FileBoxes,
    *,
    curve: Curve,
    sizing: FileSizing,
    most_bytes: float,
    least_gain: float = LEAST_GAIN,
    seed: int = 0,
) -> Upkeep:
    """Choose sets of files that are worth being clustered anew.

    Parameters
    ----------
    files : sequence of TableFile
    boxes : FileBoxes
        Their bounds, in shares of the rows.
    curve : Curve
        That files are written along.
    sizing : FileSizing
    most_bytes : float
        No more is rewritten.
    least_gain : float
        The share of its cost, as `opened_share` has it, that rewriting a set has to save.
    seed : int
        Of the points that stand for rows.

    Returns
    -------
    Upkeep
        Groups of one partition each, with at least two files or one that is too large; no file is in two.
    """
    if not files:
        return Upkeep((), 1.0)
    planner = _Planner(files, boxes, curve, sizing, seed)
    chosen = planner.chosen(most_bytes, least_gain)
    groups = [
        RewriteGroup(files[some[0]].partition, tuple(files[at] for at in some), planner.num_files(some))
        for some in chosen
    ]
    return Upkeep(tuple(groups), float(planner.cost.sum()))


class _FileSet(NamedTuple):
    """Files by their places, their cost, their bytes, and the most that rewriting them may save."""

    places: NDArray[np.int64]
    cost: float
    bytes: float
    most_gain: float


class _Planner:
    """The cost of files, in times of what all files cost after a full clustering."""

    def __init__(
        self, files: Sequence[TableFile], boxes: FileBoxes, curve: Curve, sizing: FileSizing, seed: int
    ) -> None:
        self._boxes, self._curve, self._sizing, self._seed = boxes, curve, sizing, seed
        self._rows = np.array([max(file.rows, 1) for file in files], np.float64)
        self._bytes = np.array([max(file.bytes, 1) for file in files], np.float64)
        self._kinds = query_kinds(boxes.low.shape[1])
        by_partition: dict[str, list[int]] = {}
        for at, file in enumerate(files):
            by_partition.setdefault(file.partition, []).append(at)
        self._partitions = [np.array(places, np.int64) for places in by_partition.values()]
        full = np.sum([self._after(places) for places in self._partitions], axis=0)
        self._weights = 1 / (np.maximum(full, 1e-12) * len(self._kinds))
        self.cost = opened_share(boxes, self._kinds) @ self._weights

    def num_files(self, places: Sequence[int] | NDArray[np.int64]) -> int:
        """Into how many files some go."""
        return self._sizing.num_files(int(self._bytes[places].sum()))

    def chosen(self, most_bytes: float, least_gain: float) -> list[list[int]]:
        """The sets that are rewritten, the best first."""
        sets = [each for places in self._partitions for each in self._sets(places, most_bytes)]
        worth = [each for each in sets if each.most_gain >= least_gain * each.cost]
        worth.sort(key=lambda each: (-each.most_gain / each.bytes**_COST_POWER, each.places[0]))
        priced = []
        for each in worth[:_MOST_SETS]:
            gain = each.cost - float(self._after(each.places) @ self._weights)
            if gain >= least_gain * each.cost:
                priced.append((gain / each.bytes**_COST_POWER, each))
        priced.sort(key=lambda each: (-each[0], each[1].places[0]))
        taken = np.zeros(len(self._rows), bool)
        found, left = [], most_bytes
        for _, each in priced:
            if each.bytes <= left and not taken[each.places].any():
                taken[each.places] = True
                left -= each.bytes
                found.append(each.places.tolist())
        return found

    def _sets(self, places: NDArray[np.int64], most_bytes: float) -> Iterable[_FileSet]:
        """Neighbours along the curve among the files of a partition that cost more than they are worth."""
        worth = self._worth(places)
        if self.cost[places].sum() < HEALTHY * worth.sum():
            return
        badness = self.cost[places] / worth
        middle = np.nan_to_num((self._boxes.low[places] + self._boxes.high[places]) / 2)
        along = places[np.argsort(self._keys(middle), kind="stable")]
        rank = dict(zip(places.tolist(), badness.tolist(), strict=True))
        bad = np.array([rank[at] for at in along.tolist()])
        value = dict(zip(places.tolist(), worth.tolist(), strict=True))
        seen: set[tuple[int, ...]] = set()
        for least in _BADNESS:
            some = along[bad >= least]
            upto = np.append(0.0, np.cumsum(self._bytes[some]))
            for first, last in _windows(upto, min(most_bytes, float(upto[-1]))):
                window = np.sort(some[first:last])
                cuts = len(window) == 1 and self._bytes[window[0]] > self._sizing.large
                if (len(window) < 2 and not cuts) or (key := tuple(window.tolist())) in seen:
                    continue
                seen.add(key)
                cost = float(self.cost[window].sum())
                yield _FileSet(
                    window,
                    cost,
                    float(self._bytes[window].sum()),
                    cost - sum(value[at] for at in key),
                )

    def _worth(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """What files of a partition would cost by their bytes, were it clustered as a whole."""
        full = float(self._after(places) @ self._weights)
        return np.maximum(full, 1e-12) * self._bytes[places] / self._bytes[places].sum()

    def _after(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The queries of each kind that open what would come of some files, by points in their boxes."""
        files = self.num_files(places)
        low = np.nan_to_num(self._boxes.low[places])
        high = np.nan_to_num(self._boxes.high[places])
        ends = np.round(np.cumsum(self._rows[places]) / self._rows[places].sum() * files * _POINTS)
        of = np.repeat(np.arange(len(places)), np.diff(np.append(0, ends)).astype(np.int64))
        random = np.random.default_rng([self._seed, len(of)])
        points = low[of] + random.random((len(of), low.shape[1])) * (high[of] - low[of])
        ranks = np.argsort(np.argsort(points, axis=0), axis=0) / len(points)
        points = points[np.argsort(self._keys(ranks), kind="stable")]
        starts = np.arange(files) * len(points) // files
        least, most = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
        # Bounds of all rows are wider than those of the points, as of so many even numbers.
        wider = (most - least) / (_POINTS - 1)
        boxes = FileBoxes(
            np.maximum(least - wider, low.min(axis=0)), np.minimum(most + wider, high.max(axis=0))
        )
        return opened_share(boxes, self._kinds).sum(axis=0)

    def _keys(self, points: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Places on the curve of points in [0, 1]."""
        bits = max(1, min(_BITS, _KEY_BITS // points.shape[1]))
        cells = (points * (1 << bits)).clip(0, (1 << bits) - 1).astype(np.uint64)
        return self._curve.keys(cells, bits)


def _windows(upto: NDArray[np.float64], most: float) -> Iterable[tuple[int, int]]:
    """Runs of files of some shares of the most bytes, each beginning in the middle of the one before.

    Parameters
    ----------
    upto : float64[n + 1]
        Bytes of the files before each.
    most : float
    """
    count = len(upto) - 1
    for share in _SHARES:
        first = 0
        while first < count:
            last = min(int(np.searchsorted(upto, upto[first] + most * share, side="right")) - 1, count)
            if last > first:
                yield first, last
            if last >= count:
                break
            half = int(np.searchsorted(upto, upto[first] + most * share / 2, side="left"))
            first = max(first + 1, half)
