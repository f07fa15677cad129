"""Rollback: a new commit that brings the content of an older version back.

Nothing is undone and nothing is copied: the new version names the files of the old one.
"""

from __future__ import annotations

import logging

from hipslake.catalog.committing import commit_next, committed_before
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import SpecError
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import pin_path
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)


def roll_back(storage: Storage, number: int, *, write_id: str | None = None) -> CatalogMetadata:
    """Commit the content of a version once more, as the newest.

    Run again with the same write id, it finds the version that it has committed. What others commit in
    between is rolled back too.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    number : int
        The version to bring back.
    write_id : str, optional
        The write to commit as; a new one if not given.

    Returns
    -------
    CatalogMetadata
        Of the new version.

    Raises
    ------
    CatalogNotFoundError
        Nothing was ever committed here.
    VersionNotFoundError
        There is no such version, or it was vacuumed.
    SpecError
        It is the newest version.
    ConflictError
        Others kept committing first.
    """
    versions = VersionLog(storage)
    seen = versions.newest() or 0
    if write_id is not None and (committed := committed_before(storage, [write_id])):
        # An attempt was killed after its commit; its heart beats no more, and it needs no version any more.
        storage.delete(pin_path(write_id))
        storage.delete(storage.join(write_id, HEARTBEAT))
        return committed
    _check(versions, number)
    with writing(storage, write_id) as write:
        old = CatalogMetadata.from_json(write.pin.hold(number), where=f"{storage.uri()}, version {number}")

        def restored() -> CatalogMetadata:
            """The old version, as it comes after what is the newest by now."""
            newest = versions.newest() or 0
            return old.followed_by(write.id, version=newest + 1, parent=newest, restored=old.version)

        metadata = commit_next(storage, write.heartbeat, restored, seen=seen)
    log.info("Version %d of %s is version %d again.", metadata.version, storage.uri(), number)
    return metadata


def _check(versions: VersionLog, number: int) -> None:
    """Refuse what cannot be rolled back to, before anything is written."""
    newest = versions.newest()
    if newest is None:
        versions.read()  # says that there is no catalog
    versions.read(number)
    if number == newest:
        raise SpecError(f"version {number} is the newest one; give an older version to roll back to")
