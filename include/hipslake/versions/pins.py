"""Pins: files by which a run protects the versions that it reads from vacuums.

`_versions/pins/<write id>.json` lists the numbers of the versions. Run and vacuum each write their own file
before they look for the other's: the run writes its pin and then reads the version; the vacuum replaces the
version by a tombstone and then reads the pins. So at least one of them sees the other: the run gets
`VersionNotFoundError`, or the vacuum leaves the files for the next vacuum.

A pin holds as long as its file exists. The sweep of dead writes removes the pins of writes whose heartbeat is
stale.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType

from hipslake.errors import (
    CatalogFormatError,
    ConflictError,
    HipslakeError,
    NotWritableError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.versions.heartbeat import Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import POINTER, version_path
from hipslake.versions.write_id import is_write_id

PINS = "_versions/pins"
"""The folder of the pins."""

_LOOKS = 100


class Pin:
    """Protects the files of versions from vacuums during a `with` block, inside the block of its heartbeat.

    The pin is removed when the block ends without an exception. After an exception or a kill it stays until
    the write counts as dead, since a commit whose answer was lost may have succeeded and need the files.

    Parameters
    ----------
    storage
        At the root of the catalog.
    write_id
        The write that needs the files; its heartbeat says whether the pin lives.
    heartbeat
        That of the write, where its block ends right after this one: the pin is removed with it.

    Examples
    --------
    >>> def rebuild(catalog: Storage, write_id: str) -> None:
    ...     with Heartbeat(catalog, write_id, rest=False), Pin(catalog, write_id) as pin:
    ...         metadata = pin.hold(3)  # whatever version 3 names can be read until the block ends
    """

    def __init__(self, storage: Storage, write_id: str, heartbeat: Heartbeat | None = None) -> None:
        self._storage = storage
        self._heartbeat = heartbeat
        self._log = VersionLog(storage)
        self._path = pin_path(write_id)
        self._held: list[int] = []

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._heartbeat is not None:
            self._heartbeat.delete_at_end(self._path)
        elif error is None:
            self._storage.delete(self._path)

    def hold(self, number: int) -> bytes:
        """Pin one more version until the block ends; return its metadata.

        Raises
        ------
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        """
        self._hold_only(number)
        try:
            return self._log.read(number)
        except VersionNotFoundError:
            self._held.remove(number)
            self._say()
            raise

    def hold_newest(self) -> bytes:
        """Pin the newest version until the block ends; return its metadata.

        Raises
        ------
        CatalogNotFoundError
            Nothing was ever committed here.
        ConflictError
            Others kept committing, and a vacuum kept taking away what was the newest.
        """
        for _ in range(_LOOKS):
            before = [*self._held]
            newest = self._log.newest(self._hold_only)
            if newest is None:
                self._log.read()  # raises, unless something is committed by now
                continue
            if newest not in self._held:  # what metadata.json names is older
                self._held = before
            with suppress(VersionNotFoundError):  # vacuumed, so there is a newer one by now
                return self.hold(newest)
        raise ConflictError(
            f"{self._storage.uri()}: versions are committed and vacuumed faster than they are read; retry"
        )

    def _hold_only(self, number: int) -> None:
        """Pin one more version, which is not read yet."""
        if number not in self._held:
            self._held.append(number)
            self._say()

    def _say(self) -> None:
        if self._held:
            self._storage.write(self._path, json.dumps({"versions": self._held}).encode(), durable=False)
        else:
            self._storage.delete(self._path)


@contextmanager
def pinning(storage: Storage) -> Iterator[Pin]:
    """A pin for work that commits nothing, under a new write id that is deleted when the block ends.

    Parameters
    ----------
    storage
        At the root of the catalog.
    """
    write_id = claim_write(storage, datetime.now(UTC))
    beating = Heartbeat(storage, write_id, rest=False, claimed=True)
    try:
        with beating, Pin(storage, write_id, beating) as pin:
            yield pin
    except BaseException:
        give_up(storage, write_id)
        raise
    if storage.is_local:  # nothing else was written there
        storage.delete_empty(write_id)
    else:
        storage.delete(write_id)  # some servers keep, and list, the folder of an object that is gone


def keep_for_reading(held: ExitStack, catalog: Storage, version: int) -> None:
    """Hold a vacuum off a version as long as `held` is open, if its catalog can be written to at all.

    Of catalogs of others, which have no log and no vacuum of ours, nothing is held, and nothing is written.
    """
    if not catalog.is_file(version_path(version)) and not catalog.is_file(POINTER):
        return
    with suppress(NotWritableError):
        catalog.check_writable()
        held.enter_context(pinning(catalog)).hold(version)


def give_up(storage: Storage, write_id: str) -> None:
    """Delete a write that has committed nothing; what cannot be deleted now is left to the next sweep."""
    with suppress(HipslakeError, OSError):
        storage.delete_tree(write_id)
        storage.delete(pin_path(write_id))


def pin_path(write_id: str) -> str:
    """The path of the pin of a write."""
    return f"{PINS}/{write_id}.json"


def pinning_writes(storage: Storage) -> list[str]:
    """The write ids of all pins, sorted."""
    names = (entry.path.rpartition("/")[2].removesuffix(".json") for entry in storage.list(PINS))
    return [name for name in names if is_write_id(name)]


def pinned_versions(storage: Storage, *, without: Collection[str] = ()) -> set[int]:
    """The numbers of the versions that some pin names.

    Parameters
    ----------
    storage
        At the root of the catalog.
    without
        Writes whose pins do not count.

    Raises
    ------
    CatalogFormatError
        A pin cannot be read.
    """
    writes = set(pinning_writes(storage)) - set(without)
    return {number for write_id in writes for number in pinned_by(storage, write_id)}


def pinned_by(storage: Storage, write_id: str) -> set[int]:
    """The numbers of the versions that the pin of a write names; parameters and errors as above."""
    path = pin_path(write_id)
    try:
        return {int(number) for number in plain_json(storage.read(path))["versions"]}
    except FileNotFoundError:  # removed since it was listed
        return set()
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise CatalogFormatError(
            f"{storage.uri(path)}: not a pin ({error}); delete it once no run of the catalog is at work"
        ) from error
