"""Committing the next version: again and again on whatever is the newest, until it stands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from hipslake.catalog.metadata import CatalogMetadata, Owner
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    ConflictError,
    SpecError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.log import VersionLog
from hipslake.versions.log_reader import FoundVersion
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import Pin
from hipslake.versions.version_write import Write

log = logging.getLogger(__name__)

_TRIES = 100  # at a version number, while others commit too


def newest_version(
    catalog: Storage,
    pin: Pin | None = None,
    *,
    known: CatalogMetadata | None = None,
    found: FoundVersion | None = None,
) -> CatalogMetadata | None:
    """Return the newest version of a catalog; None if nothing is published.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    pin : Pin, optional
        Keeps the version's files where they are.
    known : CatalogMetadata, optional
        A version that stands, and most likely is the newest still.
    found : FoundVersion, optional
        Such a version as it was read, where it is to be pinned.
    """
    if known is not None and VersionLog(catalog).newest_from(known.version) == known.version:
        return known
    if pin is not None:
        with suppress(CatalogNotFoundError):
            text = pin.hold_newest(found)
            return CatalogMetadata.from_json(text, where=f"{catalog.uri()}, the newest version")
        return None
    found = VersionLog(catalog).read_newest()
    return None if found is None else described_version(catalog, *found)


def described_version(catalog: Storage, number: int, text: bytes) -> CatalogMetadata:
    """Return what the metadata file of a version says.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    number : int
        Of the version.
    text : bytes
        The file.
    """
    return CatalogMetadata.from_json(text, where=f"{catalog.uri()}, version {number}")


Before = Callable[[], CatalogMetadata | None]
"""Gives the version that the last draft was made to come after; None if it is the first one."""


def commit_next(
    catalog: Storage,
    heartbeat: Heartbeat,
    draft: Callable[[], CatalogMetadata],
    *,
    seen: int | None = None,
    before: Before = lambda: None,
) -> CatalogMetadata:
    """Commit a version on top of the newest one, whatever that is by now.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    heartbeat : Heartbeat
        Of the write that the version names.
    draft : callable
        Gives the version that is to come after the newest one; asked anew whenever others were first. It
        raises `ConflictError` where what was written does not fit to the newest one.
    seen : int, optional
        Given where other attempts may be at the same write: a version up to which that has committed none.
        What another attempt commits meanwhile is the outcome, so no write ever commits two versions.
    before : callable, optional
        Gives the version that the draft was made to come after, which was read some time ago: it is checked
        that the version of this number is the same still, as a catalog may be deleted and made anew.

    Returns
    -------
    CatalogMetadata
        The version that is committed; the newest one, if it was vacuumed since.

    Raises
    ------
    SpecError
        If the catalog is of another spec than the draft.
    ConflictError
        If the draft says so, others kept committing first, or the version before is not the one given.
    CommitStateUnknownError
        If the store does not say whether the commit stands.
    """
    versions = VersionLog(catalog)
    for _ in range(_TRIES):
        metadata = draft()
        if seen is not None:
            if versions.find(metadata.write_id, after=seen) and (
                found := committed_before(catalog, [metadata.write_id])
            ):
                return found
            seen = metadata.version - 1
        checks: list[Callable[[], object]] = [partial(versions.check_follows, metadata.version)]
        # A rollback brings a version back as it was, also one of before another spec took the name.
        owner = metadata.owner if metadata.restored is None else None
        if (base := before()) is not None:
            checks = [partial(_check_before, catalog, metadata.version, base, owner)]
        elif owner is not None:
            checks.append(partial(check_owner, catalog, owner, newest=metadata.version - 1))
        outcome = versions.commit(
            metadata.version,
            metadata.to_json(),
            metadata.write_id,
            confirm=partial(heartbeat.confirm, *checks),
            withdraw=heartbeat.delete_at_end,
        )
        if outcome == "committed":
            return metadata
        heartbeat.confirmed = False  # that commit does not stand, and never will
        log.info("Version %d was committed by another run; trying the next.", metadata.version)
    raise ConflictError(f"{catalog.uri()}: other runs committed first {_TRIES} times; try again later")


def _check_before(catalog: Storage, number: int, base: CatalogMetadata, owner: Owner | None) -> None:
    text = VersionLog(catalog).check_follows_write(number, base.write_id)
    if owner is not None:
        check_owner(catalog, owner, newest=number - 1, text=text)


def commit_where_it_fits(
    catalog: Storage,
    write: Write,
    draft: Callable[[], CatalogMetadata],
    before: Before = lambda: None,
) -> CatalogMetadata | None:
    """Commit what a write has made; None if others were first, and it does not fit to what they committed.

    Parameters
    ----------
    catalog, draft, before
        As for `commit_next`.
    write : Write
        With all its files; what task attempts that were killed have left of theirs is deleted.
    """
    delete_temporary_files(catalog, write.id, 0, recursive=True)
    try:
        return commit_next(catalog, write.heartbeat, draft, before=before)
    except ConflictError as conflict:
        log.info("Others have committed first: %s", conflict)
        return None


def committed_before(catalog: Storage, write_ids: Iterable[str]) -> CatalogMetadata | None:
    """Return the version that one of several writes has committed, or, if it was vacuumed, the newest one."""
    versions = VersionLog(catalog)
    for write_id in write_ids:
        number = versions.find(write_id)
        if number is not None:
            with suppress(VersionNotFoundError):
                return CatalogMetadata.from_json(versions.read(number))
            return newest_version(catalog)
    return None


def check_owner(
    catalog: Storage, owner: Owner, *, newest: int | None = None, text: bytes | None = None
) -> None:
    """Refuse a spec that a catalog is not of.

    Of a catalog without versions, or whose every version is damaged, every spec is welcome.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    owner : Owner
        The spec that is to publish.
    newest : int, optional
        The newest version, or 0, if it is known; then a store is asked for that one alone.
    text : bytes, optional
        Its metadata, if that was just read.

    Raises
    ------
    SpecError
        The newest version that can be read is of another spec.
    """
    log = VersionLog(catalog)
    standing = _owners(log, (log.newest() or 0) if newest is None else newest, text)
    if standing and owner not in standing:
        raise SpecError(
            f"{catalog.uri()} is published by the spec {standing[0]}, and {owner} would replace its rows by "
            "others; give that one another name, or move the catalog away first"
        )


def _owners(log: VersionLog, newest: int, known: bytes | None) -> tuple[Owner, ...]:
    if not newest:
        return ()
    with suppress(CatalogFormatError, VersionNotFoundError):
        return CatalogMetadata.from_json(log.read(newest) if known is None else known).owners
    for text in log.texts():  # the newest is damaged; the next version replaces it
        with suppress(CatalogFormatError):
            return CatalogMetadata.from_json(text).owners
    return ()
