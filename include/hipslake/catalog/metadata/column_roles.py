"""What columns are for: to place rows on the sky, to join catalogs by them, to find rows by a value."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.sphere.position_units import PositionUnit


class Position(Frozen):
    """The columns that place a row on the sky, and those that hold ICRS degrees, if any do."""

    ra: str
    dec: str
    unit: PositionUnit = Field(description="of both coordinates; with hours, dec is in degrees")
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
    moves: Literal[True] | None = Field(
        default=None,
        description="increments may move rows, so that only the same ones have these positions",
    )


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


class IndexFile(Frozen):
    """The entries of one range of values; ranges do not overlap, but a value may stand in two files."""

    path: str = Field(description="relative to the catalog's root; may lie in an older write")
    rows: int
    bytes: int
    sha256: str
    first: int | str = Field(description="the least value")
    last: int | str = Field(description="the greatest value")


class Index(Frozen):
    """Where the values of a column lie: entries of value, `_healpix_29`, rows, and leaf, sorted by value.

    The leaves are those that the catalog had when the index was built. `_healpix_29` stays right when they
    are split, so that rows of the increments that the index covers are found in every later version.
    """

    column: str
    rows: int = Field(description="entries: the distinct pairs of value and `_healpix_29`")
    bytes: int
    files: tuple[IndexFile, ...] = Field(description="ascending by value")
    others: tuple[str, ...] = Field(default=(), description="files beside them, for HATS readers")
    writes: tuple[str, ...] = Field(description="the increments that it covers, by the write of each")
    leaves: str = Field(description="digest of the leaf pixels that it names")

    @property
    def paths(self) -> tuple[str, ...]:
        """All its files, relative to the catalog's root."""
        return (*(file.path for file in self.files), *self.others)
