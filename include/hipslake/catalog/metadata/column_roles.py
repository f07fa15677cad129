"""What columns are for: to place rows on the sky, to join catalogs by them, to find rows by a value."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipslake.catalog.partitions import PartitionSidecar, Sidecar
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
    gone: Sidecar | None = Field(
        default=None,
        description="objects of earlier increments that are not among these, and where they were: rows of "
        "theirs may be there still",
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
    pixel: int | None = Field(default=None, description="the least `_healpix_29` of the least value")
    ranks: str | None = Field(
        default=None,
        description="of the entries at which a file may begin, in their order: base64 of 4 bytes each",
    )


class IndexedLeaves(Frozen):
    """The leaf files that an index was built of: in all others, rows may lie that it does not know.

    An index that tells them is cut by content: see `hipslake.catalog.index_cuts`.
    """

    group: str = Field(description="the column group whose leaf files they are")
    file_entries: int = Field(ge=1, description="entries of a file of the index, about, as it was asked for")
    cuts: int = Field(default=1, ge=1, description="which rule says where its files begin")
    values: int = Field(ge=0, description="rows with a value")
    all_rows: bool = Field(description="whether they had all rows of the increments that the index covers")
    digest: str = Field(description="of the files, to compare those of two versions")
    sidecars: tuple[PartitionSidecar, ...] = Field(description="the files, along the NESTED curve")
    pixels: dict[int, str] | None = Field(
        default=None, description="the leaf pixels that entries name, where they are those of another group"
    )


class Index(Frozen):
    """Where the values of a column lie: entries of value, `_healpix_29`, rows, and leaf, sorted by value.

    The leaves are those that the catalog had when the index was built. `_healpix_29` stays right when they
    are split, so that rows which have not changed since are found in every later version.
    """

    column: str
    rows: int = Field(description="entries: the distinct pairs of value and `_healpix_29`")
    bytes: int
    files: tuple[IndexFile, ...] = Field(description="ascending by value")
    others: tuple[str, ...] = Field(default=(), description="files beside them, for HATS readers")
    writes: tuple[str, ...] = Field(description="the increments that it covers, by the write of each")
    leaves: str = Field(description="digest of the leaf pixels that it names")
    built_of: IndexedLeaves | None = Field(
        default=None, description="the leaf files; those of older libraries do not say it"
    )

    @property
    def paths(self) -> tuple[str, ...]:
        """All its files, relative to the catalog's root, and the sidecars that list what it was built of."""
        listing = self.built_of.sidecars if self.built_of is not None else ()
        return (*(file.path for file in self.files), *self.others, *(sidecar.path for sidecar in listing))
