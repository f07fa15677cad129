"""Orphans: files that dead runs have left in a catalog and that no version names."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads, together
from hipslake.versions.heartbeat import HEARTBEAT, MARKS, StoreClock, is_live, pulse, stale_seconds
from hipslake.versions.intents import INTENTS, delete_settled, fence, may_commit
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import CURRENT, POINTER, TOMBSTONES, VERSIONS
from hipslake.versions.ordinals import ORDINALS
from hipslake.versions.pins import PINS, pin_path, pinned_versions, pinning_writes
from hipslake.versions.write_id import is_write_id, write_ids_in, write_time

_OWN_FOLDERS = (
    "",
    VERSIONS,
    TOMBSTONES.rpartition("/")[0],
    ORDINALS,
    PINS,
    MARKS,
    INTENTS,
)  # all that are no writes; processes die in these too


class Leftovers(NamedTuple):
    """What lies in a catalog that dead runs may have left.

    Attributes
    ----------
    pulses : dict of str to bool or None
        Per write with a folder or a pin, what `pulse` says of it.
    pins : frozenset of str
        The writes that have a pin.
    temporary : list of str
        Old temporary files.
    """

    pulses: dict[str, bool | None]
    pins: frozenset[str]
    temporary: list[str]


def leftovers(
    catalog: Storage,
    live_after: float | None = None,
    clock: StoreClock | None = None,
    *,
    dry_run: bool = False,
) -> Leftovers:
    """Look for what dead runs may have left; of intents, those that are settled are deleted.

    Parameters
    ----------
    catalog, live_after, dry_run
        As for `sweep_orphans`.
    clock
        Of the store; a new one if not given.
    """
    limit = stale_seconds() if live_after is None else live_after
    clock = clock or StoreClock(catalog)
    pins, entries, _, temporary = together(
        catalog,
        partial(pinning_writes, catalog),
        catalog.list,
        (lambda: None) if dry_run else partial(delete_settled, catalog),
        partial(_temporary_files, catalog, limit, clock),
    )
    written = {entry.path for entry in entries if entry.is_dir and is_write_id(entry.path)}
    folders = sorted(written.union(pins))
    beats = in_threads(catalog, lambda folder: pulse(catalog, folder, limit, clock), folders)
    return Leftovers(dict(zip(folders, beats, strict=True)), frozenset(pins), temporary)


def sweep_orphans(
    catalog: Storage,
    live_after: float | None = None,
    *,
    keep: Collection[str] = (),
    named: Callable[[bytes], Iterable[str]] = write_ids_in,
    newest: bytes | None = None,
    seen: Leftovers | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Delete the folders of dead writes that no version names, and other files of killed processes.

    These are pins, temporary files at the root and in the log, and the last heartbeats of published writes.
    The writes of vacuumed versions are kept while a pin names such a version. A dead write whose commit may
    still be on its way is kept until a version has the number of its intent.

    Parameters
    ----------
    catalog
        At the root of the catalog.
    live_after
        Seconds of silence after which a writer counts as dead; None is `HIPSLAKE_STALE_SECONDS`, default 300.
    keep
        Write ids that are kept whatever their heartbeat says, such as that of the run that sweeps.
    named
        Gives the write ids that a version needs, from the bytes of its metadata file; those in its text are
        always kept. Needed where only a sidecar of the version names a write.
    newest
        The metadata of the newest version, where it was just read.
    seen
        What was just found; looked for if not given.
    dry_run
        Delete nothing, and return what would be deleted now.

    Returns
    -------
    list of str
        What was removed, relative to the root, sorted.
    """
    limit = stale_seconds() if live_after is None else live_after
    clock = StoreClock(catalog)
    pulses, pinning, temporary = seen or leftovers(catalog, live_after, clock, dry_run=dry_run)
    silent = [
        folder
        for folder in sorted(pulses.keys() - set(keep))
        if _is_dead(catalog, folder, pulses[folder], limit, clock)
        and not (folder in pinning and _is_beginning(catalog, folder, pulses[folder], limit, clock))
    ]
    needed = _needed(catalog, silent, named, newest)
    dead = [folder for folder in silent if folder not in needed]
    if dry_run:
        fenced = set(dead) - may_commit(catalog)
        return sorted([*(fenced - _pinned(catalog, fenced)), *temporary])
    # Only what is read after the fence counts: see `hipslake.versions.intents`.
    gone = fence(catalog, dead)
    if gone:
        # Pins go first: who has removed its pin by now has committed, so a version names what it needs.
        gone -= _pinned(catalog, gone)
        gone -= _needed(catalog, gone, named)
    for folder in gone:
        catalog.delete(pin_path(folder))
        catalog.delete_tree(folder)
    # Committed, but their writers were killed before they could say so; unless they have woken up since.
    left = (folder for folder in needed if folder in pinning or pulses[folder] is not None)
    ended = [folder for folder in left if not is_live(catalog, folder, limit)]
    for folder in set(ended) - (may_commit(catalog) if ended else set()):
        catalog.delete(pin_path(folder))
        catalog.delete(catalog.join(folder, HEARTBEAT))
    for path in temporary:
        catalog.delete(path)
    return sorted([*gone, *temporary])


def is_dead(storage: Storage, folder: str, limit: float, clock: StoreClock) -> bool:
    """Whether no run uses the folder of a write, or is about to use it; parameters as of `pulse`."""
    return _is_dead(storage, folder, pulse(storage, folder, limit, clock), limit, clock)


def _is_dead(storage: Storage, folder: str, beats: bool | None, limit: float, clock: StoreClock) -> bool:
    """As `is_dead`, by the result of `pulse`; a new folder that is empty waits for its first heartbeat."""
    if beats is not None:
        return not beats
    if not storage.is_local:  # an object store has no empty folders
        return True
    if storage.list(folder):
        return not is_live(storage, folder, limit)  # there may be a heartbeat meanwhile
    try:
        age = clock.age(folder)
    except FileNotFoundError:
        return True
    return age is None or age >= limit


def _is_beginning(catalog: Storage, folder: str, beats: bool | None, limit: float, clock: StoreClock) -> bool:
    """Whether a write in a store, which puts up a pin beside its first heartbeat, was drawn only now.

    Its id tells when that was, by the clock of its host: it only says whom to leave in peace.
    """
    if beats is not None or catalog.is_local:  # where the heartbeat comes first
        return False
    now = time.time() if clock.now is None else clock.now
    return abs(now - write_time(folder).timestamp()) < limit


def delete_temporary_files(
    storage: Storage,
    folder: str,
    older_than: float,
    clock: StoreClock | None = None,
    *,
    recursive: bool = False,
) -> list[str]:
    """Delete the temporary files of killed processes; `older_than` in seconds. Returns their paths."""
    removed = old_temporary_files(storage, folder, older_than, clock, recursive=recursive)
    for path in removed:
        storage.delete(path)
    return removed


def old_temporary_files(
    storage: Storage,
    folder: str,
    older_than: float,
    clock: StoreClock | None = None,
    *,
    recursive: bool = False,
) -> list[str]:
    """The temporary files in a folder that are older than some seconds by the store's clock.

    An object of a store appears whole: there is none but, in the log, what a `StoreClock` was killed over.
    """
    if not storage.is_local and folder != VERSIONS:
        return []
    clock = clock or StoreClock(storage)
    found = [entry.path for entry in storage.unfinished(folder, recursive=recursive)]
    return [path for path in found if path.endswith(".tmp") and _is_older(path, older_than, clock)]


def _temporary_files(catalog: Storage, older_than: float, clock: StoreClock) -> list[str]:
    """The old temporary files at the root of a catalog and in its log."""
    asks = [partial(old_temporary_files, catalog, folder, older_than, clock) for folder in _OWN_FOLDERS]
    return [path for found in together(catalog, *asks) for path in found]


def _is_older(path: str, seconds: float, clock: StoreClock) -> bool:
    if seconds <= 0:  # of a folder in which nobody else is at work
        return True
    try:
        age = clock.age(path)
    except FileNotFoundError:  # finished since it was listed
        return False
    return age is not None and age >= seconds


def _pinned(catalog: Storage, dead: Collection[str]) -> set[str]:
    """The writes of all vacuumed versions, if a pin names one of them: which files it needs is not known."""
    pinned = pinned_versions(catalog, without=dead)
    vacuumed = VersionLog(catalog).vacuumed() if pinned else {}
    return set(vacuumed.values()) if pinned & vacuumed.keys() else set()


def _needed(
    catalog: Storage,
    folders: Collection[str],
    named: Callable[[bytes], Iterable[str]],
    known: bytes | None = None,
) -> set[str]:
    """The folders among some that any version names; newest version first, as it names most of them."""
    unnamed = set(folders)
    texts = chain([] if known is None else [known], _texts(catalog))
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
