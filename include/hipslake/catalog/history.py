"""What each version of a catalog brought, told from metadata alone."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime

from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage


class VersionKind(StrEnum):
    """What was done to come to a version."""

    FIRST = "first"  # nothing was there before
    REPLACED = "replaced"  # the whole was built anew
    APPENDED = "appended"  # increments came, or took the place of earlier ones
    REWRITTEN = "rewritten"  # the same rows, filed otherwise: compacted, or with other margins or indices
    ROLLED_BACK = "rolled back"


class IncrementSummary(Frozen):
    """An increment in few words."""

    ordinal: int
    key: str | None
    end: str | None
    rows: int
    rejected: int
    source_files: int

    @classmethod
    def of(cls, increment: Increment) -> IncrementSummary:
        """What there is to say of an increment."""
        return cls(
            ordinal=increment.ordinal,
            key=increment.key,
            end=increment.end,
            rows=increment.rows,
            rejected=increment.rejects.rows,
            source_files=increment.sources.files,
        )


class VersionSummary(Frozen):
    """A version, and how it differs from the one before; None where that one was vacuumed."""

    version: int
    parent: int | None
    kind: VersionKind | None
    restored: int | None
    write_id: str
    created: AwareDatetime
    library_version: str
    rows: int
    bytes: int
    files: int
    leaves: int
    rows_added: int | None  # may be negative
    bytes_added: int | None
    increments_added: tuple[IncrementSummary, ...] = ()


def summarize(storage: Storage, metadata: CatalogMetadata, parent: CatalogMetadata | None) -> VersionSummary:
    """Say what a version brought.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    parent : CatalogMetadata or None
        The version before, or None where there is none, or none that can be read.
    """
    first = metadata.parent is None
    known = parent is not None or first
    came = set(metadata.increment_writes).difference(parent.increment_writes if parent else ())
    return VersionSummary(
        version=metadata.version,
        parent=metadata.parent,
        kind=_kind(metadata, parent),
        restored=metadata.restored,
        write_id=metadata.write_id,
        created=metadata.created,
        library_version=metadata.library_version,
        rows=metadata.total_rows,
        bytes=metadata.total_bytes,
        files=sum(group.files for group in metadata.groups),
        leaves=metadata.groups[0].leaves,
        rows_added=metadata.total_rows - (parent.total_rows if parent else 0) if known else None,
        bytes_added=metadata.total_bytes - (parent.total_bytes if parent else 0) if known else None,
        increments_added=tuple(
            map(IncrementSummary.of, metadata.increments_of(came, storage) if known else ())
        ),
    )


def _kind(metadata: CatalogMetadata, parent: CatalogMetadata | None) -> VersionKind | None:
    if metadata.restored is not None:
        return VersionKind.ROLLED_BACK
    if parent is None:
        return VersionKind.FIRST if metadata.parent is None else None
    before, after = set(parent.increment_writes), set(metadata.increment_writes)
    if before == after:
        return VersionKind.REWRITTEN
    if before & after or any(increment.key is not None for increment in metadata.increments):
        return VersionKind.APPENDED
    return VersionKind.REPLACED
