"""What a catalog has published, as far as a run needs to know before it adds to it."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.errors import VersionNotFoundError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.storage.folder import Storage
from hipslake.versions.intents import may_commit
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import head
from hipslake.versions.pins import keep_for_reading


def version_made_of(catalog: Storage, run: FrozenRun, fingerprint: str) -> int | None:
    """Return the newest version if it holds exactly what a run would make, else None.

    That is the whole version for a run that replaces it, and the run's increment for one that appends: with
    the end of its interval, where the run knows that. The former reads no more than the fingerprint: so it
    can replace a version that is damaged.
    """
    found = VersionLog(catalog).read_newest()
    return None if found is None else number_if_made_of(*found, catalog, run, fingerprint)


def number_if_made_of(
    newest: int, data: bytes, catalog: Storage, run: FrozenRun, fingerprint: str
) -> int | None:
    """Return the number of the newest version as `version_made_of` does; `data` is its metadata."""
    where = f"{catalog.uri()}, version {newest}"
    if run.spec.mode.by_intervals:
        increment = CatalogMetadata.from_json(data, where=where).increment(run.start.isoformat(), catalog)
        if increment is None or not _ends_at(increment, run.window.end):
            return None
        return newest if increment.fingerprint == fingerprint else None
    return newest if head(data, where).get("fingerprint") == fingerprint else None


def is_newest_made_of(catalog: Storage, fingerprint: str) -> bool:
    """Return whether the newest version is the whole that a fingerprint stands for; no more of it is read."""
    log = VersionLog(catalog)
    newest = log.newest()
    if newest is None:
        return False
    where = f"{catalog.uri()}, version {newest}"
    return bool(head(log.read(newest), where).get("fingerprint") == fingerprint)


def version_gone_on_from(held: ExitStack, catalog: Storage, version: int | None) -> CatalogMetadata | None:
    """Return the version whose leaf files a run names again; None if it names none, or the version is gone.

    As long as `held` is open, it is kept from vacuums. Publishing does that too.
    """
    if version is None:
        return None
    try:
        keep_for_reading(held, catalog, version)
        return CatalogMetadata.from_json(VersionLog(catalog).read(version))
    except VersionNotFoundError:
        return None


def _ends_at(increment: Increment, end: datetime | None) -> bool:
    """Whether a version says of an increment what a run would; a run that knows no end says nothing new."""
    if end is None:
        return True
    return increment.end is not None and datetime.fromisoformat(increment.end) == end


def names_write(catalog: Storage, write_id: str) -> bool:
    """Return whether any version names the write's folder, or may come to: no file is written there then."""
    log = VersionLog(catalog)
    # Commits that are under way are asked for first: each of them stands or has failed when the log is read.
    return (
        write_id in may_commit(catalog)
        or log.find(write_id) is not None
        or any(write_id.encode() in text for text in log.texts())
    )
