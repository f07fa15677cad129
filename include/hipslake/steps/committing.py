"""Committing a change of the newest version: again and again on whatever is the newest, until it stands."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import CatalogNotFoundError, ConflictError, VersionNotFoundError
from hipslake.storage import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.2, 20.0  # seconds


def newest_version(catalog: Storage) -> CatalogMetadata | None:
    """Return the newest version of a catalog; None if nothing is published."""
    versions = VersionLog(catalog)
    newest = versions.newest()
    if newest is None:
        return None
    return CatalogMetadata.from_json(versions.read(newest), where=f"{catalog.uri()}, version {newest}")


def pinned_newest(catalog: Storage, pin: Pin) -> CatalogMetadata | None:
    """Return the newest version, whose files stay as long as the pin; None if nothing is published."""
    try:
        data = pin.hold_newest()
    except CatalogNotFoundError:
        return None
    return CatalogMetadata.from_json(data, where=f"{catalog.uri()}, newest version")


def commit_change(
    catalog: Storage,
    heartbeat: Heartbeat,
    draft: Callable[[CatalogMetadata | None], CatalogMetadata],
) -> CatalogMetadata | None:
    """Commit a change on top of the newest version, whatever that is by now.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    heartbeat : Heartbeat
        Of the write that the change was made in.
    draft : callable
        From the newest version (None if there is none) to the one that comes after it; `ConflictError` where
        the change does not fit to it.

    Returns
    -------
    CatalogMetadata or None
        The version that is committed; None if the change does not fit to the newest one.

    Raises
    ------
    CommitStateUnknownError
        If the store does not say whether the commit stands.
    """
    versions = VersionLog(catalog)
    while True:
        try:
            metadata = draft(newest_version(catalog))
        except ConflictError as conflict:
            log.info("Others have committed first: %s.", conflict)
            return None
        heartbeat.confirm()
        if versions.commit(metadata.version, metadata.to_json(), metadata.write_id) == "committed":
            return metadata
        log.info("Version %d was committed by another run; trying the next.", metadata.version)


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


def wait_for_others(tries: int) -> None:
    """Let others finish, the longer the more often they were first; not everybody for the same time."""
    time.sleep(min(_FIRST_WAIT * 2 ** (tries - 1), _LONGEST_WAIT) * random.uniform(0.5, 1.5))
