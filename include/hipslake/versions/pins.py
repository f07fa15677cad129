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
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic
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
from hipslake.storage.store_threads import begin
from hipslake.versions.heartbeat import INTERVAL, Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import POINTER, version_path
from hipslake.versions.log_reader import FoundVersion
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
    held
        The versions that the pin names by now, if `claim_holding` has put it up.

    Examples
    --------
    >>> def rebuild(catalog: Storage, write_id: str) -> None:
    ...     with Heartbeat(catalog, write_id, rest=False), Pin(catalog, write_id) as pin:
    ...         metadata = pin.hold(3)  # whatever version 3 names can be read until the block ends
    """

    def __init__(
        self,
        storage: Storage,
        write_id: str,
        heartbeat: Heartbeat | None = None,
        held: Collection[int] = (),
    ) -> None:
        self._storage = storage
        self._heartbeat = heartbeat
        self._log = VersionLog(storage)
        self._path = pin_path(write_id)
        self._held: list[int] = [*held]

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._heartbeat is not None:
            self._heartbeat.delete_at_end(self._path)
        elif error is None:
            self._storage.delete(self._path)

    def names(self, numbers: Collection[int]) -> bool:
        """Whether versions are pinned by now."""
        return bool(numbers) and set(numbers) <= set(self._held)

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

    def at_end(self, ask: Callable[[], object]) -> None:
        """Let something be asked when the block ends without an exception, and the pin is needed no more."""
        if self._heartbeat is None:
            raise ValueError("the pin has no heartbeat, whose block ends with it")
        self._heartbeat.at_end(ask)

    def hold_newest(self, known: FoundVersion | None = None) -> bytes:
        """Pin the newest version until the block ends; return its metadata.

        Parameters
        ----------
        known
            A version that was the newest a moment ago. If it still is once the pin is up, no vacuum has
            taken it or will: the newest is never vacuumed. So it need not be read again.

        Raises
        ------
        CatalogNotFoundError
            Nothing was ever committed here.
        ConflictError
            Others kept committing, and a vacuum kept taking away what was the newest.
        """
        if known is not None and not self._storage.is_local:
            self._hold_only(known.number)
            if self._log.newest_from(known.number) == known.number:
                return known.data
            self._held.remove(known.number)
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
            self._storage.write(self._path, _text(self._held), durable=False)
        else:
            self._storage.delete(self._path)


def _text(versions: Collection[int]) -> bytes:
    return json.dumps({"versions": [*versions]}).encode()


def claim_holding(storage: Storage, now: datetime, versions: Collection[int]) -> tuple[str, tuple[int, ...]]:
    """As `claim_write`, with a pin that is put up beside the first heartbeat.

    A sweep that finds the pin and not yet the heartbeat leaves both in peace, as the pin is young.

    Parameters
    ----------
    storage, now
        As for `claim_write`.
    versions
        The versions to hold.

    Returns
    -------
    str
        The write id.
    tuple of int
        The versions that the pin names; on a local disk, and where it is not known, none.
    """
    put: dict[str, bool] = {}

    def pin(write_id: str) -> None:  # created: the id may be that of another run
        put[write_id] = storage.create(pin_path(write_id), _text(versions))

    if storage.is_local or not versions:
        return claim_write(storage, now), ()
    write_id = claim_write(storage, now, pin)
    for other in put.keys() - {write_id}:
        if put[other]:
            storage.delete(pin_path(other))
    return write_id, tuple(versions) if put[write_id] else ()


class ClaimAhead:
    """A write with its pin that is claimed while something else is done, by who soon begins it.

    It has one heartbeat, and no other until it is taken.

    Parameters
    ----------
    storage, versions
        As for `claim_holding`.
    """

    def __init__(self, storage: Storage, versions: Collection[int]) -> None:
        self._storage = storage
        self._began = monotonic()
        self._claim = begin(partial(claim_holding, storage, datetime.now(UTC), versions))

    def taken(self) -> tuple[str, tuple[int, ...]] | None:
        """What `claim_holding` gave; None, and it is given up, where another heartbeat would be due."""
        claimed = self._claim.result()
        if monotonic() - self._began < INTERVAL:
            return claimed
        give_up(self._storage, claimed[0])
        return None

    def give_up(self) -> None:
        """Delete it, if nobody takes it."""
        with suppress(HipslakeError, OSError):
            give_up(self._storage, self._claim.result()[0])


def claimed_for(
    storage: Storage, versions: Collection[int], ahead: ClaimAhead | None
) -> tuple[str, tuple[int, ...]]:
    """A new write and what its pin names: that which was claimed ahead, or as of `claim_holding`.

    Parameters
    ----------
    storage, versions
        As for `claim_holding`.
    ahead
        Of the same storage; its pin may name other versions.
    """
    claimed = None if ahead is None else ahead.taken()
    return claimed or claim_holding(storage, datetime.now(UTC), versions)


@contextmanager
def pinning(
    storage: Storage,
    versions: Collection[int] = (),
    ended: Callable[..., object] | None = None,
    ahead: ClaimAhead | None = None,
) -> Iterator[Pin]:
    """A pin for work that commits nothing, under a new write id that is deleted when the block ends.

    Parameters
    ----------
    storage
        At the root of the catalog.
    versions
        That are pinned from the first in a store; whoever needs them still reads them by `Pin.hold`.
    ended
        As for `Heartbeat`.
    ahead
        As for `claimed_for`.
    """
    write_id, held = claimed_for(storage, versions, ahead)
    beating = Heartbeat(storage, write_id, rest=False, claimed=True, alone=True, ended=ended)
    try:
        with beating, Pin(storage, write_id, beating, held) as pin:
            yield pin
    except BaseException:
        give_up(storage, write_id)
        raise


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
