"""The right rows of a cross-match: read from the column group that has the margins, the rest by row identity.

Margins belong to the primary column group, so that it is the one that tells which rows come near. Columns of
other groups are fetched from the leaves in which the rows live, a row of the margin too: before the match
what a filter or a motion asks for, of all rows that come near; after it what the outcome keeps, of those that
match. They are looked up by (`_healpix_29`, `_row`): see `RowsByIdentity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import Stretches
from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.leaf_opening import leaf_file, range_of
from hipslake.catalog.leaf_reads import Wanted
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, curve_sorted, leaf_spans, pixels_in
from hipslake.catalog.schema import HEALPIX_FIELD, ROW_COLUMN, ROW_FIELD, ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import SpecError, VerificationError
from hipslake.joins.pair_grid import SkyPositions
from hipslake.joins.tree_alignment import Homes, homes
from hipslake.predicates.evaluation import passing
from hipslake.sources.conforming import conform
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class RowsByIdentity:
    """Fetches columns of rows that are known by (`_healpix_29`, `_row`), of a catalog that stores `_row`.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    columns : sequence of str
        Without `_healpix_29` and `_row`. They are taken from as few groups as will do.
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: Sequence[str]

    @cached_property
    def schema(self) -> pa.Schema:
        """Of what is fetched."""
        whole = joined_schema(self.metadata)
        return pa.schema([whole.field(name) for name in self.columns])

    def fetch(self, h29: NDArray[np.int64], row: NDArray[np.int64]) -> pa.Table:
        """The columns of some rows, in the order in which the rows are given.

        Every leaf that holds any of them is opened once, and of it only the row groups around them are read,
        one at a time.

        Parameters
        ----------
        h29, row : int64[n]
            `_healpix_29` and `_row`, in any order; no row stands twice.

        Raises
        ------
        VerificationError
            A file is missing or damaged, or a group does not hold one of the rows.
        """
        along = np.lexsort((row, h29))
        wanted = h29[along], row[along]
        back = np.empty(len(along), np.int64)
        back[along] = np.arange(len(along))
        found: dict[str, pa.ChunkedArray] = {}
        for group, columns in self._groups.items():
            table = self._of_group(group, columns, *wanted)
            for name in columns:
                found[name] = table[name].take(pa.array(back))
        return pa.table([found[name] for name in self.columns], schema=self.schema)

    def _of_group(
        self, group: str, columns: list[str], h29: NDArray[np.int64], row: NDArray[np.int64]
    ) -> pa.Table:
        """The columns of one group, of rows that are sorted along the curve, in their order."""
        schema = self.metadata.schema_of(group)
        kept = pa.schema([schema.field(name) for name in columns])
        read = pa.schema([HEALPIX_FIELD, ROW_FIELD, *kept])
        places, pieces = [np.empty(0, np.int64)], [kept.empty_table()]
        for path, size, low, high in self._files(group, h29):
            for batch, first, last in _near_batches(self.storage, path, size, read, h29[low:high]):
                begin, end = low + first, low + last
                there, here = _common(batch, h29[begin:end], row[begin:end])
                places.append(here + begin)
                pieces.append(pa.Table.from_batches([batch]).select(columns).take(pa.array(there)).cast(kept))
        place = np.concatenate(places)
        seen = np.bincount(place, minlength=len(row))
        if (wrong := np.flatnonzero(seen != 1)).size:
            at = int(wrong[0])
            raise VerificationError(
                f"{self.storage.uri()}: group {group!r} holds the row with {HEALPIX_COLUMN} {h29[at]} and "
                f"{ROW_COLUMN} {row[at]} {seen[at]} times, and another group once; Catalog.verify() tells "
                "more"
            )
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(np.argsort(place)))

    def _files(self, group: str, h29: NDArray[np.int64]) -> Iterator[tuple[str, int, int, int]]:
        """The files whose leaves hold any of some rows: path, size, and from where to where these stand."""
        if not len(h29):
            return
        files = self._partitions(group, h29)
        low, high = (np.searchsorted(h29, edges) for edges in leaf_spans(files))
        chosen = np.flatnonzero(low < high)
        near = files.select(["path", "bytes"]).take(pa.array(chosen))
        columns = (near["path"].to_pylist(), near["bytes"].to_pylist(), low[chosen].tolist())
        yield from zip(*columns, high[chosen].tolist(), strict=True)

    @cached_property
    def _groups(self) -> dict[str, list[str]]:
        """The groups that are read, and what of each."""
        return select(self.metadata, self.columns).columns

    @cached_property
    def _listed(self) -> dict[str, pa.Table]:
        """The files of groups that the metadata list themselves."""
        listed = [group for group in self._groups if self.metadata.group(group).is_listed]
        return {group: self.metadata.partitions(group, self.storage) for group in listed}

    def _partitions(self, group: str, h29: NDArray[np.int64]) -> pa.Table:
        if group in self._listed:
            return self._listed[group]
        cells = np.unique(h29)
        return self.metadata.group(group).table_near(self.storage, cells, cells + 1)


def _near_batches(
    storage: Storage, path: str, size: int, schema: pa.Schema, h29: NDArray[np.int64]
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The row groups of a file around some order-29 pixels (ascending), and the places of these pixels."""
    with leaf_file(storage, path, size) as file:
        held = set(file.schema_arrow.names)
        columns = [name for name in schema.names if name in held]
        chunks = ColumnChunks(file.metadata)
        for number in range(file.num_row_groups):
            low, high = np.searchsorted(h29, range_of(chunks, number)).tolist()
            if low < high:
                for batch in file.read_row_group(number, columns=columns, use_threads=False).to_batches():
                    yield conform(batch, schema, storage.uri(path)), low, high


def _common(
    batch: pa.RecordBatch, h29: NDArray[np.int64], row: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the rows of a batch and some others are the same: places in the batch, and in the others."""
    keys, numbers = (batch.column(at).to_numpy() for at in (0, 1))
    along = np.argsort(row, kind="stable")
    at = np.minimum(np.searchsorted(row[along], numbers), len(row) - 1)
    here = along[at]
    there = np.flatnonzero((row[here] == numbers) & (h29[here] == keys))
    return there, here[there]


@dataclass(frozen=True)
class NearRows:
    """Right rows that may match, along the curve.

    Attributes
    ----------
    rows : pyarrow.Table
        With `_healpix_29`, and `_row` where more is to be fetched.
    positions : SkyPositions
        Of these rows, at the epoch of the match.
    kept : tuple of str
        The columns that the outcome keeps.
    others : RowsByIdentity or None
        Fetches those of them that `rows` has not.
    """

    rows: pa.Table
    positions: SkyPositions
    kept: tuple[str, ...]
    others: RowsByIdentity | None

    def take(self, places: pa.Array) -> pa.Table:
        """The kept columns of some rows; null places give nulls."""
        here = [name for name in self.kept if self.others is None or name not in self.others.columns]
        table = self.rows.select(here).take(places)
        if self.others is None:
            return table
        valid = places.is_valid().to_numpy(zero_copy_only=False)
        chosen, at = np.unique(places.drop_null().to_numpy(), return_inverse=True)
        index = np.zeros(len(places), np.int64)
        index[valid] = at
        keys, numbers = (self.rows[name].to_numpy()[chosen] for name in ROW_IDENTITY)
        fetched = self.others.fetch(keys, numbers).take(pa.array(index, mask=~valid))
        columns = {name: (fetched if name not in here else table)[name] for name in self.kept}
        return pa.table(columns)


@dataclass(frozen=True)
class BesideMargin:
    """A margin of a match alone: no version of the catalog has it.

    Attributes
    ----------
    storage : Storage
        Where its files lie.
    files : pyarrow.Table
        `PARTITION_SCHEMA`, with paths in the storage.
    """

    storage: Storage
    files: pa.Table

    @classmethod
    def empty(cls, storage: Storage) -> BesideMargin:
        """One without rows: every row has its partners in the leaf that it lies in, or none."""
        return cls(storage, PARTITION_SCHEMA.empty_table())


@dataclass(frozen=True)
class RightRows:
    """Reads the right side of a cross-match.

    Attributes
    ----------
    side : Side
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    beside : BesideMargin or None
        A margin that reaches so far and is none of the catalog's; None: the catalog has one.
    """

    side: Side
    reach_arcsec: float
    beside: BesideMargin | None = None

    @cached_property
    def homes(self) -> Homes:
        """The pixels that rows are filed under."""
        leaves = PixelTree(*pixels_in(self.side.metadata.group().pixels))
        files = self._margin_files
        margins = np.unique(np.stack([files["order"].to_numpy(), files["npix"].to_numpy()], axis=1), axis=0)
        try:
            return homes(leaves, PixelTree(*margins.T))
        except ValueError as error:
            raise SpecError(
                f"the margin of catalog {self.side.metadata.catalog} is filed under other pixels than "
                f"its leaves ({error}); give another, or none and have the match build one: "
                "'missing_margin: build'"
            ) from None

    def check(self) -> None:
        """Raise `SpecError` if no margin is wide enough, or the one that is lacks columns."""
        metadata, margin = self.side.metadata, self.margin
        held = set(margin.leaf_schema(metadata.schema_of()).names)
        asked = dict.fromkeys([*self._near.columns, *self.side.filtered])
        if lacking := [name for name in asked if name in self._held and name not in held]:
            raise SpecError(
                f"margin {margin.name} of catalog {metadata.catalog} has no column "
                f"{', '.join(map(repr, lacking))}; name the 'columns' that are kept without it, or give "
                "another margin"
            )

    def near(self, home: int, wanted: Wanted | None) -> NearRows:
        """The rows that may match left ones in a home.

        Parameters
        ----------
        home : int
            Place in `homes`; negative for none.
        wanted : callable, optional
            Of the row groups there, those that are read.
        """
        rows = self._passing(self._read(home, wanted).combine_chunks())
        return NearRows(rows, self.side.positions(rows), self.side.columns, self._after)

    def _read(self, home: int, wanted: Wanted | None) -> pa.Table:
        if home < 0:
            return self._near.schema.empty_table()
        start, stop = int(self.homes.start[home]), int(self.homes.stop[home])
        tables = []
        if self.homes.leaf[home] >= 0:
            tables.append(self._near.read(start, stop, wanted=wanted))
        if self.homes.margin[home] >= 0:
            low, high = np.searchsorted(self._margin_starts, [start, stop])
            files = self._margin_files.slice(low, high - low)
            tables.append(self._near_in_margin.read_files(files, WHOLE_SKY, wanted=wanted))
        rows = pa.concat_tables(tables).combine_chunks()
        if len(tables) > 1:  # a row of the margin has its home elsewhere, so equal keys stay in their order
            rows = rows.take(pa.array(curve_order(rows[HEALPIX_COLUMN].to_numpy())))
        return rows

    def _passing(self, rows: pa.Table) -> pa.Table:
        """The rows, with all that the match needs of other groups; those that pass the filter."""
        if self._before is None:
            return rows
        keys, numbers = (rows[name].to_numpy() for name in ROW_IDENTITY)
        fetched = self._before.fetch(keys, numbers)
        for field in fetched.schema:
            rows = rows.append_column(field, fetched[field.name])
        if self.side.filter is None or self._near.filter is not None:
            return rows
        return passing(self.side.filter, rows)

    @cached_property
    def _near(self) -> Stretches:
        """Reads what the primary group has, of rows that pass the filter if it can tell."""
        side, held = self.side, set(self._held)
        needed = [name for name in side.needed if name in held]
        filters = set(side.filtered) <= held
        if not filters:
            needed += [name for name in side.filtered if name in held]
        if not filters or not set(side.needed) <= held:  # rows of other groups are fetched by their identity
            needed = [*dict.fromkeys([*needed, ROW_COLUMN])]
        return Stretches(side.storage, side.metadata, needed, side.filter if filters else None)

    @cached_property
    def _near_in_margin(self) -> Stretches:
        """Reads the files of the margin, as `_near` reads leaves."""
        group = self.side.metadata.schema_of()
        if self.beside is not None:
            return replace(self._near, storage=self.beside.storage, leaf_schema=given_schema(group))
        margin = self.margin
        place, schema = margin.place(self.side.storage), margin.leaf_schema(group)
        return replace(self._near, storage=place, leaf_schema=schema)

    @cached_property
    def _before(self) -> RowsByIdentity | None:
        """Fetches what has to be known before the match."""
        asked = [*self.side.placing, *self.side.filtered]
        return self._others([name for name in dict.fromkeys(asked) if name not in self._held])

    @cached_property
    def _after(self) -> RowsByIdentity | None:
        """Fetches what only rows that match are asked for."""
        known = {*self._held, *(self._before.columns if self._before is not None else ())}
        return self._others([name for name in self.side.columns if name not in known])

    def _others(self, columns: list[str]) -> RowsByIdentity | None:
        return RowsByIdentity(self.side.storage, self.side.metadata, columns) if columns else None

    @cached_property
    def _held(self) -> tuple[str, ...]:
        return tuple(self.side.metadata.schema_of().names)

    @property
    def margin(self) -> Margin:
        """The margin that is read; `SpecError` if none is wide enough."""
        return self.side.margin(self.reach_arcsec)

    @cached_property
    def _margin_files(self) -> pa.Table:
        """Along the curve."""
        if self.beside is not None:
            return curve_sorted(self.beside.files)
        return curve_sorted(self.margin.table(self.side.storage))

    @cached_property
    def _margin_starts(self) -> NDArray[np.int64]:
        return leaf_spans(self._margin_files)[0]
