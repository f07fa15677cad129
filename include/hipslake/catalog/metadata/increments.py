"""Increments: the rows that one run brought, and what it read and rejected.

A catalog gains an increment every night, for years, and metadata.json is read whenever it is opened. So it
lists the newest ones only. Of the others it keeps their writes and sums, which readers ask for most; the rest
of what is known of them is in a sidecar, read when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError, model_validator

from hipslake.catalog.metadata.key_records import KeyChanges
from hipslake.catalog.partitions import (
    COVERAGE_SCHEMA,
    PARTITION_SCHEMA,
    SOURCE_SCHEMA,
    Sidecar,
    read_sidecar,
    table_of,
    write_sidecar,
)
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import Frozen, first_mistake
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error


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
    superseded: int | None = Field(
        default=None, ge=1, description="rows that newer ones of the same key took the place of; none: 0"
    )
    changes: KeyChanges | None = Field(
        default=None, description="of a catalog in mode upsert: its records, and what they did"
    )
    coverage: Sidecar | None = Field(default=None, description="how many of its rows lie in which pixel")
    by_leaf: Literal[True] | None = Field(
        default=None, description="`coverage` lists the leaf files of the version that brought the rows"
    )
    leaves: tuple[Cell, ...] | None = Field(
        default=None, description="in place of `coverage`: the leaves of the version that brought the rows"
    )

    @property
    def left_out(self) -> int:
        """Rows of the sources that are not among its own: rejected or superseded, or records of deletes."""
        return self.rejects.rows + (self.superseded or 0) + self.deletes

    @property
    def deletes(self) -> int:
        """Rows of the sources that say that a key has no row."""
        return self.changes.deletes if self.changes is not None else 0

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


MOST_LISTED = 32
"""Most increments that metadata.json lists."""

LISTED_AGAIN = 16
"""How many it goes on listing when there are more; so that not every night writes a sidecar."""

_SIDECAR = pa.struct({"path": pa.string(), "rows": pa.int64(), "sha256": pa.string()})
_SOURCE = pa.struct({"uri": pa.string(), "size": pa.int64(), "stamp": pa.string(), "rows": pa.int64()})
_FILE = pa.struct(
    {
        "path": pa.string(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "sha256": pa.string(),
        "first": pa.list_(pa.string()),
        "last": pa.list_(pa.string()),
    }
)
_RUN = pa.struct(
    {
        "ordinals": pa.string(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "files": pa.list_(_FILE),
        "sidecar": _SIDECAR,
    }
)
_COUNTS = ("deletes", "inserted", "updated", "deleted", "outdated", "missing_deletes")
_LEAF = pa.struct({"order": pa.int32(), "npix": pa.int64(), "rows": pa.int64()})

INCREMENT_SCHEMA = pa.schema(
    {
        "ordinal": pa.int32(),
        "key": pa.string(),
        "end": pa.string(),
        "rows": pa.int64(),
        "write_id": pa.string(),
        "fingerprint": pa.string(),
        "sources": pa.struct(
            {
                "files": pa.int64(),
                "rows": pa.int64(),
                "bytes": pa.int64(),
                "entries": pa.list_(_SOURCE),
                "sidecar": _SIDECAR,
            }
        ),
        "rejects": pa.struct(
            {"rows": pa.int64(), "path": pa.string(), "reasons": pa.map_(pa.string(), pa.int64())}
        ),
        "superseded": pa.int64(),
        "changes": pa.struct({"run": _RUN, **dict.fromkeys(_COUNTS, pa.int64())}),
        "coverage": _SIDECAR,
        "by_leaf": pa.bool_(),
        "leaves": pa.list_(_LEAF),
    }
)
"""A row is an increment, as metadata.json would tell it."""


class EarlierIncrements(Sidecar):
    """The increments before those that metadata.json lists; the sidecar has one row for each."""

    last: int = Field(ge=0, description="the greatest of their ordinals")
    writes: tuple[str, ...] = Field(min_length=1, description="the write of each, ascending by ordinal")
    total_rows: int
    rows_read: int = Field(description="from source files")
    rows_rejected: int
    rows_superseded: int | None = Field(
        default=None,
        ge=1,
        description="by newer ones of the same key; without it, the table says nothing of them",
    )
    deletes: int | None = Field(
        default=None,
        ge=0,
        description="records that say that a key has no row; without it, the table says nothing of `changes`",
    )

    @property
    def table_schema(self) -> pa.Schema:
        """Of the sidecar."""
        return _sidecar_schema(self.rows_superseded, self.deletes)

    def read(self, storage: Storage) -> tuple[Increment, ...]:
        """The increments, ascending by ordinal; `storage` is at the catalog's root.

        Raises
        ------
        CatalogFormatError
            The sidecar is damaged, or not the one that metadata.json describes.
        """
        where, table = storage.uri(self.path), read_sidecar(storage, self, self.table_schema)
        with damage_as_error(where):
            rows = table.to_pylist(maps_as_pydicts="lossy")
        try:
            found = tuple(Increment.model_validate(row) for row in rows)
        except ValidationError as error:
            raise CatalogFormatError(
                f"{where}: {first_mistake(error)}; restore the file, or upgrade hipslake if it is older"
            ) from error
        if tuple(each.write_id for each in found) != self.writes or found[-1].ordinal != self.last:
            raise CatalogFormatError(f"{where}: not the increments that metadata.json describes")
        return found


def set_aside(increments: Sequence[Increment], storage: Storage, write_id: str) -> EarlierIncrements:
    """Put increments into a sidecar.

    Parameters
    ----------
    increments : sequence of Increment
        Ascending by ordinal; at least one.
    storage : Storage
        At the catalog's root.
    write_id : str
        The write that the sidecar belongs to.
    """
    superseded = sum(each.superseded or 0 for each in increments) or None
    keyed = any(each.changes is not None for each in increments)
    deletes = sum(each.deletes for each in increments) if keyed else None
    table = pa.Table.from_pylist([_row(each) for each in increments], _sidecar_schema(superseded, deletes))
    stored = write_sidecar(storage, write_id, "increments", table)
    return EarlierIncrements(
        **stored.model_dump(),
        last=increments[-1].ordinal,
        writes=tuple(each.write_id for each in increments),
        total_rows=sum(each.rows for each in increments),
        rows_read=sum(each.sources.rows for each in increments),
        rows_rejected=sum(each.rejects.rows for each in increments),
        rows_superseded=superseded,
        deletes=deletes,
    )


def _sidecar_schema(superseded: int | None, deletes: int | None) -> pa.Schema:
    """As `INCREMENT_SCHEMA`, without columns of what there is not, so that older libraries read the table."""
    lacking = {"superseded": superseded is None, "changes": deletes is None}
    return pa.schema([field for field in INCREMENT_SCHEMA if not lacking.get(field.name, False)])


def _row(increment: Increment) -> dict[str, Any]:
    fields = increment.model_dump(mode="json")
    fields["rejects"]["reasons"] = list(increment.rejects.reasons.items())
    return fields
