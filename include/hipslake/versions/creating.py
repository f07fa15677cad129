"""The commit of a version: one file is created if absent, by a writer whose files nobody has given up."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from hipslake.errors import (
    CommitStateUnknownError,
    HipslakeError,
    NoSpaceError,
    NotWritableError,
    StorageError,
)
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import refuse_swept
from hipslake.versions.intents import announce
from hipslake.versions.log_files import head, version_path

Outcome = Literal["committed", "conflict"]


def create_version(storage: Storage, number: int, data: bytes, write_id: str) -> Outcome:
    """Create a version's file, whole or not at all; parameters and errors as of `VersionLog.commit`.

    See `hipslake.versions.intents` for the signs that keep a sweeper from the files meanwhile.
    """
    intent = announce(storage, write_id, number)
    try:
        refuse_swept(storage, write_id)
    except StorageError:
        _withdraw(storage, intent)
        raise
    try:
        outcome = _created(storage, number, data, write_id)
    except (NoSpaceError, NotWritableError):
        # Of a store's client, an earlier try may still be under way, as after any other error.
        if storage.is_local:
            _withdraw(storage, intent)
        raise
    _withdraw(storage, intent)
    return outcome


def _created(storage: Storage, number: int, data: bytes, write_id: str) -> Outcome:
    failure: StorageError | None = None
    try:
        if storage.create(version_path(number), data):
            return "committed"
    except StorageError as error:
        failure = error
    # Either the name is taken, maybe by our own first try whose answer was lost; or the store failed.
    try:
        standing = head(storage.read(version_path(number)), storage.uri(version_path(number)))
    except FileNotFoundError:
        if failure is not None and (storage.is_local or not failure.retryable):
            raise failure from None
        raise _unknown(storage, number, failure) from failure
    except StorageError as error:
        raise _unknown(storage, number, failure or error) from error
    return "committed" if standing.get("write_id") == write_id else "conflict"


def _withdraw(storage: Storage, intent: str) -> None:
    """Take an intent back whose outcome is known; a sweep deletes what cannot be deleted now."""
    with suppress(HipslakeError, OSError):
        storage.delete(intent)


def _unknown(storage: Storage, number: int, failure: StorageError | None) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{storage.uri(version_path(number))}: the store does not say whether version {number} was "
        f"committed ({failure or 'the number is taken, but by nothing that can be read'}); run the step "
        "again, which looks before it commits"
    )
