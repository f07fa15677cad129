"""One side of a cross-match: the columns read of a catalog, where its rows stand, how far they may move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.catalog.joining.side_errors import check_error_units, largest_error_in, regions_of
from hipslake.catalog.joining.stretches import Stretches
from hipslake.catalog.joining.value_bounds import value_bounds
from hipslake.catalog.leaf_rows import leaf_files
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.placement import icrs_of, icrs_position
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import SpecError
from hipslake.joins.motion import AU_KM_YR_PER_S, MAS, Motion, largest_shift, propagate
from hipslake.joins.pair_grid import SkyPositions
from hipslake.predicates.predicate_tree import Predicate
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.specs.error_columns import ErrorColumns
from hipslake.specs.join_specs import MatchOptions, MotionColumns
from hipslake.sphere.coordinates import positions
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads


@dataclass(frozen=True)
class Side:
    """A catalog in a match.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    columns : tuple of str
        Those that the outcome keeps.
    motion : MotionColumns or None
    years : float
        From the epoch of the catalog to that of the match; 0 for rows that stay where they are.
    filter : Predicate or None
        Only rows that pass it take part in the match; None: all.
    errors : ErrorColumns or None
        The columns that say how well its positions are known; None: exactly.
    scored : tuple of str
        The columns that a score of pairs asks for.
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: tuple[str, ...]
    motion: MotionColumns | None = None
    years: float = 0.0
    filter: Predicate | None = None
    errors: ErrorColumns | None = None
    scored: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        columns: Sequence[str] | None,
        motion: MotionColumns | None,
        epoch: float | None,
        *,
        keeps_position: bool,
        filters: Any = None,
        errors: ErrorColumns | None = None,
        scored: tuple[str, ...] = (),
    ) -> Side:
        """A side whose columns and epochs are known to be there.

        Parameters
        ----------
        columns : sequence of str, optional
            All if not given.
        motion : MotionColumns, optional
        epoch : float, optional
            Julian year of the match.
        keeps_position : bool
            Whether the outcome has the position columns, also where `columns` does not name them, and
            `_healpix_29` as its own.
        filters : pyarrow.compute.Expression or list or str, optional
            As `Catalog.read` takes them.
        errors : ErrorColumns, optional
        scored : tuple of str
            The columns that a score of pairs asks for.

        Raises
        ------
        SchemaMismatchError
            There is no such column; the message names the nearest ones.
        FilterError
            The filter is not understood.
        SpecError
            Rows are to be carried to an epoch, and that of the catalog is not known, or its proper motions
            are not along the axes of ICRS; errors are no numbers, or have another unit than is said.
        """
        position = icrs_position(metadata)
        whole = joined_schema(metadata)
        kept = [name for name in whole.names if name not in ROW_IDENTITY]
        if columns is not None:
            select(metadata, columns)
            wanted = {*columns, *((position.ra, position.dec) if keeps_position else ())}
            if keeps_position:  # the outcome has the left row's
                wanted.discard(HEALPIX_COLUMN)
            kept = [name for name in whole.names if name in wanted]
        years = 0.0
        if motion is not None and epoch is not None:
            years = epoch - _epoch_of(metadata)
        passes = select(metadata, [], filters).filter
        select(metadata, scored)
        side = cls(storage, metadata, tuple(kept), motion, years, passes, errors, scored)
        _check_numbers(side, whole)
        if errors is not None:
            check_error_units(metadata.catalog, whole, errors)
        return side

    @property
    def position(self) -> PositionSpec:
        """The columns that place a row."""
        return icrs_position(self.metadata)

    @cached_property
    def stretches(self) -> Stretches:
        """Reads the kept columns, and those that say where the rows stand, of rows that pass the filter."""
        return Stretches(self.storage, self.metadata, self.needed, self.filter)

    @cached_property
    def places(self) -> Stretches:
        """Reads only the columns that say where the rows stand, of rows that pass the filter."""
        return Stretches(self.storage, self.metadata, self.placing, self.filter)

    @property
    def needed(self) -> list[str]:
        """The kept columns, and those that say where the rows stand; without `_healpix_29`."""
        return [name for name in dict.fromkeys([*self.columns, *self.placing]) if name != HEALPIX_COLUMN]

    @property
    def placing(self) -> list[str]:
        """The columns that say where the rows stand, how well that is known, and how pairs score."""
        names = [
            self.position.ra,
            self.position.dec,
            *self._motion_columns,
            *self._error_columns,
            *self.scored,
        ]
        return list(dict.fromkeys(names))

    @cached_property
    def filtered(self) -> list[str]:
        """The columns that the filter asks for."""
        if self.filter is None:
            return []
        columns = select(self.metadata, [], self.filter).columns
        return [name for group in columns.values() for name in group]

    @property
    def schema(self) -> pa.Schema:
        """The kept columns."""
        return pa.schema([self.stretches.schema.field(name) for name in self.columns])

    def degrees(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """ICRS degrees of rows, at the epoch of the catalog."""
        return icrs_of(rows, self.position)

    def positions(self, rows: pa.Table) -> SkyPositions:
        """Where rows stand at the epoch of the match, with their errors."""
        ra, dec = self.degrees(rows)
        errors = None if self.errors is None else regions_of(rows, self.errors)
        values = rows.select(list(self.scored)) if self.scored else None
        if self.motion is None or self.years == 0.0:
            return SkyPositions(ra, dec, rows[HEALPIX_COLUMN].to_numpy(), errors, values)
        pmra, pmdec = positions(rows[self.motion.pmra], rows[self.motion.pmdec])
        more = [
            None if name is None else positions(rows[name], rows[name])[0]
            for name in (self.motion.parallax, self.motion.radial_velocity)
        ]
        moved = propagate(ra, dec, Motion(pmra, pmdec, *more), self.years)
        return replace(moved, errors=errors, values=values)

    def largest_error(self) -> float:
        """A bound on the position errors of all rows, in arcseconds, from the footers of all leaf files.

        Leaves whose footer tells of an error that may not be are read: rows that do not pass the filter may
        have it.

        Raises
        ------
        SpecError
            A row has a negative or an infinite error, or one above the maximum that is stated.
        """
        if self.errors is None:
            return 0.0
        return largest_error_in(self.storage, self.metadata, self.errors, self.places.inside)

    def largest_shift(self) -> float:
        """A bound on how far any row moves, in arcseconds, from the footers of all leaf files.

        Rows that do not pass the filter count too.

        Raises
        ------
        SpecError
            There is none: a proper motion is infinite, or a distance would shrink to nothing.
        """
        if self.motion is None or self.years == 0.0:
            return 0.0
        groups = select(self.metadata, self._motion_columns).columns
        files = [self._files(group) for group in groups]
        shift = largest_shift_in(self.storage, files, self.motion, self.years)
        if not np.isfinite(shift):
            raise SpecError(
                f"catalog {self.metadata.catalog}: its motions are so large that nothing bounds where rows "
                f"stand {self.years:g} years later; look at {', '.join(self._motion_columns)}"
            )
        return shift

    def _files(self, group: str) -> list[str]:
        """The leaf files of a group."""
        schema = self.metadata.schema_of(group)
        paths = self.metadata.partitions(group, self.storage)["path"].to_pylist()
        return [file for path in paths for file in leaf_files(self.storage, path, schema)]

    def has_margin(self, radius_arcsec: float) -> bool:
        """Whether a margin of the catalog reaches as far as a radius."""
        return any(margin.radius_arcsec >= radius_arcsec for margin in self._margins)

    def margin(self, radius_arcsec: float) -> Margin:
        """The smallest margin that reaches as far as a radius.

        Raises
        ------
        SpecError
            There is none; the message says how to build it.
        """
        wide = [margin for margin in self._margins if margin.radius_arcsec >= radius_arcsec]
        if wide:
            return min(wide, key=lambda margin: margin.radius_arcsec)
        group, known = (
            self.metadata.group().name,
            ", ".join(f"{each.radius_arcsec:g}" for each in self._margins),
        )
        needed = int(np.ceil(radius_arcsec))
        raise SpecError(
            f"catalog {self.metadata.catalog} has no margin of {radius_arcsec:.6g} arcsec or more, which the "
            "right side of a match needs to find partners over the borders of its leaves "
            f"(margins of column group {group!r}: {known or 'none'}); add it by "
            f"catalog_margin__{self.metadata.catalog} or Catalog.build_margin({needed}), or write 'margin: "
            f"{{arcsec: [{needed}]}}' into its spec and ingest again; a cross-match of a spec builds one for "
            "itself with 'missing_margin: build', and does without with 'missing_margin: none'"
        )

    @property
    def _margins(self) -> list[Margin]:
        """Those of the primary column group."""
        group = self.metadata.group().name
        return [margin for margin in self.metadata.margins if margin.group == group]

    @property
    def _error_columns(self) -> tuple[str, ...]:
        return () if self.errors is None else self.errors.columns

    @property
    def _motion_columns(self) -> list[str]:
        return [] if self.motion is None else [name for _, name in self.motion if name is not None]


def _epoch_of(metadata: CatalogMetadata) -> float:
    if metadata.position.epoch is None:
        raise SpecError(
            f"catalog {metadata.catalog}: its positions have no epoch, so that its rows cannot be carried to "
            "another; write 'epoch:' into the position of its spec, such as 2016.0, and ingest again"
        )
    if metadata.position.frame != "icrs":
        raise SpecError(
            f"catalog {metadata.catalog}: its positions are {metadata.position.frame}, and motions are only "
            "known along the axes of icrs; ingest it with ICRS positions and motions"
        )
    return metadata.position.epoch


def _check_numbers(side: Side, whole: pa.Schema) -> None:
    """Motions and errors are numbers."""
    for what, names in (("motion", side._motion_columns), ("position errors", side._error_columns)):
        select(side.metadata, names)
        for name in names:
            kind = whole.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                raise SpecError(
                    f"catalog {side.metadata.catalog}: column {name!r} of its {what} is {kind}, not a "
                    "number; name another column"
                )


def refuse_self_match(left: Side, right: Side, options: MatchOptions) -> None:
    """Raise `SpecError` if a catalog stands beside itself, and filters do not keep rows from themselves."""
    if not left.storage.is_same_place(right.storage) or options.min_radius_arcsec > 0.0:
        return
    if left.filter is None or right.filter is None or left.filter == right.filter:
        raise SpecError(
            f"{left.storage.uri()} is matched with itself, so that every row would find itself; name another "
            "catalog, give a min_radius_arcsec above 0 to find neighbours, or filter both sides so that they "
            "have no row in common"
        )


def largest_shift_in(
    storage: Storage, groups: Sequence[Sequence[str]], motion: MotionColumns, years: float
) -> float:
    """A bound on how far any row of some leaf files moves.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    groups : sequence of sequences of str
        The leaf files of every column group that has some of the columns. Only footers are read, unless one
        does not say what its columns hold. Where the columns lie in one group, no row group moves farther
        than what it holds itself; in several, the largest values of all rows count as those of one row.
    motion : MotionColumns
    years : float

    Returns
    -------
    float
        Arcseconds; infinite where nothing bounds it.
    """
    names = (motion.pmra, motion.pmdec, motion.parallax, motion.radial_velocity)
    found = [
        np.concatenate(list(in_threads(storage, lambda path: value_bounds(storage, path, names), paths)))
        for paths in groups
        if paths
    ]
    bounds = np.abs(np.concatenate([*found, np.zeros((0, len(names), 2))])).max(axis=2)
    if len(found) > 1 and len(bounds):
        bounds = bounds.max(axis=0, keepdims=True)
    return max((_Most(*bound).shift(years) for bound in bounds.tolist()), default=0.0)


class _Most(NamedTuple):
    """The largest absolute values of some rows."""

    pmra: float
    pmdec: float
    parallax: float
    radial_velocity: float

    def shift(self, years: float) -> float:
        receding = self.radial_velocity / AU_KM_YR_PER_S * self.parallax * MAS
        return largest_shift(float(np.hypot(self.pmra, self.pmdec)), years, receding=receding)
