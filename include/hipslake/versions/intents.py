"""Intents: files by which a writer announces the number that it commits, so that sweeps keep its files.

Between a writer's last check and the moment when its commit takes effect any time may pass: the process may
be stopped, a request may be on its way. So writer and sweeper each write their own file before they look for
the other's. The writer creates an intent, `_versions/intents/<write id>.<number>.<random>.json`, then checks
for the mark of a sweeper, then creates `_versions/<number>.json`. The sweeper creates the mark, then lists
the intents. If the writer did not see the mark, the sweeper sees the intent. An intent is *open* until a
version has its number: then that commit has succeeded or failed, as numbers are never used again. A write
that is marked and has no open intent can commit nothing any more, whatever requests are still on their way.

This depends on no clock. Marks are never deleted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple

from hipslake.errors import (
    CommitStateUnknownError,
    HipslakeError,
    NoSpaceError,
    NotWritableError,
    StorageError,
)
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads
from hipslake.versions.heartbeat import mark, refuse_swept
from hipslake.versions.log_files import VERSIONS, head, version_path

INTENTS = f"{VERSIONS}/intents"
"""The folder of the intents."""
Outcome = Literal["committed", "conflict"]

_NAME = re.compile(rf"{INTENTS}/([0-9A-Za-z-]+)\.(\d{{8,10}})\.[0-9a-f]{{8}}\.json")


class CommitFiles(NamedTuple):
    """The files whose creation is a commit, each of one number.

    Attributes
    ----------
    storage : Storage
        At their root.
    path : callable
        Takes a number to the path of its file.
    write_of : callable
        Takes the bytes of a file, and what to call it, to the id of the write that made it.
    is_taken : callable
        Whether a number can be committed no more: it, or a later one, is.
    """

    storage: Storage
    path: Callable[[int], str]
    write_of: Callable[[bytes, str], str | None]
    is_taken: Callable[[int], bool]

    @classmethod
    def of_catalog(cls, storage: Storage) -> CommitFiles:
        """The versions of a catalog, whose intents lie below the same root."""
        return cls(
            storage,
            version_path,
            lambda data, where: head(data, where).get("write_id"),
            lambda number: storage.is_file(version_path(number)),
        )


class _Intent(NamedTuple):
    write_id: str
    number: int
    path: str


def announce(storage: Storage, write_id: str, number: int) -> str:
    """Create the intent to commit a version; to be called before the last check for a mark.

    Parameters
    ----------
    storage
        At the root of the catalog.
    write_id
        The write that the version is of.
    number
        Of the version.

    Returns
    -------
    str
        The path of the intent: to be deleted once the outcome of the commit is known, and not before.
    """
    path = _path_of(write_id, number)
    _write(storage, path)
    return path


def _path_of(write_id: str, number: int) -> str:
    return f"{INTENTS}/{write_id}.{number:08d}.{secrets.token_hex(4)}.json"


def _write(storage: Storage, path: str) -> None:
    storage.write(path, b"{}", durable=False)  # a power cut ends the request too


def may_commit(storage: Storage, files: CommitFiles | None = None) -> set[str]:
    """The ids of the writes that have an open intent: a commit of theirs may be on its way."""
    is_taken = (files or CommitFiles.of_catalog(storage)).is_taken
    return {intent.write_id for intent in _intents(storage) if not is_taken(intent.number)}


def fence(storage: Storage, writes: Collection[str], files: CommitFiles | None = None) -> set[str]:
    """Mark writes, which forbids them to commit; return those that certainly cannot commit any more.

    Read the versions after this call: what a write committed before it is valid, and needs its files. Writes
    that are not returned must be kept until a version has the number of their intent.

    Parameters
    ----------
    storage
        At the root of the catalog.
    writes
        Write ids.
    files
        Of the commits; by default the versions of a catalog.
    """
    if not writes:
        return set()
    list(in_threads(storage, lambda write_id: mark(storage, write_id), sorted(writes)))
    return set(writes) - may_commit(storage, files)


def delete_settled(storage: Storage, files: CommitFiles | None = None) -> None:
    """Delete the intents that are not open any more, which killed writers have left."""
    is_taken = (files or CommitFiles.of_catalog(storage)).is_taken
    for intent in _intents(storage):
        if is_taken(intent.number):
            storage.delete(intent.path)


def _intents(storage: Storage) -> list[_Intent]:
    found = ((_NAME.fullmatch(entry.path), entry.path) for entry in storage.list(INTENTS))
    return [_Intent(match[1], int(match[2]), path) for match, path in found if match]


def create_version(
    storage: Storage,
    number: int,
    data: bytes,
    write_id: str,
    files: CommitFiles | None = None,
    *,
    confirm: Callable[[Callable[[], object]], None] | None = None,
    withdraw: Callable[[str], None] | None = None,
) -> Outcome:
    """Create a version's file, whole or not at all; parameters and errors as of `VersionLog.commit`.

    `hipslake.versions.intents` tells how sweepers are kept from the files meanwhile. `files` are those of the
    commits, by default the versions of the catalog at the storage, where intents and marks lie.
    """
    files = files or CommitFiles.of_catalog(storage)
    intent = _path_of(write_id, number)
    say = partial(_write, storage, intent)
    try:
        # What is confirmed need not come before the intent, which says what may follow, and does nothing.
        say() if confirm is None else confirm(say)
        refuse_swept(storage, write_id)  # not before the intent stands
    except Exception:
        _withdraw(storage, intent)
        raise
    try:
        outcome = _created(files, number, data, write_id)
    except (NoSpaceError, NotWritableError):
        # Of a store's client, an earlier try may still be under way, as after any other error.
        if files.storage.is_local:
            _withdraw(storage, intent)
        raise
    if withdraw is not None and outcome == "committed":
        withdraw(intent)
    else:
        _withdraw(storage, intent)
    return outcome


def _created(files: CommitFiles, number: int, data: bytes, write_id: str) -> Outcome:
    storage, path = files.storage, files.path(number)
    failure: StorageError | None = None
    try:
        if storage.create(path, data):
            return "committed"
    except StorageError as error:
        failure = error
    # Either the name is taken, maybe by our own first try whose answer was lost; or the store failed.
    try:
        standing = files.write_of(storage.read(path), storage.uri(path))
    except FileNotFoundError:
        if failure is not None and (storage.is_local or not failure.retryable):
            raise failure from None
        raise _unknown(storage.uri(path), number, failure) from failure
    except StorageError as error:
        raise _unknown(storage.uri(path), number, failure or error) from error
    return "committed" if standing == write_id else "conflict"


def _withdraw(storage: Storage, intent: str) -> None:
    """Delete an intent whose outcome is known; one that cannot be deleted now is left to the next sweep."""
    with suppress(HipslakeError, OSError):
        storage.delete(intent)


def _unknown(where: str, number: int, failure: StorageError | None) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"{where}: the store does not say whether version {number} was "
        f"committed ({failure or 'the number is taken, but by nothing that can be read'}); run the step "
        "again, which looks before it commits"
    )
