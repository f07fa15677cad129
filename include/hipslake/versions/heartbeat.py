"""Heartbeats: files by which a run shows that its write folder is in use, and learns that it was swept.

A step rewrites the heartbeat every 15 seconds while it runs, and sets it to *resting* when it ends, for the
run's next step. A folder counts as dead when the heartbeat of a running step is older than
`HIPSLAKE_STALE_SECONDS` (default 300), or when a resting one is older than `HIPSLAKE_RESTING_SECONDS`
(default a day), by the clock of the store: the clocks of hosts may differ.

Heartbeats only tell which folders a sweep may take. That no version loses its files does not depend on them,
nor on any clock: see `hipslake.versions.intents`. A sweeper marks a folder before it deletes it, and never
deletes the mark: a writer that wakes up later finds it, and cannot commit.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from types import TracebackType

from hipslake.errors import StorageError
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.storage.small_files import together
from hipslake.storage.timeouts import seconds_of
from hipslake.versions.log_files import VERSIONS
from hipslake.versions.write_id import new_write_id

HEARTBEAT = "_heartbeat.json"
INTERVAL = 15.0
"""Seconds between two beats."""
MARKS = "_versions/swept"
"""The folder of the sweepers' marks, which stay when the folders that they mark are deleted."""

_YEAR = 366 * 86400.0
_log = logging.getLogger(__name__)


class Heartbeat:
    """Writes the heartbeat of a folder during a `with` block.

    When the block ends without an exception, the heartbeat is set to resting, or removed. After an exception
    or a kill it stays as it is, and becomes stale.

    Parameters
    ----------
    storage
        At the root of the catalog.
    folder
        The folder to keep alive: a write id. `""` is the root itself, which nobody sweeps.
    rest
        Whether later steps of the run need the folder; False once a version names it.
    interval
        Seconds between two beats.
    claimed
        Whether `claim_write` has just written its first beat.
    alone
        Whether nothing else is ever written into the folder, which goes with it.
    ended
        Takes what is to be asked when the block has ended without an exception and the folder needs no
        heartbeat any more: deletions, and what was given to `at_end`. By default it is asked at once.

    Raises
    ------
    StorageError
        On entry: the folder was given up, and swept.

    Attributes
    ----------
    confirmed : bool
        Whether a commit may have named the folder: `confirm` has said that it is ours. Who learns that the
        commit does not stand takes it back.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        *,
        rest: bool = True,
        interval: float = INTERVAL,
        claimed: bool = False,
        alone: bool = False,
        ended: Callable[..., object] | None = None,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._path = storage.join(folder, HEARTBEAT)
        self._rest = rest
        self._interval = interval
        self._claimed = claimed
        self._alone = alone
        self._ended = ended or partial(together, storage)
        self._ending: list[Callable[[], object]] = []
        self.confirmed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name=f"heartbeat {folder}", daemon=True)

    def __enter__(self) -> Heartbeat:
        if not self._claimed:
            self._beat_and_look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None and self._rest:
            together(self._storage, lambda: self._beat("resting"), *self._ending)
        elif error is None:
            self._ended(*self._ending, self._delete)

    def delete_at_end(self, path: str) -> None:
        """Let a file be deleted when the block ends without an exception: beside the heartbeat itself."""
        self.at_end(partial(self._storage.delete, path))

    def at_end(self, ask: Callable[[], object]) -> None:
        """Let something be asked when the block ends without an exception: beside those deletions."""
        self._ending.append(ask)

    def confirm(self, *checks: Callable[[], object]) -> None:
        """Write the heartbeat, and check that the folder was not swept; to be called right before the commit.

        Parameters
        ----------
        *checks
            What else is to be checked or said before it, in a store at the same time.

        Raises
        ------
        StorageError
            It was swept, or is being swept; trying again does not help.
        """
        self._beat_and_look(*checks)
        self.confirmed = True

    def _delete(self) -> None:
        self._storage.delete(self._path)
        if self._alone and self._storage.is_local:
            self._storage.delete_empty(self._folder)
        elif self._alone:
            self._storage.delete(self._folder)  # some servers keep, and list, the folder of what is gone

    def _beat_and_look(self, *checks: Callable[[], object]) -> None:
        # What decides is looked at between intent and commit: see `hipslake.versions.intents`.
        looks = [partial(refuse_swept, self._storage, self._folder)] if self._folder else []
        together(self._storage, lambda: self._beat("beating"), *looks, *checks)

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._beat("beating")
            except Exception:
                # The work goes on; the commit checks whether the folder was swept meanwhile.
                _log.warning("No heartbeat could be written to %s", self._path, exc_info=True)

    def _beat(self, state: str) -> None:
        self._storage.write(self._path, _heartbeat(state), durable=False)


def claim_write(
    storage: Storage, now: datetime, beside: Callable[[str], object] = lambda write_id: None
) -> str:
    """Draw a write id that no other run has, and write the first heartbeat of its folder.

    Parameters
    ----------
    storage
        At the root of the catalog.
    now
        The time, with a time zone.
    beside
        Called with each id that is drawn, in a store while it is found out whether another run has it.
    """
    while True:
        write_id = new_write_id(now)
        with suppress(FileNotFoundError):  # swept before its first beat
            first = partial(storage.create, storage.join(write_id, HEARTBEAT), _heartbeat("beating"))
            looked = partial(is_marked, storage, write_id)
            fresh, marked, _ = together(storage, first, looked, partial(beside, write_id))
            if fresh and not marked:
                return write_id


def abandon(storage: Storage, folder: str) -> None:
    """Delete the heartbeat of a folder that no further step uses, and the folder if it is empty.

    Parameters
    ----------
    storage, folder
        As for `Heartbeat`.
    """
    storage.delete(storage.join(folder, HEARTBEAT))
    storage.delete_empty(folder)


def is_live(storage: Storage, folder: str, stale_after: float | None = None) -> bool:
    """Whether a run uses a folder: its heartbeat is not stale. Parameters as of `pulse`."""
    return pulse(storage, folder, stale_after) is True


def pulse(
    storage: Storage, folder: str, stale_after: float | None = None, clock: StoreClock | None = None
) -> bool | None:
    """Whether the heartbeat of a folder, of a running step or resting, is not stale; None if there is none.

    Parameters
    ----------
    storage, folder
        As for `Heartbeat`.
    stale_after
        Seconds of silence after which a beating step counts as dead; None is `stale_seconds()`.
    clock
        Of the storage; a new one if not given.
    """
    path = storage.join(folder, HEARTBEAT)
    try:
        heartbeat = plain_json(storage.read(path))
        time_of_host = float(heartbeat["time"])
        resting = heartbeat["state"] == "resting"
        age = (clock or StoreClock(storage)).age(path)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, OverflowError):
        return False
    if age is None:  # the store gives no times, so the clocks of the hosts are compared
        age = time.time() - time_of_host
    limit = stale_seconds() if stale_after is None else stale_after
    return age < (resting_seconds() if resting else limit)


def mark(storage: Storage, folder: str) -> None:
    """Mark a folder as swept, for good: no commit that begins after this can name it."""
    if not is_marked(storage, folder):
        storage.write(mark_path(folder), json.dumps({"time": time.time()}).encode())


def refuse_swept(storage: Storage, folder: str) -> None:
    """Raise a `StorageError`, which is not retryable, if a sweeper has marked the folder."""
    if is_marked(storage, folder):
        error = StorageError(
            f"{storage.uri(folder)}: this write was swept, because its run looked dead; run "
            "it again from its first step, which draws a new write id"
        )
        error.retryable = False
        raise error


def is_marked(storage: Storage, folder: str) -> bool:
    """Whether a sweeper has marked the folder; a run must not write there any more."""
    return storage.is_file(mark_path(folder))


def mark_path(folder: str) -> str:
    """The path of the mark that a sweeper creates for a folder."""
    return f"{MARKS}/{folder}.json"


def stale_seconds() -> float:
    """Age in seconds from which the heartbeat of a running step is stale; `SpecError` if it is invalid."""
    return seconds_of(os.environ, "HIPSLAKE_STALE_SECONDS", 300.0, most=_YEAR, zero=True)


def resting_seconds() -> float:
    """Age in seconds from which a resting heartbeat is stale; `SpecError` if it is invalid."""
    return seconds_of(os.environ, "HIPSLAKE_RESTING_SECONDS", 86400.0, most=_YEAR, zero=True)


def _heartbeat(state: str) -> bytes:
    beat = {"state": state, "time": time.time(), "host": socket.gethostname(), "pid": os.getpid()}
    return json.dumps(beat).encode()


class StoreClock:
    """Ages of files by the clock of their store, as the clocks of hosts may differ.

    Ages are relative to the first call, which writes a file to learn the time of the store.

    Parameters
    ----------
    storage
        At the root of the catalog.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @cached_property
    def now(self) -> float | None:
        """The time by the clock of the store, in seconds since 1970; None if the store gives no times."""
        # After a kill, a sweep deletes it by this name.
        probe = f"{VERSIONS}/.clock.{secrets.token_hex(4)}.tmp"
        self._storage.write(probe, b"", durable=False)
        try:
            return self._storage.written(probe)
        finally:
            self._storage.delete(probe)

    def age(self, path: str) -> float | None:
        """Seconds from the writing of a file to the first call; negative if it was written after that.

        None if the store gives no times; `FileNotFoundError` if there is no such file.
        """
        now = self.now
        written = self._storage.written(path)
        return None if now is None or written is None else now - written
