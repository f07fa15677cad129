"""The rows of a match: each left row beside its partners in every right side, in the order of the left side.

A left row with several partners in several right sides has a row for each combination of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SpecError
from hipslake.joins.match_columns import MatchColumns
from hipslake.joins.matching import Matches
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN

MOST_ROWS = 1 << 20  # of a batch
_COUNTABLE = 2.0**53


@dataclass(frozen=True)
class Partners:
    """The right rows of one side that consecutive left rows match.

    Attributes
    ----------
    rows : slice
        Places of the left rows.
    matches : Matches
        Of these rows, their left places as of `rows`.
    take : callable
        Gives the right columns of the match of some right rows, by their places; null places give nulls.
    """

    rows: slice
    matches: Matches
    take: Callable[[pa.Array], pa.Table]

    def cut(self, stop: int) -> tuple[Partners, Partners]:
        """Those of the left rows before a place, and those of the others."""
        at = int(np.searchsorted(self.matches.left, stop))
        before = replace(
            self, rows=slice(self.rows.start, stop), matches=self.matches.select(slice(None, at))
        )
        after = replace(self, rows=slice(stop, self.rows.stop), matches=self.matches.select(slice(at, None)))
        return before, after


def partner_rows(
    left: pa.Table,
    sides: Sequence[Iterator[Partners]],
    options: Sequence[MatchOptions],
    columns: MatchColumns,
    place: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Put left rows beside their partners.

    Parameters
    ----------
    left : pyarrow.Table
        With `_healpix_29` and the left columns of the match; ordered as the outcome is to be.
    sides : sequence of iterators of Partners
        Of every right side, for the left rows in turn, all of them. Where they are cut is left open.
    options : sequence of MatchOptions
        Of every right side. Of an outer match, what comes of the left rows.
    columns : MatchColumns
    place : (float64[n], float64[n]), optional
        ICRS degrees of the left rows in their catalog, for an outer match.

    Yields
    ------
    pyarrow.RecordBatch
        Of `columns.outcome`: rows in the order of the left side, and of each left row the combinations of its
        partners, by their ranks, those of the first right side before all.

    Raises
    ------
    SpecError
        The combinations are so many that they cannot be counted.
    """
    kept = left.select([HEALPIX_COLUMN, *columns.left]).combine_chunks()
    names = [list(each) for each in columns.rights]
    for several in _in_step(sides):
        combined = _Combinations.of(several, options)
        for first in range(0, combined.total, MOST_ROWS):
            rows, partners = combined.between(first, min(first + MOST_ROWS, combined.total))
            chosen = rows + several[0].rows.start
            arrays = kept.take(pa.array(chosen)).columns
            for side, match, where, wanted in zip(several, options, partners, names, strict=True):
                if match.how == "anti":
                    continue
                there = pc.take(pa.array(side.matches.right), where)
                arrays += side.take(there).select(wanted).columns if wanted else []
                arrays += [pa.array(degrees[chosen]) for degrees in place or ()]
                arrays += [pc.take(values, where) for values in _measures(side.matches, match)]
            yield from pa.Table.from_arrays(arrays, schema=columns.outcome).combine_chunks().to_batches()


def counted_rows(
    sides: Sequence[Iterator[Partners]],
    options: Sequence[MatchOptions],
    edges: NDArray[np.float64] | None = None,
) -> tuple[int, NDArray[np.int64] | None]:
    """Count the rows that `partner_rows` gives; parameters and errors as there.

    Parameters
    ----------
    edges : float64[bins + 1], optional
        Ascending; arcseconds.

    Returns
    -------
    rows : int
    histogram : int64[bins] or None
        Of the separations of the first right side in these rows, as `numpy.histogram`; None without edges.
    """
    total, histogram = 0, None if edges is None else np.zeros(len(edges) - 1, np.int64)
    for several in _in_step(sides):
        combined = _Combinations.of(several, options)
        total += combined.total
        if edges is not None and histogram is not None and options[0].how != "anti":
            matches = several[0].matches
            times = combined.ways[1:].prod(axis=0, dtype=np.int64)[matches.left - several[0].rows.start]
            histogram += np.histogram(matches.separation, edges, weights=times)[0]
    return total, histogram


def merged(batches: Iterable[pa.RecordBatch], others: pa.Table) -> Iterator[pa.RecordBatch]:
    """Put rows between those of batches, along the curve: of one `_healpix_29`, after those of the batches.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Ordered by `_healpix_29`, one after another.
    others : pyarrow.Table
        Of the same schema and order.
    """
    keys, done = others[HEALPIX_COLUMN].to_numpy(), 0
    for batch in batches:
        mine = batch.column(HEALPIX_COLUMN).to_numpy()
        # Without rows of the last key, which the next batch may begin with.
        before = int(np.searchsorted(keys, mine[-1]))
        if before > done:
            both = pa.concat_tables([pa.Table.from_batches([batch]), others.slice(done, before - done)])
            along = curve_order(np.concatenate([mine, keys[done:before]]))
            yield from both.combine_chunks().take(pa.array(along)).combine_chunks().to_batches()
            done = before
        else:
            yield batch
    yield from others.slice(done).combine_chunks().to_batches()


def _measures(matches: Matches, options: MatchOptions) -> list[pa.Array]:
    """What the outcome says of each pair."""
    measures = [pa.array(matches.separation), pa.array(matches.position_angle)]
    measures += [pa.array(matches.rank)] if options.rank is not None else []
    measures += [pa.array(matches.nearness)] if options.nearness is not None else []
    measures += [pa.array(-matches.nearness)] if options.score is not None else []
    return measures


def _in_step(sides: Sequence[Iterator[Partners]]) -> Iterator[list[Partners]]:
    """Partners of the same left rows in every side: all are cut where those of one end."""
    held = [next(side, None) for side in sides]
    while len(found := [each for each in held if each is not None]) == len(sides):
        stop = min(each.rows.stop for each in found)
        cut = [each.cut(stop) if each.rows.stop > stop else (each, None) for each in found]
        yield [before for before, _ in cut]
        held = [after or next(side, None) for side, (_, after) in zip(sides, cut, strict=True)]
    assert not found, "every side tells of all left rows"


@dataclass(frozen=True)
class _Combinations:
    """The rows that some left rows have in the outcome: one for each combination of their partners.

    Attributes
    ----------
    held : int64[sides, n]
        How many partners each left row has in every right side.
    ways : int64[sides, n]
        How many ways the outcome has to put the left row beside them; 0 where it has no such row.
    stops : int64[n]
        Rows of the outcome up to each left row, those of that included.
    """

    held: NDArray[np.int64]
    ways: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, sides: Sequence[Partners], options: Sequence[MatchOptions]) -> _Combinations:
        """Count them."""
        rows = sides[0].rows
        number = rows.stop - rows.start
        held = np.stack([np.bincount(side.matches.left - rows.start, minlength=number) for side in sides])
        ways = np.stack([_ways(match.how, counts) for match, counts in zip(options, held, strict=True)])
        if float(ways.prod(axis=0, dtype=np.float64).sum()) > _COUNTABLE:
            raise SpecError(
                f"the outcome would have more than {_COUNTABLE:.0e} rows: left rows have very many partners "
                "in several catalogs, and a row for each combination of them; match fewer neighbours or "
                "within a smaller radius"
            )
        return cls(held, ways, ways.prod(axis=0, dtype=np.int64).cumsum())

    @property
    def total(self) -> int:
        """Rows of the outcome."""
        return int(self.stops[-1]) if len(self.stops) else 0

    def between(self, first: int, last: int) -> tuple[NDArray[np.int64], list[pa.Array]]:
        """The rows [first, last) of the outcome.

        Returns
        -------
        rows : int64[m]
            The left row of each, from 0.
        partners : list of pyarrow.Array
            For every right side, the place of the match of each; null where there is none.
        """
        ends = np.clip(self.stops, first, last)
        rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=first))
        left_over = np.arange(first, last) - (self.stops - self.ways.prod(axis=0))[rows]
        partners: list[pa.Array] = []
        for held, ways in zip(self.held[::-1], self.ways[::-1], strict=True):  # the last changes fastest
            left_over, partner = np.divmod(left_over, ways[rows])
            none = held[rows] == 0
            places = np.cumsum(held)[rows] - held[rows] + partner
            partners.insert(0, pa.array(places, mask=none) if none.any() else pa.array(places))
        return rows, partners


def _ways(how: str, held: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many ways there are to put left rows beside so many partners."""
    if how == "inner":
        return held
    return (held == 0).astype(np.int64) if how == "anti" else np.maximum(held, 1)
