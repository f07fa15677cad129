"""What columns mean: where a row lies on the sky, and which rows of other catalogs belong to it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipslake.specs.base import Frozen


class Position(Frozen):
    """The columns that place a row on the sky, and those that hold ICRS degrees, if any do."""

    ra: str
    dec: str
    unit: Literal["deg", "rad"]
    frame: Literal["icrs", "galactic", "fk5"]
    epoch: float | None = Field(default=None, description="Julian year of the positions")
    icrs_ra: str | None = None
    icrs_dec: str | None = None
    placed_by: str | None = Field(
        default=None,
        description="the catalog of objects whose positions place the rows, where their own do not; "
        "icrs_ra and icrs_dec are then the objects'",
    )


class PlacingObjects(Frozen):
    """The objects whose positions the values of a column were placed by."""

    catalog: str
    column: str
    writes: tuple[str, ...] = Field(description="the increments that they were in, by the write of each")


class CoPartitioned(Frozen):
    """A column whose rows of equal values have one `_healpix_29`; nulls are equal to nothing."""

    column: str
    objects: PlacingObjects | None = Field(
        default=None, description="None: the rows lie where they are, and equal values there are together"
    )


class Association(Frozen):
    """Pairs of rows of two catalogs: by which columns HATS readers join them through this one."""

    primary_uri: str
    primary_column: str
    primary_column_here: str = Field(description="what the column is called in this catalog")
    join_uri: str
    join_column: str
    join_column_here: str
    max_separation_arcsec: float
