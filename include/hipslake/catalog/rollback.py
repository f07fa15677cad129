"""Rollback: a new commit that brings the content of an older version back.

Nothing is undone and nothing is copied: the new version names the files of the old one.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import ConflictError, SpecError
from hipslake.storage import Storage
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pin_path

log = logging.getLogger(__name__)

_ATTEMPTS = 20  # at a version number, while others commit too


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
    committed = None if write_id is None else versions.find(write_id)
    if write_id is not None and committed is not None:
        # An attempt was killed after its commit; its heart beats no more, and it needs no version any more.
        storage.delete(pin_path(write_id))
        storage.delete(storage.join(write_id, HEARTBEAT))
        return CatalogMetadata.from_json(versions.read(committed))
    _check(versions, number)
    write_id = write_id or claim_write(storage, datetime.now(UTC))
    with Heartbeat(storage, write_id, rest=False) as heartbeat, Pin(storage, write_id) as pin:
        old = CatalogMetadata.from_json(pin.hold(number), where=f"{storage.uri()}, version {number}")
        for _ in range(_ATTEMPTS):
            newest = versions.newest() or 0
            metadata = old.model_copy(
                update={
                    "version": newest + 1,
                    "parent": newest,
                    "restored": number,
                    "write_id": write_id,
                    "created": datetime.now(UTC).replace(microsecond=0),
                }
            )
            heartbeat.confirm()
            if versions.commit(newest + 1, metadata.to_json(), write_id) == "committed":
                log.info("Version %d of %s is version %d again.", newest + 1, storage.uri(), number)
                return metadata
            log.info("Version %d was committed by another run; trying the next.", newest + 1)
    raise ConflictError(f"{storage.uri()}: other runs committed first {_ATTEMPTS} times; try again later")


def _check(versions: VersionLog, number: int) -> None:
    """Refuse what cannot be rolled back to, before anything is written."""
    newest = versions.newest()
    if newest is None:
        versions.read()  # says that there is no catalog
    versions.read(number)
    if number == newest:
        raise SpecError(f"version {number} is the newest one; give an older version to roll back to")
