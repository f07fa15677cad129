"""Orphans: what runs that died have left in a catalog, and that no version names."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from hipslake.files.plain_json import plain_json
from hipslake.storage import Storage
from hipslake.versions.files import CURRENT, POINTER, VERSIONS
from hipslake.versions.heartbeat import HEARTBEAT, MARKS, is_live, mark_path, pulse, stale_seconds
from hipslake.versions.log import VersionLog
from hipslake.versions.ordinals import ORDINALS
from hipslake.versions.pins import PINS, pin_path, pinned_versions, pinning_writes
from hipslake.versions.write_id import is_write_id, write_ids_in, write_time

_MARK_SECONDS = 30 * 86400.0  # no process comes back from a longer stop
_THREADS = 16
_OWN_FOLDERS = ("", VERSIONS, ORDINALS, PINS, MARKS)  # all that are no writes; processes die in these too


def sweep_orphans(
    catalog: Storage,
    live_after: float | None = None,
    *,
    keep: Collection[str] = (),
    named: Callable[[bytes], Iterable[str]] = write_ids_in,
    dry_run: bool = False,
) -> list[str]:
    """Delete the folders of dead writes that no version names, and what else killed processes have left.

    That is their pins, temporary files at the root and in the log, and the last heartbeats of writes that are
    published. While a pin names a version that was vacuumed, what vacuumed versions have written stays.

    Parameters
    ----------
    catalog
        At the root of the catalog.
    live_after
        Seconds of silence after which a writer counts as dead; None is `HIPSLAKE_STALE_SECONDS`, default 300.
    keep
        Write ids that are not touched, whatever their heartbeat says: that of the run that sweeps.
    named
        The write ids that a metadata file (its bytes) needs. The default finds all that stand in its text; a
        version that needs a write which only one of its sidecars names must say so there.
    dry_run
        Only say what would be removed, as things stand.

    Returns
    -------
    list of str
        What was removed, relative to the root, sorted.
    """
    limit = stale_seconds() if live_after is None else live_after
    pinning = set(pinning_writes(catalog))
    written = {entry.path for entry in catalog.list() if entry.is_dir and is_write_id(entry.path)}
    folders = sorted((written | pinning) - set(keep))
    with ThreadPoolExecutor(_THREADS) as pool:
        pulses = dict(
            zip(folders, pool.map(lambda folder: pulse(catalog, folder, limit), folders), strict=True)
        )
    silent = [folder for folder in folders if _is_silent(folder, pulses[folder], limit)]
    needed = _needed(catalog, silent, named)
    dead = [folder for folder in silent if folder not in needed]
    if dry_run:
        files = [path for folder in _OWN_FOLDERS for path in old_temporary_files(catalog, folder, limit)]
        return sorted([*(set(dead) - _pinned(catalog, dead)), *files])
    for folder in dead:
        catalog.write(mark_path(folder), json.dumps({"time": time.time()}).encode())
    # Only what is read after the marks were put up counts: see `hipslake.versions.heartbeat`.
    alive = {folder for folder in dead if not _is_silent(folder, pulse(catalog, folder, limit), limit)}
    if dead:
        # Pins go first: who has removed its pin by now has committed, so a version names what it needs.
        alive |= _pinned(catalog, set(dead) - alive)
        alive |= _needed(catalog, dead, named)
    removed = []
    for folder in dead:
        if folder in alive:
            catalog.delete(mark_path(folder))
        else:
            catalog.delete(pin_path(folder))
            catalog.delete_tree(folder)
            removed.append(folder)
    for folder in needed:
        # Committed, but its writer was killed before it could say so; unless it has woken up since.
        left = folder in pinning or pulses[folder] is not None
        if left and not is_live(catalog, folder, limit):
            catalog.delete(pin_path(folder))
            catalog.delete(catalog.join(folder, HEARTBEAT))
    _forget_old_marks(catalog)
    for folder in _OWN_FOLDERS:
        removed += delete_temporary_files(catalog, folder, limit)
    return sorted(removed)


def delete_temporary_files(
    storage: Storage, folder: str, older_than: float, *, recursive: bool = False
) -> list[str]:
    """Delete the temporary files of killed processes; `older_than` in seconds. Returns their paths."""
    removed = old_temporary_files(storage, folder, older_than, recursive=recursive)
    for path in removed:
        storage.delete(path)
    return removed


def old_temporary_files(
    storage: Storage, folder: str, older_than: float, *, recursive: bool = False
) -> list[str]:
    """The temporary files in a folder that nobody has written to for some seconds."""
    return [
        entry.path
        for entry in storage.unfinished(folder, recursive=recursive)
        if entry.path.endswith(".tmp")
        and time.time() - datetime.fromisoformat(entry.stamp).timestamp() >= older_than
    ]


def _is_silent(folder: str, beats: bool | None, limit: float) -> bool:
    if beats is None:
        return time.time() - write_time(folder).timestamp() >= limit  # else its first beat may be on its way
    return not beats


def _pinned(catalog: Storage, dead: Collection[str]) -> set[str]:
    """The writes of all vacuumed versions, if a living pin names one of these: what it needs is not known."""
    pinned = pinned_versions(catalog, without=dead)
    vacuumed = VersionLog(catalog).vacuumed() if pinned else {}
    return set(vacuumed.values()) if pinned & vacuumed.keys() else set()


def _needed(catalog: Storage, folders: Collection[str], named: Callable[[bytes], Iterable[str]]) -> set[str]:
    """Those of some folders that any version names. The newest names most of them, so it is asked first."""
    unnamed = set(folders)
    texts = _texts(catalog)
    while unnamed and (text := next(texts, None)) is not None:
        unnamed -= {*named(text), *write_ids_in(text)}
    return set(folders) - unnamed


def _texts(catalog: Storage) -> Iterator[bytes]:
    for pointer in (POINTER, "collection.properties"):  # the latter may name an older tree than the newest
        try:
            text = catalog.read(pointer)
        except FileNotFoundError:
            continue
        yield text
    yield (catalog.symlink_target(CURRENT) or "").encode()
    yield from VersionLog(catalog).texts()


def _forget_old_marks(catalog: Storage) -> None:
    for entry in catalog.list(MARKS):
        try:
            age = time.time() - float(plain_json(catalog.read(entry.path))["time"])
        except (
            FileNotFoundError,
            ValueError,
            TypeError,
            KeyError,
            OverflowError,
        ):  # gone, or damaged: it stays
            continue
        if age >= _MARK_SECONDS:
            catalog.delete(entry.path)
