"""Vacuum: old versions go, and every file that no version needs any more.

A version goes by the tombstone that takes its place; from then on nobody can open it. Its files go after
that, those in its own folder too, unless another version names them. Interrupted anywhere, a vacuum is
completed by the next one: it looks at the folders of all versions that were ever vacuumed.

Nothing that a version names is deleted, whatever others do meanwhile. A new version names only what lies in
the folder of a living write, or what an older version names: the newest one, which never goes, or one that
its writer has pinned (`hipslake.versions.pins`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.upkeep.needed_files import NeededFiles, needed_files
from hipslake.catalog.view_tree import writes_of_pointers
from hipslake.errors import CatalogNotFoundError, VersionNotFoundError
from hipslake.specs.base import Frozen
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import is_live, stale_seconds
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import Vacuuming
from hipslake.versions.orphans import old_temporary_files, sweep_orphans
from hipslake.versions.pins import pinned_versions, pinning_writes

log = logging.getLogger(__name__)


class Removed(Frozen):
    """The files deleted from one write folder, or one file that a killed process had left elsewhere."""

    path: str  # relative to the catalog's root
    whole: bool  # all of it is gone; else files stay that a version names
    files: int
    bytes: int


class Size(NamedTuple):
    """Files, and bytes in them."""

    files: int
    bytes: int


class VacuumOutcome(Frozen):
    """The result of a vacuum; of a dry run, what a vacuum would do."""

    dry_run: bool
    kept: tuple[int, ...]  # numbers of the versions that can be opened
    vacuumed: tuple[int, ...]  # and of those that went
    removed: tuple[Removed, ...] = ()
    postponed: str = ""  # why files of vacuumed versions are left for the next time; "": none are

    @property
    def files(self) -> int:
        """How many files were deleted."""
        return sum(each.files for each in self.removed)

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(each.bytes for each in self.removed)


def vacuum_catalog(
    storage: Storage, retention: Retention, *, now: datetime, dry_run: bool = True
) -> VacuumOutcome:
    """Vacuum a catalog.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    retention : Retention
        The newest version always stays, and so do those that are pinned, and the one whose tree
        collection.properties names.
    now : datetime
        The time to which ages are counted.
    dry_run : bool
        Only say what would be done, as things stand.

    Raises
    ------
    CatalogNotFoundError
        Nothing was ever committed here.
    CatalogFormatError
        A version, a sidecar or a pin cannot be read, so it is not known what it needs; nothing is deleted.
    """
    return vacuum(storage, retention, CatalogVersions(), now=now, dry_run=dry_run)


class VersionContent(Protocol):
    """The access of a vacuum to the metadata of catalogs, cubes, or others that keep a log."""

    def version(self, data: bytes, where: str) -> Any:
        """The metadata, with `write_id` and `created`."""

    def needed(self, storage: Storage, metadata: Iterator[Any], folders: Collection[str]) -> NeededFiles:
        """The files in some write folders that some versions name."""


class CatalogVersions:
    """The versions of a catalog."""

    def version(self, data: bytes, where: str) -> CatalogMetadata:
        return CatalogMetadata.from_json(data, where=where)

    def needed(self, storage: Storage, metadata: Iterator[Any], folders: Collection[str]) -> NeededFiles:
        return needed_files(storage, metadata, folders)


def vacuum(
    storage: Storage, retention: Retention, content: VersionContent, *, now: datetime, dry_run: bool
) -> VacuumOutcome:
    """Vacuum a catalog, or whatever else keeps a log of versions; parameters as for `vacuum_catalog`."""
    versions = VersionLog(storage)
    standing = _standing(storage, content)
    removed = _sweep(storage, dry_run=dry_run)
    # A real run has swept the pins of dead writes by now.
    dead = [each for each in pinning_writes(storage) if not is_live(storage, each)] if dry_run else []
    pinned = pinned_versions(storage, without=dead)
    shown = writes_of_pointers(storage)
    expired = [
        each
        for each in _expired(standing, retention, now)
        if each.number not in pinned and each.write_id not in shown
    ]
    if not dry_run:
        for each in expired:
            versions.entomb(each.number, Vacuuming(now, retention.keep_versions, retention.keep_days))
    gone = versions.vacuumed() | {each.number: each.write_id for each in expired}
    if not dry_run:
        versions.note_vacuumed(gone)
    postponed = ""
    try:
        if held := pinned_versions(storage, without=dead) & gone.keys():
            numbers = ", ".join(map(str, sorted(held)))
            raise _PostponedError(f"a run that began before version {numbers} was vacuumed may need them")
        swept = {each.path for each in removed}
        removed += _clear(storage, content, gone, swept, dry_run=dry_run)
    except _PostponedError as why:
        log.warning("Files of vacuumed versions are left for the next vacuum: %s.", why)
        postponed = str(why)
    return VacuumOutcome(
        dry_run=dry_run,
        kept=tuple(each.number for each in standing if each not in expired),
        vacuumed=tuple(each.number for each in expired),
        removed=tuple(removed),
        postponed=postponed,
    )


class _PostponedError(Exception):
    """The files of vacuumed versions have to be left for the next time."""


def _clear(
    storage: Storage, content: VersionContent, gone: Mapping[int, str], swept: set[str], *, dry_run: bool
) -> list[Removed]:
    """Delete the files of vacuumed versions' writes that no other version names.

    The other versions are read after the tombstones were written and the pins were checked. A run that has
    removed its pin since then has committed, so a version that is read here names the files that it needs.

    Parameters
    ----------
    gone : mapping of int to str
        The vacuumed versions, each with its write.
    swept : set of str
        Folders that the sweep has deleted, or, in a dry run, would delete.
    """
    versions = VersionLog(storage)
    try:
        numbers = set(range(1, (versions.newest() or 0) + 1)) - gone.keys()
        living = [_version(storage, content, number) for number in sorted(numbers)]
        stays = {each.write_id for each in living} | writes_of_pointers(storage)
        writes = set(gone.values()) - stays - swept
        folders = [entry.path for entry in storage.list() if entry.is_dir and entry.path in writes]
        metadata = (_metadata(storage, content, each.number) for each in living)
        needed = content.needed(storage, metadata if folders else iter(()), folders)
    except (VersionNotFoundError, FileNotFoundError):
        if versions.vacuumed().keys() - gone.keys():  # and for these, nobody has looked at pins
            raise _PostponedError("another vacuum is at work") from None
        raise
    found = [delete_unneeded(storage, folder, needed, dry_run=dry_run) for folder in folders]
    if storage.is_local:  # elsewhere an object is put in one piece, so nothing is ever unfinished
        found += [delete_unfinished(storage, at, stale_seconds(), dry_run=dry_run) for at in sorted(stays)]
    return [each for each in found if each is not None]


class _Version(NamedTuple):
    number: int
    write_id: str
    created: datetime


def _standing(storage: Storage, content: VersionContent) -> list[_Version]:
    """The versions that can be opened, ascending."""
    found = []
    for number in VersionLog(storage).numbers():
        with suppress(VersionNotFoundError):  # vacuumed since it was listed
            found.append(_version(storage, content, number))
    if not found:
        raise CatalogNotFoundError(f"{storage.uri()}: no version is published here; check the path")
    return found


def _version(storage: Storage, content: VersionContent, number: int) -> _Version:
    metadata = _metadata(storage, content, number)
    return _Version(number, metadata.write_id, metadata.created)


def _metadata(storage: Storage, content: VersionContent, number: int) -> Any:
    return content.version(VersionLog(storage).read(number), f"{storage.uri()}, version {number}")


def _expired(standing: Sequence[_Version], retention: Retention, now: datetime) -> list[_Version]:
    """The versions that the retention does not keep, ascending."""
    keep = timedelta(days=retention.keep_days)
    followed = list(pairwise(standing))[: -retention.keep_versions + 1 or None]
    return [version for version, next_one in followed if now - next_one.created >= keep]


def _sweep(storage: Storage, *, dry_run: bool) -> list[Removed]:
    """Remove what dead runs have left."""
    found = sweep_orphans(storage, dry_run=True)
    sizes = {path: size_of(storage, path) for path in found}
    if not dry_run:
        found = sweep_orphans(storage)
    return [Removed(path=path, whole=True, **sizes.get(path, Size(0, 0))._asdict()) for path in found]


def size_of(storage: Storage, path: str) -> Size:
    """The size of a file, or of all files below a folder; nothing there is no file."""
    entries = [*storage.list(path), *storage.unfinished(path)]
    if entries:
        sizes = [size_of(storage, e.path) if e.is_dir else Size(1, e.size) for e in entries]
        return Size(sum(size.files for size in sizes), sum(size.bytes for size in sizes))
    with suppress(FileNotFoundError):
        entry = storage.entry(path)
        return Size(0 if entry.is_dir else 1, entry.size)
    return Size(0, 0)


def delete_unneeded(storage: Storage, folder: str, needed: NeededFiles, *, dry_run: bool) -> Removed | None:
    """Delete all files of a folder but those that are needed, and the folders that then are empty.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    folder : str
        Of a write to which nobody adds files.
    needed : NeededFiles
    dry_run : bool
        Only count.

    Returns
    -------
    Removed or None
        None if all of it is needed.
    """
    files = size = 0
    found = False
    for path, is_dir, each in _unneeded(storage, folder, needed):
        found = True
        files += each.files
        size += each.bytes
        if dry_run:
            continue
        if is_dir:
            storage.delete_tree(path)
        else:
            storage.delete(path)
    return Removed(path=folder, whole=not needed.below(folder), files=files, bytes=size) if found else None


def delete_unfinished(storage: Storage, folder: str, older_than: float, *, dry_run: bool) -> Removed | None:
    """Delete what killed processes have left unfinished in a folder that stays.

    Parameters
    ----------
    storage, folder
        As for `delete_unneeded`.
    older_than : float
        Seconds for which nobody has written to a file.
    dry_run : bool
        Only count.

    Returns
    -------
    Removed or None
        None if there is no such file.
    """
    old = old_temporary_files(storage, folder, older_than, recursive=True)
    size = sum(size_of(storage, path).bytes for path in old)
    if not dry_run:
        for path in old:
            storage.delete(path)
    return Removed(path=folder, whole=False, files=len(old), bytes=size) if old else None


def _unneeded(storage: Storage, folder: str, needed: NeededFiles) -> Iterator[tuple[str, bool, Size]]:
    """What may be deleted of a folder, as few paths as possible: path, whether it is a folder, and size."""
    if not needed.below(folder):
        yield folder, True, size_of(storage, folder)
        return
    for entry in [*storage.list(folder), *storage.unfinished(folder)]:
        if entry.is_dir:
            yield from _unneeded(storage, entry.path, needed)
        elif not needed.names(entry.path):
            yield entry.path, False, Size(1, entry.size)
