"""metadata.json of a cube: everything that a reader needs to know of one version.

`python -m hipslake.cube.store.metadata` prints its JSON Schema, kept in `docs/cube.schema.json`.
"""

from __future__ import annotations

import json
from typing import Literal

import pyarrow as pa
from pydantic import AwareDatetime, Field, ValidationError

from hipslake.catalog.metadata.upgrade import FORMAT_VERSION, upgraded
from hipslake.catalog.schema import schema_of_text
from hipslake.cube.dataset import listed
from hipslake.errors import CatalogFormatError, CubeError
from hipslake.specs.base import Frozen
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.plain_json import plain_json


class CubeColumn(Frozen):
    """One column of a dataset. `type` is for people; `CubeDatasetMetadata.schema_of` is exact."""

    name: str
    type: str = Field(description="Arrow type as text")


class FilesTable(Frozen):
    """The table of the files of a dataset: a Parquet file."""

    path: str = Field(description="relative to the cube's root")
    sha256: str


class CubeIndex(Frozen):
    """An explicit secondary index: which files hold which values of a column."""

    column: str
    parts: tuple[str, ...] = Field(description="Parquet files with the values and the paths of data files")


class CubeSource(Frozen):
    """What the rows of a dataset were taken from: a version of a catalog, a snapshot of a table, or files."""

    kind: Literal["catalog", "table", "parquet", "query"]
    uri: str = Field(description="root of the catalog, namespace.table, or the pattern of the files")
    version: int | None = Field(default=None, description="of the catalog")
    snapshot: int | None = Field(default=None, description="of the table")
    content: str = Field(description="digest of what decides the rows; equal: the same rows")
    taken: str = Field(description="digest of which rows and columns were taken of it, and how")


class CubeDatasetMetadata(Frozen):
    """One dataset of a cube."""

    name: str
    rows: int
    bytes: int
    files: int
    partition_columns: tuple[str, ...]
    columns: tuple[CubeColumn, ...]
    arrow_schema: str = Field(description="of all columns: an Arrow IPC schema message in base64")
    table: FilesTable
    writes: tuple[str, ...] = Field(description="the writes that its files and indices lie in")
    indices: tuple[CubeIndex, ...]
    source: CubeSource | None = Field(description="None: rows were given by hand")

    def to_arrow(self) -> pa.Schema:
        """The exact schema, with the partition columns, which come first."""
        return schema_of_text(self.arrow_schema)

    def index(self, column: str) -> CubeIndex:
        """The index of a column that has one."""
        return next(each for each in self.indices if each.column == column)


class CubeAlignment(Frozen):
    """Which partitions of a version meet, as a table beside its files."""

    conditions: str = Field(description="which rows are aligned; empty: all")
    table: FilesTable
    included: int = Field(description="partitions")
    dropped: int = Field(description="partitions")


class CubeMetadata(Frozen):
    """One version of a cube."""

    format: Literal["hipslake-cube"] = "hipslake-cube"
    format_version: Literal[2] = FORMAT_VERSION
    cube: str
    version: int = Field(ge=1)
    parent: int | None
    write_id: str
    created: AwareDatetime
    library_version: str
    operation: str = Field(description="what made this version")
    mark: str = Field(description="of the run that made it, by which a retry finds it")
    roles: CubeColumns
    file_rows: int = Field(ge=1, description="the most rows of one file")
    datasets: tuple[CubeDatasetMetadata, ...]
    alignment: CubeAlignment | None = Field(description="where a spec was followed")
    joined: CubeDatasetMetadata | None = Field(description="the joined rows, where they are kept")

    def dataset(self, name: str) -> CubeDatasetMetadata:
        """A dataset by its name.

        Raises
        ------
        CubeError
            There is none.
        """
        for each in self.datasets:
            if each.name == name:
                return each
        raise CubeError(f"cube {self.cube!r} has no dataset {name!r}; it has {listed(self.names)}")

    @property
    def tables(self) -> tuple[CubeDatasetMetadata, ...]:
        """All that has data files: the datasets, and the joined rows where they are kept."""
        return self.datasets if self.joined is None else (*self.datasets, self.joined)

    @property
    def names(self) -> list[str]:
        """The names of the datasets, sorted."""
        return sorted(each.name for each in self.datasets)

    def to_json(self) -> bytes:
        """The content of the metadata file."""
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> CubeMetadata:
        """The inverse of `to_json`.

        Raises
        ------
        CatalogFormatError
            It is no metadata of a cube, or of a format version that this library does not read.
        """
        try:
            return cls.model_validate(upgraded(plain_json(data), "cube", where))
        except (ValueError, ValidationError) as error:
            raise CatalogFormatError(
                f"{where}: not the metadata of a cube that this version of hipslake reads ({error}); check "
                "the path, or restore the file"
            ) from error


def json_schema() -> str:
    """The JSON Schema of a cube's metadata.json, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **CubeMetadata.model_json_schema(mode="serialization"),
        "title": "hipslake cube metadata",
    }
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
