"""The right rows of a cross-match: read from the column group that has the margins, the rest by row identity.

Margins belong to the primary column group, so that it is the one that tells which rows come near. Columns of
other groups are fetched from the leaves in which the rows live, a row of the margin too: before the match
what a filter or a motion asks for, of all rows that come near; after it what the outcome keeps, of those that
match.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import Stretches
from hipslake.catalog.leaf_rows import Wanted
from hipslake.catalog.metadata import Margin
from hipslake.catalog.partitions import curve_sorted, pixels_in
from hipslake.catalog.rows_by_identity import RowsByIdentity
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.joins.pair_grid import SkyPositions
from hipslake.joins.tree_alignment import Homes, homes
from hipslake.predicates.evaluation import passing
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY, starts


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
        keys, numbers = (self.rows[name].to_numpy()[chosen] for name in (HEALPIX_COLUMN, ROW_COLUMN))
        fetched = self.others.fetch(keys, numbers).take(pa.array(index, mask=~valid))
        columns = {name: (fetched if name not in here else table)[name] for name in self.kept}
        return pa.table(columns)


@dataclass(frozen=True)
class RightRows:
    """Reads the right side of a cross-match.

    Attributes
    ----------
    side : Side
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    """

    side: Side
    reach_arcsec: float

    @cached_property
    def homes(self) -> Homes:
        """The pixels that rows are filed under."""
        leaves = PixelTree(*pixels_in(self.side.metadata.group().pixels))
        files = self._margin_files
        margins = np.unique(np.stack([files["order"].to_numpy(), files["npix"].to_numpy()], axis=1), axis=0)
        return homes(leaves, PixelTree(*margins.T))

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
            tables.append(self._near.read_files(files, WHOLE_SKY, wanted=wanted))
        rows = pa.concat_tables(tables).combine_chunks()
        if len(tables) > 1:  # a row of the margin has its home elsewhere, so equal keys stay in their order
            rows = rows.take(pa.array(curve_order(rows[HEALPIX_COLUMN].to_numpy())))
        return rows

    def _passing(self, rows: pa.Table) -> pa.Table:
        """The rows, with all that the match needs of other groups; those that pass the filter."""
        if self._before is None:
            return rows
        keys, numbers = (rows[name].to_numpy() for name in (HEALPIX_COLUMN, ROW_COLUMN))
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
        if set(side.needed) <= held and set(side.filtered) <= held:
            return Stretches(side.storage, side.metadata, needed, side.filter)
        if set(side.filtered) <= held:
            return Stretches(
                side.storage, side.metadata, [*dict.fromkeys([*needed, ROW_COLUMN])], side.filter
            )
        needed += [name for name in side.filtered if name in held]
        return Stretches(side.storage, side.metadata, [*dict.fromkeys([*needed, ROW_COLUMN])])

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
        return curve_sorted(self.margin.table(self.side.storage))

    @cached_property
    def _margin_starts(self) -> NDArray[np.int64]:
        return starts(self._margin_files["order"].to_numpy(), self._margin_files["npix"].to_numpy())
