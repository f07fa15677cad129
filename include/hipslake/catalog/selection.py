"""The selection of a read: columns and their groups, and rows by filter and by region. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.leaf_form import given_field, given_schema
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.placement import icrs_position
from hipslake.catalog.schema import HEALPIX_FIELD, ROW_COLUMN
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.predicates.given_filters import predicate_of, require_columns
from hipslake.predicates.predicate_tree import Predicate
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.sphere.coordinates import positions, to_icrs_degrees
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Cover, Region


@dataclass(frozen=True)
class RegionCut:
    """Which rows of a catalog lie in a region.

    Attributes
    ----------
    region : Region
    position : PositionSpec
        The position columns: those of ICRS degrees where the catalog has them, else those that the rows were
        placed by.
    """

    region: Region
    position: PositionSpec

    @cached_property
    def cover(self) -> Cover:
        """The pixels that hold the region."""
        return self.region.cover()

    def is_sure_of(self, pixels: Intervals) -> bool:
        """Whether every row in some pixels lies in the region, so that no row need be looked at."""
        if not len(pixels):
            return True
        near = self.cover.certain.within(int(pixels.start[0]), int(pixels.stop[-1]))
        return pixels.common(near) == pixels

    def keeps(
        self, h29: NDArray[np.int64], ra: pa.Array | pa.ChunkedArray, dec: pa.Array | pa.ChunkedArray
    ) -> NDArray[np.bool_]:
        """Which rows lie in the region, bool[n].

        Parameters
        ----------
        h29 : int64[n]
            Their `_healpix_29`. Only rows where the cover is not certain are held against the region.
        ra, dec : pyarrow arrays of n numbers
            Of the position columns.
        """
        kept = self.cover.certain.hold(h29)
        doubtful = ~kept
        some, unit = pa.array(doubtful), self.position.unit
        lon, lat = positions(ra.filter(some), dec.filter(some), unit=unit)
        place = to_icrs_degrees(lon, lat, unit=unit, frame=self.position.frame)
        kept[doubtful] = self.region.contains(*place)
        return kept

    def mask(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Which rows lie in the region, of a table with `_healpix_29` and the position columns."""
        return self.keeps(rows[HEALPIX_COLUMN].to_numpy(), rows[self.position.ra], rows[self.position.dec])

    def inside(self, rows: pa.Table) -> pa.Table:
        """The rows that lie in the region, of a table with `_healpix_29` and the position columns."""
        return rows.filter(pa.array(self.mask(rows)))


@dataclass(frozen=True)
class Selection:
    """Columns of a read, and the groups that they are taken from.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the outcome.
    columns : dict of str to list of str
        Per group that is read, the columns taken from it: for the outcome, the filter and the cut.
    filter : Predicate or None
    cut : RegionCut or None
    cut_only : frozenset of str
        Columns that are only taken for the cut.
    """

    schema: pa.Schema
    columns: dict[str, list[str]]
    filter: Predicate | None
    cut: RegionCut | None = None
    cut_only: frozenset[str] = frozenset()

    def inside(self, pixels: Intervals | None) -> Intervals | None:
        """Where the rows lie: in some pixels, if given, and in the cover of the region, if there is one."""
        if self.cut is None:
            return pixels
        cover = self.cut.cover.intervals
        return cover if pixels is None else pixels.common(cover)

    def deciding(self) -> Selection:
        """The same rows, of which only `_healpix_29` is given; read are the columns that decide."""
        wanted = set() if self.filter is None else set(self.filter.columns)
        if self.cut is not None:
            wanted |= {self.cut.position.ra, self.cut.position.dec}
        read = {group: [name for name in names if name in wanted] for group, names in self.columns.items()}
        read = {group: names for group, names in read.items() if names} or {next(iter(self.columns)): []}
        first = next(iter(read))
        read[first] = [*(name for name in read[first] if name != HEALPIX_COLUMN), HEALPIX_COLUMN]
        return replace(
            self, schema=pa.schema([HEALPIX_FIELD]), columns=read, cut_only=self.cut_only - {HEALPIX_COLUMN}
        )


def joined_schema(metadata: CatalogMetadata) -> pa.Schema:
    """The columns of all groups side by side: each once, in the order of the groups, `_row` last."""
    fields: dict[str, pa.Field] = {}
    for group in metadata.groups:
        for field in group.to_arrow():
            fields.setdefault(field.name, given_field(field))
    row = fields.pop(ROW_COLUMN, None)
    return pa.schema([*fields.values(), *([row] if row is not None else [])])


def check_placed(metadata: CatalogMetadata) -> None:
    """Whether rows can be chosen by their place on the sky.

    Raises
    ------
    SpecError
        It is a catalog of others whose rows have no positions, or lie elsewhere than its leaves: an index, an
        association, or a margin.
    """
    if not metadata.lies_in_leaves or HEALPIX_COLUMN not in metadata.schema_of().names:
        raise SpecError(
            f"catalog {metadata.catalog}: its rows do not say where on the sky they lie, or lie elsewhere "
            "than its leaves, so that none can be chosen by their place; read it without pixels or region"
        )


def select(
    metadata: CatalogMetadata,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    group: str | None = None,
    region: Region | None = None,
) -> Selection:
    """Resolve columns, filters and the region of a read.

    Parameters
    ----------
    metadata : CatalogMetadata
    columns : sequence of str, optional
        All if not given.
    filters : str or list or pyarrow.compute.Expression or Predicate, optional
        A text as `parse_filter` takes it, lists in disjunctive normal form, an expression, which Arrow
        evaluates on rows, or a predicate.
    group : str, optional
        Read this column group alone; the position may come from another one.
    region : Region, optional

    Raises
    ------
    SchemaMismatchError
        There is no such column; the message names the nearest ones. Or the filter does not fit the columns.
    FilterError
        The filter is not understood.
    """
    if isinstance(columns, str):  # a sequence of letters
        raise SchemaMismatchError(
            f"catalog {metadata.catalog}: columns is a list of names, not {columns!r}; give [{columns!r}]"
        )
    schema = joined_schema(metadata) if group is None else given_schema(metadata.schema_of(group))
    wanted = schema.names if columns is None else list(columns)
    owner = f"catalog {metadata.catalog}"
    require_columns(wanted, schema, owner)
    predicate = predicate_of(filters, schema, owner)
    filtered = frozenset() if predicate is None else predicate.columns
    needed = wanted + [name for name in schema.names if name in filtered]
    names = {owner.name: set(owner.to_arrow().names) for owner in metadata.groups}
    cut, position = None, []
    if region is not None:
        cut = RegionCut(region, icrs_position(metadata))
        position = [cut.position.ra, cut.position.dec]
    if group is not None:
        names = _alone_or_with_position(metadata.group(group).name, names, position)
    taken = _owners(list(dict.fromkeys(needed + position)), names)
    outcome = pa.schema([schema.field(name) for name in wanted])
    return Selection(outcome, taken, predicate, cut, frozenset(position) - set(needed))


def _alone_or_with_position(
    group: str, names: dict[str, set[str]], position: list[str]
) -> dict[str, set[str]]:
    """A group, and one that has the position columns if it has not."""
    if set(position) <= names[group]:
        return {group: names[group]}
    holder = next(other for other in names if set(position) <= names[other])
    return {group: names[group], holder: set(position)}


def _owners(needed: list[str], names: dict[str, set[str]]) -> dict[str, list[str]]:
    """The columns by group, from as few groups as possible."""
    holders = {column: [group for group in names if column in names[group]] for column in needed}
    alone = {groups[0] for groups in holders.values() if len(groups) == 1}
    read = [group for group in names if group in alone]
    taken: dict[str, list[str]] = {group: [] for group in read}
    for column, groups in holders.items():
        owner = next((group for group in read if group in groups), groups[0])
        taken.setdefault(owner, []).append(column)
        if owner not in read:
            read.append(owner)
    return taken or {next(iter(names)): []}
