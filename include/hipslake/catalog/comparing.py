"""What a version brought, how two versions differ, and where their files lie on the sky."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AwareDatetime

from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, read_partition_sidecars, total_of
from hipslake.specs.base import Frozen
from hipslake.sphere.pixels import starts
from hipslake.sphere.sky_cells import Footprint
from hipslake.storage.folder import Storage

_Files = GroupMetadata | Margin
_COLUMNS = ("order", "npix", "rows", "bytes")


def footprint(storage: Storage, files: GroupMetadata | Margin) -> Footprint:
    """The files of a column group, or of a margin.

    Parameters
    ----------
    storage : Storage
        At the catalog's root; touched only where sidecars hold the table.
    files : GroupMetadata or Margin
    """
    if files.sidecars is not None:
        return footprint_of(read_partition_sidecars(storage, files.sidecars, _COLUMNS))
    return footprint_of(files.table(storage))


def increment_footprint(storage: Storage, increment: Increment) -> Footprint:
    """The pixels that the rows of an increment lie in; how many bytes they take is not kept: 0."""
    return footprint_of(increment.cells(storage))


def footprint_of(table: pa.Table) -> Footprint:
    """The footprint, along the curve, of a table with `order`, `npix`, `rows` and perhaps `bytes`."""
    order = table["order"].to_numpy().astype(np.int8)
    start = starts(order, table["npix"].to_numpy())
    rows = table["rows"].to_numpy()
    size = table["bytes"].to_numpy() if "bytes" in table.column_names else np.zeros_like(rows)
    if np.any(start[1:] < start[:-1]):
        along = np.argsort(start, kind="stable")
        order, start, rows, size = order[along], start[along], rows[along], size[along]
    return Footprint(start, order, rows, size)


_COUNTS = ("inserted", "updated", "deleted")


class VersionKind(StrEnum):
    """How a version was made from the one before it."""

    FIRST = "first"  # nothing was there before
    REPLACED = "replaced"  # the whole was built anew
    APPENDED = "appended"  # increments came, or took the place of earlier ones
    DELETED = "deleted"  # rows were taken out on request
    REASSIGNED = "reassigned"  # rows were given to other objects on request
    REWRITTEN = "rewritten"  # the same rows, filed otherwise: compacted, or with other margins or indices
    CONTINUED = "continued"  # a join that kept of an earlier version what could not have changed
    ROLLED_BACK = "rolled back"


class IncrementSummary(Frozen):
    """The main facts of an increment."""

    ordinal: int
    key: str | None
    end: str | None
    rows: int
    rejected: int
    source_files: int
    inserted: int | None = None  # mode upsert: keys that have a row by it, and had none; None in other modes
    updated: int | None = None  # keys that have another row by it
    deleted: int | None = None  # keys that have no row any more

    @classmethod
    def of(cls, increment: Increment) -> IncrementSummary:
        """The summary of an increment."""
        changes = increment.changes
        counts = {} if changes is None else {name: getattr(changes, name) for name in _COUNTS}
        return cls(
            ordinal=increment.ordinal,
            key=increment.key,
            end=increment.end,
            rows=increment.rows,
            rejected=increment.rejects.rows,
            source_files=increment.sources.files,
            **counts,
        )


class VersionSummary(Frozen):
    """A version, and how it differs from the one before; None where that one was vacuumed.

    What nights inserted, updated and deleted is held against the catalog without them, also where a night
    came again.
    """

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
    rows_replaced: int | None = (
        None  # of nights that came again: what they had brought before; None: none did
    )
    inserted: int | None = None  # mode upsert: keys that have a row by the nights that came, and had none
    updated: int | None = None  # keys that have another row by them
    deleted: int | None = None  # keys that have no row any more; any mode: rows deleted on request


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
    had, has = set(parent.increment_writes if parent else ()), set(metadata.increment_writes)
    kind = _kind(metadata, parent)
    increments = tuple(map(IncrementSummary.of, metadata.increments_of(has - had, storage) if known else ()))
    return VersionSummary(
        version=metadata.version,
        parent=metadata.parent,
        kind=kind,
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
        increments_added=increments,
        rows_replaced=_rows_replaced(storage, parent, had - has) if kind is VersionKind.APPENDED else None,
        **_changes(metadata, increments, kind, has - had),
    )


def _rows_replaced(storage: Storage, parent: CatalogMetadata | None, went: set[str]) -> int | None:
    if parent is None or not went:
        return None
    return sum(increment.rows for increment in parent.increments_of(went, storage))


def _changes(
    metadata: CatalogMetadata,
    increments: Sequence[IncrementSummary],
    kind: VersionKind | None,
    came: set[str],
) -> dict[str, int]:
    """The sums of what nights changed; of none where increments came back that nobody has held against it."""
    if kind is VersionKind.DELETED:
        deletions = metadata.deletions or ()
        return {"deleted": sum(deletion.rows for deletion in deletions if deletion.write_id in came)}
    told = [each for each in increments if each.inserted is not None]
    if not told or kind is VersionKind.ROLLED_BACK:
        return {}
    return {name: sum(getattr(each, name) for each in told) for name in _COUNTS}


def _kind(metadata: CatalogMetadata, parent: CatalogMetadata | None) -> VersionKind | None:
    if metadata.restored is not None:
        return VersionKind.ROLLED_BACK
    if parent is None:
        return VersionKind.FIRST if metadata.parent is None else None
    before, after = set(parent.increment_writes), set(metadata.increment_writes)
    if before == after:
        return VersionKind.REWRITTEN
    if metadata.base_version is not None:
        return VersionKind.CONTINUED
    if before < after and after - before <= set(metadata.deletion_writes):
        return VersionKind.DELETED
    if before < after and after - before <= set(metadata.reassignment_writes):
        return VersionKind.REASSIGNED
    if before & after or any(increment.key is not None for increment in metadata.increments):
        return VersionKind.APPENDED
    return VersionKind.REPLACED


class FilesChanged(Frozen):
    """The files of a column group or margin that only one of two versions names."""

    name: str
    files_added: int
    files_removed: int
    files_kept: int
    rows_added: int  # in the files that came
    rows_removed: int  # in those that went
    bytes_added: int
    bytes_removed: int


class ColumnChange(Frozen):
    """A column that two versions do not have alike; None where a version lacks it."""

    group: str
    name: str
    old: str | None  # Arrow type
    new: str | None


class VersionDiff(Frozen):
    """How one version differs from another."""

    old: int
    new: int
    rows: int  # more than before; may be negative
    bytes: int
    groups: tuple[FilesChanged, ...]
    margins: tuple[FilesChanged, ...]
    columns: tuple[ColumnChange, ...]
    increments_added: tuple[IncrementSummary, ...]
    increments_removed: tuple[IncrementSummary, ...]
    indices_added: tuple[str, ...]
    indices_removed: tuple[str, ...]


class Moved(NamedTuple):
    """The files of one column group that came, and those that went."""

    added: Footprint
    removed: Footprint


def compare(storage: Storage, old: CatalogMetadata, new: CatalogMetadata) -> VersionDiff:
    """Say how a version differs from another.

    Files are told apart by path: a file is never written twice. Sidecars that both versions name are not
    read.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    old, new : CatalogMetadata
        Two versions of one catalog; `old` may be the later one.
    """
    had, has = set(old.increment_writes), set(new.increment_writes)
    indexed = [{index.column for index in metadata.indices} for metadata in (old, new)]
    return VersionDiff(
        old=old.version,
        new=new.version,
        rows=new.total_rows - old.total_rows,
        bytes=new.total_bytes - old.total_bytes,
        groups=_changed(storage, old.groups, new.groups),
        margins=_changed(storage, old.margins, new.margins),
        columns=tuple(_columns(old, new)),
        increments_added=tuple(map(IncrementSummary.of, new.increments_of(has - had, storage))),
        increments_removed=tuple(map(IncrementSummary.of, old.increments_of(had - has, storage))),
        indices_added=tuple(sorted(indexed[1] - indexed[0])),
        indices_removed=tuple(sorted(indexed[0] - indexed[1])),
    )


def moved(storage: Storage, old: CatalogMetadata, new: CatalogMetadata, group: str) -> Moved:
    """The files of a column group that came, and those that went, between two versions.

    Raises
    ------
    KeyError
        Neither version has the group.
    """
    files = [next((each for each in metadata.groups if each.name == group), None) for metadata in (old, new)]
    if files == [None, None]:
        new.group(group)
    removed, added, _ = files_apart(storage, *files)
    return Moved(added=footprint_of(added), removed=footprint_of(removed))


def _changed(storage: Storage, old: Iterable[_Files], new: Iterable[_Files]) -> tuple[FilesChanged, ...]:
    before, after = ({files.name: files for files in each} for each in (old, new))
    changes = []
    for name in dict.fromkeys([*after, *before]):
        removed, added, kept = files_apart(storage, before.get(name), after.get(name))
        changes.append(
            FilesChanged(
                name=name,
                files_added=added.num_rows,
                files_removed=removed.num_rows,
                files_kept=kept,
                rows_added=total_of(added, "rows"),
                rows_removed=total_of(removed, "rows"),
                bytes_added=total_of(added, "bytes"),
                bytes_removed=total_of(removed, "bytes"),
            )
        )
    return tuple(changes)


def files_apart(storage: Storage, old: _Files | None, new: _Files | None) -> tuple[pa.Table, pa.Table, int]:
    """The files that only the old one names, those that only the new one does, and how many both name.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    old, new : GroupMetadata or Margin or None
        None names none.

    Returns
    -------
    removed, added : pyarrow.Table
        As `PARTITION_SCHEMA`.
    kept : int
    """
    shared = {s.path for s in (old.sidecars if old else None) or ()}
    shared &= {s.path for s in (new.sidecars if new else None) or ()}
    before, after = _table(storage, old, shared), _table(storage, new, shared)
    went = before.filter(pc.invert(pc.is_in(before["path"], after["path"].combine_chunks())))
    came = after.filter(pc.invert(pc.is_in(after["path"], before["path"].combine_chunks())))
    return went, came, (new.files if new else 0) - came.num_rows


def _table(storage: Storage, files: _Files | None, leave_out: set[str]) -> pa.Table:
    if files is None:
        return PARTITION_SCHEMA.empty_table()
    if files.sidecars is None:
        return files.table(storage)
    return read_partition_sidecars(storage, [s for s in files.sidecars if s.path not in leave_out])


def _columns(old: CatalogMetadata, new: CatalogMetadata) -> Iterable[ColumnChange]:
    types = [
        {(group.name, column.name): column.type for group in metadata.groups for column in group.columns}
        for metadata in (old, new)
    ]
    for group, name in dict.fromkeys([*types[1], *types[0]]):
        before, after = (each.get((group, name)) for each in types)
        if before != after:
            yield ColumnChange(group=group, name=name, old=before, new=after)
