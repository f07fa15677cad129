"""Increments: the rows that one run brought, and what it read and rejected."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pydantic import Field, model_validator

from hipslake.catalog.partitions import (
    COVERAGE_SCHEMA,
    PARTITION_SCHEMA,
    SOURCE_SCHEMA,
    Sidecar,
    read_sidecar,
    table_of,
)
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage


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
        return table_of(self.entries or (), SOURCE_SCHEMA)


class Rejects(Frozen):
    """The rows that were quarantined, whole and with a reason."""

    rows: int = 0
    path: str | None = Field(default=None, description="folder, relative to the catalog's root")
    reasons: dict[str, int] = Field(default_factory=dict)


class Cell(Frozen):
    """A pixel with rows."""

    order: int = Field(ge=0, le=29)
    npix: int = Field(ge=0, description="NESTED pixel number at this order")
    rows: int = Field(ge=1)


class Increment(Frozen):
    """The rows of one run; `_row >> 40` is its ordinal."""

    ordinal: int = Field(ge=0, lt=1 << 23)
    key: str | None = Field(
        default=None, description="start of the interval that it is of, ISO 8601; the whole has none"
    )
    end: str | None = Field(
        default=None, description="end of that interval, where the run knew it; exclusive"
    )
    rows: int
    write_id: str
    fingerprint: str = Field(description="digest of the files, the spec and the library it was made with")
    sources: Sources
    rejects: Rejects = Rejects()
    coverage: Sidecar | None = Field(default=None, description="how many of its rows lie in which pixel")
    by_leaf: Literal[True] | None = Field(
        default=None, description="`coverage` lists the leaf files of the version that brought the rows"
    )
    leaves: tuple[Cell, ...] | None = Field(
        default=None, description="in place of `coverage`: the leaves of the version that brought the rows"
    )

    @model_validator(mode="after")
    def _lies_somewhere(self) -> Increment:
        if (self.coverage is None) is (self.leaves is None):
            raise ValueError(
                "coverage: says where the rows lie, or in its place leaves; one of them is needed"
            )
        return self

    def cells(self, storage: Storage) -> pa.Table:
        """Where the rows lie, as `COVERAGE_SCHEMA`; `storage` is at the catalog's root."""
        if self.coverage is None:
            return table_of(self.leaves or (), COVERAGE_SCHEMA)
        if self.by_leaf:
            leaves = read_sidecar(storage, self.coverage, PARTITION_SCHEMA)
            return leaves.select(COVERAGE_SCHEMA.names).cast(COVERAGE_SCHEMA)
        return read_sidecar(storage, self.coverage, COVERAGE_SCHEMA)
