"""A few rows of a part of the sky, read within bounds: for whoever shows them, and must not wait.

Leaves are read in pieces of some row groups. Reading ends with the rows that were asked for, or at a bound;
what is given says which.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.leaf_rows import row_group_sizes
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.placement import icrs_of, icrs_position
from hipslake.catalog.reading import Part, PartReader, parts
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection, joined_schema, select
from hipslake.catalog.value_order import comparable, has_order
from hipslake.errors import SchemaMismatchError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER
from hipslake.sphere.regions import Region
from hipslake.sphere.sky_cells import Footprint
from hipslake.storage.folder import Storage
from hipslake.versions.vacuumed_versions import vacuum_told

Bound = Literal["limit", "time", "bytes", "rows"]
_CHOSEN = "_chosen"
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64, Steele et al. 2014


class ReadBounds(NamedTuple):
    """How much is read for one answer, at most."""

    seconds: float = 4.0
    rows: int = 5_000_000
    bytes: int = 512 << 20  # uncompressed
    piece_bytes: int = 32 << 20  # of what is read at once, unless a single row group has more
    row_group_bytes: int = 256 << 20
    leaves: int = 512


class RowChoice(NamedTuple):
    """Which rows are given where there are more than may be given.

    By a column, its least or its greatest values come first, and nulls last; spread, it is a sample without
    preference for any place, the same for each call; else the first rows along the curve.
    """

    limit: int
    sort: str | None = None
    descending: bool = False
    spread: bool = False


class BoundedRows(NamedTuple):
    """Rows that were read within bounds.

    Attributes
    ----------
    table : pyarrow.Table
        The columns that were asked for; along the curve, or in the order that was asked for.
    h29 : int64[n]
    row_ids : int64[n] or None
        `_row`, where it is stored.
    ra, dec : float64[n]
        ICRS degrees.
    stopped : {"limit", "time", "bytes", "rows"} or None
        Why rows may be missing; None: these are all.
    total : int or None
        How many rows there are; None where not all was looked at.
    estimate : int
        How many rows there are in the region without the filter, by the leaves and what of them it covers.
    """

    table: pa.Table
    h29: NDArray[np.int64]
    row_ids: NDArray[np.int64] | None
    ra: NDArray[np.float64]
    dec: NDArray[np.float64]
    stopped: Bound | None
    total: int | None
    estimate: int


def bounded_rows(
    storage: Storage,
    metadata: CatalogMetadata,
    leaves: Footprint,
    choice: RowChoice,
    *,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    region: Region | None = None,
    pixels: Intervals | None = None,
    bounds: ReadBounds | None = None,
) -> BoundedRows:
    """Read rows of a region, within bounds.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    leaves : Footprint
        Of the primary column group.
    choice : RowChoice
    columns : sequence of str, optional
        All of the catalog if not given.
    filters : str or Predicate, optional
        As `hipslake.catalog.selection.select` takes them.
    region : Region, optional
        The whole sky if not given.
    pixels : Intervals, optional
        Only rows in these.
    bounds : ReadBounds, optional

    Raises
    ------
    SchemaMismatchError
        There is no such column, none that can be sorted by, or a row group of these columns is too large.
    FilterError
        The filter is not understood.
    VerificationError
        A leaf file is missing or damaged.
    """
    bounds = bounds or ReadBounds()
    schema = joined_schema(metadata)
    wanted = schema.names if columns is None else list(dict.fromkeys(columns))
    numbered = metadata.numbers_rows
    position = icrs_position(metadata)
    own = [HEALPIX_COLUMN, *([ROW_COLUMN] if numbered else []), position.ra, position.dec]
    sort = [choice.sort] if choice.sort is not None else []
    asked = list(dict.fromkeys([*wanted, *own, *sort]))
    selection = select(metadata, asked, filters, None, region)
    if choice.sort is not None:
        _check_sortable(schema.field(choice.sort))
    where = selection.inside(pixels)
    near, estimate, all_leaves = _near(leaves, where, bounds.leaves, choice)
    reading = _Reading(storage, metadata, selection, choice, bounds)
    if len(near):
        reading.read(near)
    if reading.stopped is None and not all_leaves:
        reading.stopped = "rows"
    table = reading.chosen()
    ra, dec = icrs_of(table, position)
    return BoundedRows(
        table=table.select(wanted),
        h29=table[HEALPIX_COLUMN].to_numpy(),
        row_ids=table[ROW_COLUMN].to_numpy() if numbered else None,
        ra=np.mod(ra, 360.0),
        dec=dec,
        stopped=reading.stopped or ("limit" if reading.passed > table.num_rows else None),
        total=reading.passed if reading.stopped is None else None,
        estimate=estimate,
    )


def _near(
    leaves: Footprint, where: Intervals | None, most: int, choice: RowChoice
) -> tuple[Intervals, int, bool]:
    """Where some leaves meet a part of the curve, how many rows lie there, and whether that is all of it.

    Of more leaves than are read, the first are given; or some from all over, where rows are chosen.
    """
    stop = leaves.start + (np.int64(1) << (2 * (MAX_ORDER - leaves.order.astype(np.int64))))
    if where is None:
        met = np.arange(len(leaves.start))
        covered = leaves.rows.astype(np.float64)
    else:
        met = np.flatnonzero(where.touch(leaves.start, stop))
        length = _measured(where, stop[met]) - _measured(where, leaves.start[met])
        covered = leaves.rows[met] * (length / (stop[met] - leaves.start[met]))
    estimate = round(float(covered.sum()))
    complete = len(met) <= most
    if not complete:
        chosen = choice.spread or choice.sort is not None
        met = met[np.linspace(0, len(met) - 1, most).astype(np.int64)] if chosen else met[:most]
    near = Intervals.union(leaves.start[met], stop[met])
    return (near if where is None else near.common(where)), estimate, complete


def _measured(where: Intervals, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many order-29 pixels of some intervals lie before each edge."""
    before = np.append(0.0, np.cumsum((where.stop - where.start).astype(np.float64)))
    at = np.searchsorted(where.start, edges, side="right")
    begun = np.where(at > 0, edges - where.start[np.maximum(at - 1, 0)], 0)
    last = np.where(at > 0, where.stop[np.maximum(at - 1, 0)] - where.start[np.maximum(at - 1, 0)], 0)
    return before[np.maximum(at - 1, 0)] + np.minimum(begun, last)


class _Reading:
    """The rows that were read so far, and why reading ended."""

    def __init__(
        self,
        storage: Storage,
        metadata: CatalogMetadata,
        selection: Selection,
        choice: RowChoice,
        bounds: ReadBounds,
    ) -> None:
        self.storage, self.metadata = storage, metadata
        self.selection, self.choice, self.bounds = selection, choice, bounds
        self.stopped: Bound | None = None
        self.passed = 0
        self._kept: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._end = time.monotonic() + bounds.seconds

    @property
    def _takes_first(self) -> bool:
        return self.choice.sort is None and not self.choice.spread

    def read(self, pixels: Intervals) -> None:
        groups = list(self.selection.columns)
        schemas = {group: self.metadata.schema_of(group) for group in groups}
        with vacuum_told(self.storage, self.metadata.version):
            work = parts(self.storage, self.metadata, groups, pixels)
        if not self._takes_first:  # so that what was read when time is up is from all over
            work = [work[at] for at in np.random.default_rng(len(work)).permutation(len(work))]
        for part in work:
            for inside in self._pieces(part, pixels.within(part.start, part.stop)):
                reader = PartReader(self.storage, self.selection, schemas, inside, self.metadata.version)
                rows = reader.read(part)
                self.passed += rows.num_rows
                self._kept.append(rows)
                if self._takes_first:
                    if self.passed > self.choice.limit:
                        self.stopped = "limit"
                        return
                elif sum(map(len, self._kept)) > 4 * self.choice.limit:
                    self._kept = [self.chosen()]
            if self.stopped is not None:
                return

    def _pieces(self, part: Part, inside: Intervals) -> Iterator[Intervals]:
        """A part of the curve in pieces that take little memory; none any more beyond a bound."""
        sizes = []
        for group, columns in self.selection.columns.items():
            for path, stored in zip(part.paths[group], part.file_bytes[group], strict=True):
                needed = {*columns, HEALPIX_COLUMN, ROW_COLUMN}
                schema = self.metadata.schema_of(group)
                sizes += row_group_sizes(self.storage, path, schema, needed, inside, stored)
        sizes.sort()
        cuts, rows, size = [part.start], 0, 0
        spent = []
        for at, each in enumerate(sizes):
            if each.bytes > self.bounds.row_group_bytes:
                raise SchemaMismatchError(
                    f"a row group of these columns has {each.bytes >> 20} MiB, more than is read here; "
                    "choose fewer columns"
                )
            if at and size + each.bytes > self.bounds.piece_bytes and each.start > cuts[-1]:
                cuts.append(each.start)
                spent.append((rows, size))
                rows = size = 0
            rows, size = rows + each.rows, size + each.bytes
        spent.append((rows, size))
        for (begin, end), (rows, size) in zip(pairwise([*cuts, part.stop]), spent, strict=True):
            if self._is_over():
                return
            self._rows, self._bytes = self._rows + rows, self._bytes + size
            piece = inside.within(begin, end)
            if len(piece):
                yield piece

    def _is_over(self) -> bool:
        if time.monotonic() > self._end:
            self.stopped = "time"
        elif self._rows > self.bounds.rows:
            self.stopped = "rows"
        elif self._bytes > self.bounds.bytes:
            self.stopped = "bytes"
        return self.stopped is not None

    def chosen(self) -> pa.Table:
        """Of the rows that were read, those that are given."""
        rows = pa.concat_tables(self._kept) if self._kept else self.selection.schema.empty_table()
        if self._takes_first:
            return rows.slice(0, self.choice.limit)
        identity = [name for name in (HEALPIX_COLUMN, ROW_COLUMN) if name in rows.column_names]
        keys = rows.select(identity)
        along = [(name, "ascending") for name in identity]
        if self.choice.sort is not None:
            column = comparable(rows[self.choice.sort])
            first = (_CHOSEN, "descending" if self.choice.descending else "ascending")
        else:
            column, first = pa.array(_mixed(keys)), (_CHOSEN, "ascending")
        keys = keys.append_column(_CHOSEN, column)
        order = pc.sort_indices(keys, [(*first, "at_end"), *along])[: self.choice.limit]
        if self.choice.sort is None:
            rows = rows.take(order)
            return rows.take(pc.sort_indices(rows.select(identity), along))
        return rows.take(order)


def _mixed(keys: pa.Table) -> NDArray[np.uint64]:
    """A number for each row, by which any rows are as good a sample as any others."""
    number = keys[HEALPIX_COLUMN].to_numpy().astype(np.uint64)
    if ROW_COLUMN in keys.column_names:
        number = number ^ (keys[ROW_COLUMN].to_numpy().astype(np.uint64) << np.uint64(17))
    with np.errstate(over="ignore"):
        for shift, factor in zip((30, 27), _MIX, strict=True):
            number = (number ^ (number >> np.uint64(shift))) * np.uint64(factor)
        return number ^ (number >> np.uint64(31))


def _check_sortable(field: pa.Field) -> None:
    if not has_order(field.type):
        raise SchemaMismatchError(
            f"column {field.name!r} is of type {field.type}, which has no order; take one of numbers, texts "
            "or times"
        )
