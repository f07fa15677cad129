"""The cross-match of two tables: matched rows side by side, in the order of the left side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.joins.columns import MatchColumns
from hipslake.joins.grid import Positions
from hipslake.joins.matching import Matches, match
from hipslake.specs.crossmatch import MatchOptions
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN


def matched(
    left: pa.Table,
    here: Positions,
    right: Callable[[pa.Array], pa.Table],
    there: Positions,
    options: MatchOptions,
    columns: MatchColumns,
    place: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Match two tables.

    Parameters
    ----------
    left : pyarrow.Table
        With `_healpix_29` and the left columns of the match; ordered as the outcome is to be.
    here : Positions
        Of its rows, at the epoch of the match.
    right : callable
        Gives the right columns of the match of some rows, by their places; null places give nulls.
    there : Positions
        Of the right rows, at the same epoch. Of equally near rows the earlier one counts as nearer.
    options : MatchOptions
        Of an outer match, what comes of the left rows.
    columns : MatchColumns
    place : (float64[n], float64[n]), optional
        ICRS degrees of the left rows in their catalog, for an outer match.

    Yields
    ------
    pyarrow.RecordBatch
        Of `columns.outcome`: rows in the order of the left side, and by rank for each of them.
    """
    kept = left.select([HEALPIX_COLUMN, *columns.left]).combine_chunks()
    schema = columns.outcome
    found = match(
        here,
        there,
        radius_arcsec=options.radius_arcsec,
        min_radius_arcsec=options.min_radius_arcsec,
        neighbours=1 if options.how == "anti" else options.most,
    )
    for rows, matches in found:
        chosen, partner = _chosen(rows, matches, options.how)
        arrays = kept.take(pa.array(chosen)).columns
        if options.how != "anti":
            where = None if partner is None else pa.array(partner, mask=partner < 0)
            there_rows = pa.array(matches.right) if where is None else pc.take(pa.array(matches.right), where)
            arrays += right(there_rows).select(list(columns.right)).columns if columns.right else []
            arrays += [pa.array(degrees[chosen]) for degrees in place or ()]
            added = [pa.array(matches.separation), pa.array(matches.position_angle)]
            added += [pa.array(matches.rank)] if options.rank is not None else []
            arrays += added if where is None else [pc.take(values, where) for values in added]
        if len(chosen):
            yield from pa.Table.from_arrays(arrays, schema=schema).combine_chunks().to_batches()


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
        before = int(
            np.searchsorted(keys, mine[-1])
        )  # the next batch may begin with the last key of this one
        if before > done:
            both = pa.concat_tables([pa.Table.from_batches([batch]), others.slice(done, before - done)])
            along = curve_order(np.concatenate([mine, keys[done:before]]))
            yield from both.combine_chunks().take(pa.array(along)).combine_chunks().to_batches()
            done = before
        else:
            yield batch
    yield from others.slice(done).combine_chunks().to_batches()


def _chosen(rows: slice, matches: Matches, how: str) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The left rows of the outcome, and for each the place of its match; None: all matches in turn."""
    if how == "inner":
        return matches.left, None
    counts = np.bincount(matches.left - rows.start, minlength=rows.stop - rows.start)
    every = np.arange(rows.start, rows.stop)
    if how == "anti":
        return every[counts == 0], None
    partner = np.full(int(np.maximum(counts, 1).sum()), -1)
    partner[np.repeat(counts > 0, np.maximum(counts, 1))] = np.arange(len(matches))
    return np.repeat(every, np.maximum(counts, 1)), partner
