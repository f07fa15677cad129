"""metadata.json: everything that a reader needs to know of one version of a catalog.

`python -m hipslake.catalog.metadata` prints its JSON Schema, kept in `docs/metadata.schema.json`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
from pydantic import AwareDatetime, Field, ValidationError

from hipslake.catalog.layouts import LayoutPaths, layout_paths
from hipslake.catalog.partitions import (
    PARTITION_SCHEMA,
    SOURCE_SCHEMA,
    PartitionSidecar,
    Sidecar,
    pixels_in,
    read_partition_sidecars,
    read_sidecar,
)
from hipslake.catalog.schema import schema_of_text
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog import Layout, ParquetSpec
from hipslake.specs.threshold import Threshold
from hipslake.storage import Storage

FORMAT: Final = "hipslake"
FORMAT_VERSION: Final = 1
_LINE = 150  # an object that fits is printed on one line


class Column(Frozen):
    """One column of a group. `type` is for people; `GroupMetadata.arrow_schema` is exact."""

    name: str
    type: str = Field(description="Arrow type as text")
    nullable: bool = True
    unit: str | None = None
    description: str | None = None


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

    def leaf_pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Order and number of all pixels with files, int64[n] each; not along the curve."""
        return pixels_in(self.pixels)

    def table(self, storage: Storage) -> pa.Table:
        """The partitions as `PARTITION_SCHEMA`, along the curve; `storage` is at the catalog's root."""
        if self.sidecars is not None:
            return read_partition_sidecars(storage, self.sidecars)
        return _table(self.partitions or (), PARTITION_SCHEMA)

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


class Association(Frozen):
    """Pairs of rows of two catalogs: by which columns HATS readers join them through this one."""

    primary_uri: str
    primary_column: str
    primary_column_here: str = Field(description="what the column is called in this catalog")
    join_uri: str
    join_column: str
    join_column_here: str
    max_separation_arcsec: float


class SourceEntry(Frozen):
    """A source file as it was read."""

    uri: str
    size: int = Field(description="bytes")
    stamp: str = Field(description="etag, or else the modification time")
    rows: int


class Sources(Frozen):
    """The source files, in source order; in `sidecar` when there are thousands."""

    files: int
    rows: int
    bytes: int
    entries: tuple[SourceEntry, ...] | None = None
    sidecar: Sidecar | None = None

    def table(self, storage: Storage) -> pa.Table:
        """The files as `SOURCE_SCHEMA`; `storage` is at the catalog's root."""
        if self.sidecar is not None:
            return read_sidecar(storage, self.sidecar, SOURCE_SCHEMA)
        return _table(self.entries or (), SOURCE_SCHEMA)


class Rejects(Frozen):
    """The rows that were quarantined, whole and with a reason."""

    rows: int = 0
    path: str | None = Field(default=None, description="folder, relative to the catalog's root")
    reasons: dict[str, int] = Field(default_factory=dict)


class Increment(Frozen):
    """The rows of one run; `_row >> 40` is its ordinal."""

    ordinal: int = Field(ge=0, lt=1 << 23)
    key: str | None = Field(
        default=None, description="start of the interval that it is of, ISO 8601; the whole has none"
    )
    rows: int
    write_id: str
    fingerprint: str = Field(description="digest of the files, the spec and the library it was made with")
    sources: Sources
    rejects: Rejects = Rejects()
    coverage: Sidecar = Field(description="how many of its rows lie in which pixel")


class CatalogMetadata(Frozen):
    """One version of a catalog. Immutable; a new version is a new file."""

    format: Literal["hipslake"] = FORMAT
    format_version: Literal[1] = FORMAT_VERSION
    catalog: str
    version: int = Field(ge=1)
    parent: int | None = Field(default=None, description="the newest version when this one was committed")
    restored: int | None = Field(default=None, description="the version that a rollback brought back")
    write_id: str
    created: AwareDatetime
    fingerprint: str
    library_version: str
    description: str = ""
    attribution: str = Field(default="", description="licence and credit of the data")
    layout: Layout
    gathers: bool = Field(default=False, description="whether a leaf may have several files")
    position: Position
    total_rows: int
    total_bytes: int
    groups: tuple[GroupMetadata, ...] = Field(min_length=1, description="the first one is the primary")
    increments: tuple[Increment, ...] = Field(min_length=1, description="ascending by ordinal")
    co_partitioned: tuple[CoPartitioned, ...] = Field(default=(), description="verified before each commit")
    margins: tuple[Margin, ...] = ()
    indices: tuple[Index, ...] = ()
    association: Association | None = Field(default=None, description="of a cross-match that asked for it")
    spec: dict[str, Any] = Field(description="the spec of the run, as it was frozen")

    def group(self, name: str | None = None) -> GroupMetadata:
        """The group of this name, or the primary one.

        Raises
        ------
        KeyError
            There is none of this name; the message lists those that there are.
        """
        if name is None:
            return self.groups[0]
        for group in self.groups:
            if group.name == name:
                return group
        known = ", ".join(group.name for group in self.groups)
        raise KeyError(f"catalog {self.catalog} has no column group {name!r}; it has {known}")

    def group_with(self, column: str) -> str:
        """The first group that stores a column; `KeyError` if none does."""
        for group in self.groups:
            if column in group.to_arrow().names:
                return group.name
        raise KeyError(f"catalog {self.catalog} has no column {column!r}")

    def mark_of(self, column: str) -> CoPartitioned | None:
        """How a column is co-partitioned; None if it is not."""
        return next((mark for mark in self.co_partitioned if mark.column == column), None)

    @property
    def increment_writes(self) -> tuple[str, ...]:
        """The write of every increment: who has the same ones has the same rows, however they are filed."""
        return tuple(sorted(increment.write_id for increment in self.increments))

    def index_of(self, column: str) -> Index | None:
        """The index of a column, or None."""
        return next((index for index in self.indices if index.column == column), None)

    def schema_of(self, group: str | None = None) -> pa.Schema:
        """The exact schema of a group's leaf files."""
        return self.group(group).to_arrow()

    def partitions(self, group: str | None, storage: Storage) -> pa.Table:
        """The partitions of a group as `PARTITION_SCHEMA`, along the curve.

        Parameters
        ----------
        group : str or None
            None is the primary group.
        storage : Storage
            At the catalog's root; touched only where sidecars hold the table.
        """
        return self.group(group).table(storage)

    def source_files(self, storage: Storage) -> pa.Table:
        """The source files as `SOURCE_SCHEMA`, increment by increment, in source order."""
        return pa.concat_tables(increment.sources.table(storage) for increment in self.increments)

    @property
    def paths(self) -> LayoutPaths:
        """Where the files of the version's own write lie."""
        return layout_paths(self.layout, gathers=self.gathers)

    @property
    def rows_read(self) -> int:
        """Rows of all source files together."""
        return sum(increment.sources.rows for increment in self.increments)

    @property
    def rows_rejected(self) -> int:
        """Rows that were quarantined, of all increments."""
        return sum(increment.rejects.rows for increment in self.increments)

    @property
    def with_files(self) -> tuple[GroupMetadata | Margin, ...]:
        """All that has leaf files: the groups and the margins."""
        return (*self.groups, *self.margins)

    def margin(self, arcsec: float) -> Margin | None:
        """The margin of a distance, or None."""
        return next((margin for margin in self.margins if margin.radius_arcsec == arcsec), None)

    def increment(self, key: str | None) -> Increment | None:
        """The increment of a key, or None."""
        return next((increment for increment in self.increments if increment.key == key), None)

    def to_json(self) -> bytes:
        """The bytes of metadata.json: the same metadata gives the same bytes."""
        return (_render(self.model_dump(mode="json", exclude_none=True)) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes | str, *, where: str = "metadata.json") -> CatalogMetadata:
        """Read metadata.json.

        Raises
        ------
        CatalogFormatError
            It is damaged, no metadata of ours, or of a format version that this library does not know.
        """
        try:
            head = json.loads(data)
        except ValueError as error:
            raise CatalogFormatError(
                f"{where}: not JSON ({error}); restore the file or ingest again"
            ) from error
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise CatalogFormatError(
                f"{where}: no metadata of a hipslake catalog ('format' is not '{FORMAT}')"
            )
        if head.get("format_version") != FORMAT_VERSION:
            raise CatalogFormatError(
                f"{where}: format version {head.get('format_version')!r}, but this library reads "
                f"{FORMAT_VERSION}; upgrade hipslake"
            )
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise CatalogFormatError(
                f"{where}: {key}: {first['msg']} (written by hipslake {head.get('library_version', '?')}); "
                "restore the file, or upgrade hipslake if it is older"
            ) from error


def json_schema() -> str:
    """The JSON Schema of metadata.json, as text."""
    schema = CatalogMetadata.model_json_schema(mode="serialization")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "hipslake catalog metadata",
    }
    return json.dumps(schema, indent=2) + "\n"


def _table(rows: tuple[Frozen, ...], schema: pa.Schema) -> pa.Table:
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    return pa.table(columns, schema=schema)


def _render(value: Any, indent: int = 0) -> str:
    """JSON for people: one line for each partition, column or file, an indented block for what is longer."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (len(flat) <= _LINE and not _nests(value)):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_render(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "}"
    if all(isinstance(item, dict) and not _nests(item) for item in value):
        items = [json.dumps(item, ensure_ascii=False) for item in value]
    else:
        items = [_render(item, indent + 1) for item in value]
    return "[\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "]"


def _nests(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, dict | list) and item for item in items)


if __name__ == "__main__":
    print(json_schema(), end="")
