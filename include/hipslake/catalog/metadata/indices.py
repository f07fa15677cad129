"""Where the values of a column lie."""

from __future__ import annotations

from pydantic import Field

from hipslake.specs.base import Frozen


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
