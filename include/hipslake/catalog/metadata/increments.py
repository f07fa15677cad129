"""Increments: the rows that one run brought, and what it read and rejected."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from hipslake.catalog.partitions import SOURCE_SCHEMA, Sidecar, read_sidecar, table_of
from hipslake.specs.base import Frozen
from hipslake.storage import Storage


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
    coverage: Sidecar = Field(description="how many of its rows lie in which pixel")
