"""Leaf files: those of the column groups, and those of the margins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pydantic import Field

from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.partitions import (
    PARTITION_SCHEMA,
    PartitionSidecar,
    pixels_in,
    read_partition_sidecars,
    table_of,
)
from hipslake.catalog.schema import schema_of_text
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import ParquetSpec
from hipslake.specs.threshold import Threshold
from hipslake.storage.folder import Storage


class Column(Frozen):
    """One column of a group. `type` is for people; `GroupMetadata.arrow_schema` is exact."""

    name: str
    type: str = Field(description="Arrow type as text")
    nullable: bool = True
    unit: str | None = None
    description: str | None = None
    ucd: str | None = Field(default=None, description="what it is, in words of the VO: UCD1+")


class Partition(Frozen):
    """One leaf file of one column group."""

    order: int = Field(ge=0, le=29)
    npix: int = Field(ge=0, description="NESTED pixel number at this order")
    path: str = Field(description="relative to the catalog's root; may lie in an older write")
    rows: int = Field(ge=1)
    bytes: int = Field(ge=1)
    sha256: str


class _Files:
    """The files of a column group or of a margin, listed in one of two ways."""

    if TYPE_CHECKING:
        pixels: dict[int, str]
        partitions: tuple[Partition, ...] | None
        sidecars: tuple[PartitionSidecar, ...] | None

    @property
    def is_listed(self) -> bool:
        """Whether the metadata list the files themselves, so that `table` reads nothing."""
        return self.sidecars is None

    def leaf_pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Order and number of all pixels with files, int64[n] each; not along the curve."""
        return pixels_in(self.pixels)

    def table(self, storage: Storage) -> pa.Table:
        """The partitions as `PARTITION_SCHEMA`, along the curve; `storage` is at the catalog's root."""
        if self.sidecars is not None:
            return read_partition_sidecars(storage, self.sidecars)
        return table_of(self.partitions or (), PARTITION_SCHEMA)

    def table_near(self, storage: Storage, start: np.ndarray, stop: np.ndarray) -> pa.Table:
        """The partitions around some stretches of the curve, and maybe more.

        Parameters
        ----------
        storage : Storage
            At the catalog's root. Of the sidecars, only those are read that hold any of them.
        start, stop : int64[n]
            Order-29 pixels, [start, stop); ascending and disjoint.
        """
        if self.sidecars is None:
            return self.table(storage)
        begin = np.array([sidecar.start for sidecar in self.sidecars])
        end = np.array([sidecar.stop for sidecar in self.sidecars])
        met = np.searchsorted(stop, begin, side="right") < np.searchsorted(start, end, side="left")
        return read_partition_sidecars(storage, [self.sidecars[at] for at in np.flatnonzero(met).tolist()])


class GroupMetadata(_Files, Frozen):
    """One column group: its columns, its pixels and its files."""

    name: str
    rows: int
    bytes: int
    leaves: int
    files: int = Field(description="as many as leaves, unless leaves gather files")
    threshold: Threshold
    parquet: ParquetSpec
    columns: tuple[Column, ...]
    arrow_schema: str = Field(description="the schema of every leaf: an Arrow IPC schema message in base64")
    pixels: dict[int, str] = Field(description="per order, the leaf pixels as ranges: '0-3,7'")
    partitions: tuple[Partition, ...] | None = Field(
        default=None, description="along the NESTED curve; in `sidecars` instead when there are thousands"
    )
    sidecars: tuple[PartitionSidecar, ...] | None = Field(
        default=None, description="along the NESTED curve, each with the partitions of one stretch of it"
    )

    def to_arrow(self) -> pa.Schema:
        """The exact schema of the group's leaf files."""
        return schema_of_text(self.arrow_schema)


class Margin(_Files, Frozen):
    """The rows within a distance outside of each leaf of the primary group, and of each pixel between them.

    Its files have the schema of the group. A row is filed under every pixel that it is near to; pixels
    without such rows have no file.
    """

    name: str = Field(description="of its folder (layout hats) or files (hipscat)")
    group: str
    radius_arcsec: float
    rows: int
    bytes: int
    files: int
    pixels: dict[int, str] = Field(description="per order, the pixels that have a file: '0-3,7'")
    partitions: tuple[Partition, ...] | None = Field(
        default=None, description="along the NESTED curve; in `sidecars` instead when there are thousands"
    )
    sidecars: tuple[PartitionSidecar, ...] | None = Field(
        default=None, description="along the NESTED curve, each with the partitions of one stretch of it"
    )

    def place(self, catalog: Storage) -> Storage:
        """Where the paths of its files begin: at the root of the catalog, or where others put the margin."""
        return catalog

    def leaf_schema(self, group: pa.Schema) -> pa.Schema:
        """The schema of its files, given that of the leaves of the group, which others may have written."""
        return given_schema(group)
