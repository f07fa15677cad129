"""The place of every row of a batch on the sky, the rows that have none, and the others in curve order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.claimed_pixels import claim_faults, with_claims
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.object_pixels import UNKNOWN_ID, ObjectPixels
from hipslake.catalog.row_operations import deleting
from hipslake.catalog.schema import ICRS_COLUMNS, OBJECT_COLUMNS, ROW_COLUMN, hats_position
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.joins.key_codes import key_kind
from hipslake.specs.catalog_spec import CatalogSpec, PositionSpec, Unmatched
from hipslake.specs.source_columns import PIXEL_COLUMNS
from hipslake.sphere.coordinates import REASONS as POSITION_REASONS
from hipslake.sphere.coordinates import check_positions, positions, to_icrs_degrees
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN, centers29, order29

REASONS = (
    *POSITION_REASONS,
    "object id null",
    "object id unknown",
    "_healpix_29 of another position",
    "Norder, Dir or Npix of another pixel",
)
"""Why rows are left out, by code; 0 is that they are not."""

NULL_OBJECT, UNKNOWN_OBJECT = len(POSITION_REASONS), len(POSITION_REASONS) + 1
OTHER_CLAIM = UNKNOWN_OBJECT + 1
"""The first code of rows that say they lie in another pixel."""
SUPERSEDED = 255
"""The code of rows that newer ones take the place of. They are left out, but not bad, and are not kept."""
DELETING = 254
"""The code of records that delete the row of their key. Their own position is not looked at."""


@dataclass(frozen=True)
class Placed:
    """Positions of a batch's rows, in its order.

    Attributes
    ----------
    lon, lat : float64[n]
        The position columns as the source has them, NaN for null.
    reasons : uint8[n] or None
        Why a row is left out (0: it is not), as a place in `REASONS`, or `SUPERSEDED`, or `DELETING`. None if
        none is.
    objects : int64[n] or None
        `_healpix_29` of each row's object, negative where its own position places it. None if that is so of
        all rows.
    """

    lon: NDArray[np.float64]
    lat: NDArray[np.float64]
    reasons: NDArray[np.uint8] | None
    objects: NDArray[np.int64] | None = None

    @property
    def bad(self) -> NDArray[np.bool_] | None:
        """Which rows are left out for a reason, bool[n]; None if none is."""
        return None if self.reasons is None else (self.reasons != 0) & (self.reasons < DELETING)

    def without(self, superseded: NDArray[np.bool_]) -> Placed:
        """The same rows, of which those are left out too that newer ones take the place of, bool[n]."""
        if not superseded.any():
            return self
        reasons = np.zeros(len(superseded), np.uint8) if self.reasons is None else self.reasons
        return replace(self, reasons=np.where(superseded & (reasons == 0), np.uint8(SUPERSEDED), reasons))

    def with_deletes(self, deletes: NDArray[np.bool_]) -> Placed:
        """The same rows, of which some are no rows but records that delete one, bool[n]."""
        if not deletes.any():
            return self
        reasons = np.zeros(len(deletes), np.uint8) if self.reasons is None else self.reasons
        return replace(self, reasons=np.where(deletes, np.uint8(DELETING), reasons))

    @property
    def unmatched(self) -> int:
        """Rows with an id of no object that are placed all the same, by their own positions."""
        if self.objects is None:
            return 0
        unknown = self.objects == UNKNOWN_ID
        return int((unknown if self.reasons is None else unknown & (self.reasons == 0)).sum())


class Indexed(NamedTuple):
    """The rows of a batch that are not left out.

    `kept` are their places in the batch (None: all), `ra` and `dec` their own positions in ICRS degrees,
    `h29` the order-29 pixels that they are filed under.
    """

    kept: NDArray[np.int64] | None
    ra: NDArray[np.float64]
    dec: NDArray[np.float64]
    h29: NDArray[np.int64]


@dataclass(frozen=True)
class Placer:
    """Places rows as a spec says: by their own positions, or by those of their objects.

    Attributes
    ----------
    spec : CatalogSpec
    objects : ObjectPixels or None
        Where the spec has `position_from`.
    """

    spec: CatalogSpec
    objects: ObjectPixels | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of the source that tell a row's place."""
        given, position = self.spec.position_from, self.spec.position
        named = [position.ra, position.dec, *([given.column] if given else [])]
        operation = [self.spec.operation.column] if self.spec.operation is not None else []
        return list(dict.fromkeys([*named, *(PIXEL_COLUMNS if self._verifies else ()), *operation]))

    @property
    def _verifies(self) -> bool:
        return self.spec.source.healpix is not None

    def reading(self, schema: pa.Schema) -> pa.Schema:
        """The schema that rows are to be read with: that of the source, and the pixels that are verified."""
        return with_claims(schema) if self._verifies else schema

    def check(self, schema: pa.Schema) -> None:
        """Hold the ids of a source against the objects'; `SchemaMismatchError` if they are of two kinds."""
        given = self.spec.position_from
        if given is None or self.objects is None:
            return
        kind = schema.field(given.column).type
        if key_kind(kind, f"column {given.column!r}") != self.objects.kind:
            raise SchemaMismatchError(
                f"position_from of {self.spec.name!r}: column {given.column!r} is {kind}, but column "
                f"{given.key!r} of {given.catalog!r} is {self.objects.kind}; store both in one type"
            )

    def place(self, batch: pa.RecordBatch | pa.Table) -> Placed:
        """Read the positions of a batch, find its objects, and say which rows are left out.

        A batch without the column of operations has rows alone: types may have to be found first.
        """
        placed, operation = self._placed(batch), self.spec.operation
        if operation is None or operation.column not in batch.schema.names:
            return placed
        return placed.with_deletes(deleting(batch.column(operation.column), operation))

    def _placed(self, batch: pa.RecordBatch | pa.Table) -> Placed:
        placed = place(batch, self.spec.position)
        given = self.spec.position_from
        if given is None:
            return self._verified(batch, placed) if self._verifies else placed
        assert self.objects is not None, "the objects of the run were not gathered"
        found = self.objects.find(batch.column(given.column))
        lost = found < 0
        reasons = placed.reasons
        if lost.any() and given.unmatched is not Unmatched.OWN_POSITION:
            codes = np.where(found == UNKNOWN_ID, UNKNOWN_OBJECT, NULL_OBJECT).astype(np.uint8)
            standing = np.zeros(len(found), np.uint8) if reasons is None else reasons
            reasons = np.where(lost & (standing == 0), codes, standing)
        return Placed(placed.lon, placed.lat, reasons, found)

    def _verified(self, batch: pa.RecordBatch | pa.Table, placed: Placed) -> Placed:
        """Leave out the rows that say they lie in another pixel than their position."""
        found = indexed(placed, self.spec.position)
        faults = claim_faults(batch, *found)
        if not faults.any():
            return placed
        reasons = np.zeros(len(placed.lon), np.uint8) if placed.reasons is None else placed.reasons.copy()
        at = np.flatnonzero(faults)
        reasons[at if found.kept is None else found.kept[at]] = faults[at] + np.uint8(OTHER_CLAIM - 1)
        return replace(placed, reasons=reasons)


def place(batch: pa.RecordBatch | pa.Table, position: PositionSpec) -> Placed:
    """Read the positions of a batch and check them."""
    lon, lat = positions(batch.column(position.ra), batch.column(position.dec), unit=position.unit)
    reasons = check_positions(lon, lat, unit=position.unit)
    return Placed(lon, lat, reasons if reasons.any() else None)


def indexed(placed: Placed, position: PositionSpec) -> Indexed:
    """File the rows that are not left out."""
    lon, lat, objects = placed.lon, placed.lat, placed.objects
    kept: NDArray[np.int64] | None = None
    if placed.reasons is not None:
        kept = np.flatnonzero(placed.reasons == 0)
        lon, lat = lon[kept], lat[kept]
        objects = None if objects is None else objects[kept]
    ra, dec, h29 = icrs_and_index(lon, lat, position)
    if objects is not None:
        h29 = np.where(objects >= 0, objects, h29)
    return Indexed(kept, ra, dec, h29)


def icrs_and_index(
    lon: NDArray[np.float64], lat: NDArray[np.float64], position: PositionSpec
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """ICRS degrees and `_healpix_29` of good positions.

    Parameters
    ----------
    lon, lat : float64[n]
        In the unit and frame of `position`.

    Returns
    -------
    ra, dec : float64[n]
        ICRS, degrees; the values of the source where it has them.
    h29 : int64[n]
        NESTED pixel number at order 29.
    """
    ra, dec = to_icrs_degrees(lon, lat, unit=position.unit, frame=position.frame)
    return ra, dec, order29(ra, dec)


def icrs_position(metadata: CatalogMetadata) -> PositionSpec:
    """The columns of a catalog that place its rows: ICRS degrees where it has them.

    What the metadata says is taken as it is: the limits of specs are not those of catalogs that others wrote.
    """
    own = metadata.position
    if not metadata.lies_in_leaves:
        raise SpecError(
            f"catalog {metadata.catalog} is an index or a margin, whose rows lie elsewhere than its leaves; "
            "take the catalog that it is of"
        )
    if not own.ra:
        raise SpecError(
            f"catalog {metadata.catalog}: its properties name no columns of positions, so that its rows "
            "cannot be placed on the sky; read it without a region"
        )
    if own.icrs_ra is not None and own.icrs_dec is not None:
        return PositionSpec.model_construct(ra=own.icrs_ra, dec=own.icrs_dec, epoch=own.epoch)
    return PositionSpec.model_construct(
        ra=own.ra, dec=own.dec, unit=own.unit, frame=own.frame, epoch=own.epoch
    )


def stored_position(spec: CatalogSpec, schema: pa.Schema) -> PositionSpec:
    """As `icrs_position`, of a catalog that is not described yet.

    Of rows that lie where their objects do, these are the objects' positions and not their own.

    Parameters
    ----------
    spec : CatalogSpec
    schema : pyarrow.Schema
        Of the source, or of a column group that stores the position.
    """
    named = hats_position(spec, schema)
    return spec.position if named is None else PositionSpec(ra=named[0], dec=named[1])


def icrs_of(
    rows: pa.RecordBatch | pa.Table, position: PositionSpec
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ICRS ra and dec, float64[n] each in degrees, of rows that lie on the sky."""
    lon, lat = positions(rows.column(position.ra), rows.column(position.dec), unit=position.unit)
    return to_icrs_degrees(lon, lat, unit=position.unit, frame=position.frame)


def in_curve_order(
    rows: pa.RecordBatch,
    placed: Placed,
    *,
    position: PositionSpec,
    schemas: Mapping[str, pa.Schema],
    row_start: int,
) -> tuple[NDArray[np.int64], dict[str, pa.RecordBatch]]:
    """Index and sort the rows that have a place, and give every column group its columns.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        Consecutive rows of the source, with all its columns.
    placed : Placed
        Their positions; rows with a reason are left out.
    position : PositionSpec
    schemas : mapping of str to pyarrow.Schema
        Per column group, the schema of its leaf files.
    row_start : int
        `_row` of the first row.

    Returns
    -------
    keys : int64[m]
        `_healpix_29`, ascending; rows with equal ones are in source order.
    groups : dict of str to pyarrow.RecordBatch
        Per column group, the rows in the order of the keys.
    """
    kept, ra, dec, h29 = indexed(placed, position)
    order = curve_order(h29)
    keys = h29.take(order)
    places = order if kept is None else kept.take(order)
    wanted = {name for schema in schemas.values() for name in schema.names}
    stored = rows.select([name for name in rows.schema.names if name in wanted])
    taken = pc.take(stored, pa.array(places), boundscheck=False)  # the places are ours
    columns = dict(zip(stored.schema.names, taken.columns, strict=True))
    columns[HEALPIX_COLUMN] = pa.array(keys)
    if ROW_COLUMN in wanted:
        columns[ROW_COLUMN] = pa.array(places + row_start)
    for name, values in zip(ICRS_COLUMNS, (ra, dec), strict=True):
        if name in wanted and name not in columns:
            columns[name] = pa.array(values[order])
    if set(OBJECT_COLUMNS) <= wanted:
        columns |= {name: pa.array(c) for name, c in zip(OBJECT_COLUMNS, centers29(keys), strict=True)}
    groups = {
        group: pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        for group, schema in schemas.items()
    }
    return keys, groups
