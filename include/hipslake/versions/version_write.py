"""A context manager for a write that is to become a version: heartbeat and pin, and removal if it fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hipslake.errors import ConflictError, HipslakeError, StorageError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.intents import fence, may_commit
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import ClaimAhead, Pin, claimed_for, give_up

_REFUSALS = (ConflictError, StorageError, VersionNotFoundError)
"""What a commit raises that has failed for good."""


class Write(NamedTuple):
    """A running write: its id, its heartbeat, which is confirmed right before the commit, and its pin."""

    id: str
    heartbeat: Heartbeat
    pin: Pin


@contextmanager
def writing(
    storage: Storage,
    write_id: str | None = None,
    *,
    versions: Collection[int] = (),
    ended: Callable[..., object] | None = None,
    ahead: ClaimAhead | None = None,
) -> Iterator[Write]:
    """A write with heartbeat and pin during a block, whose last action is the commit.

    When the block fails, the folder and the pin are deleted. They are kept where it is not known whether the
    commit has succeeded, and where another attempt at the same write has committed or may still do so; the
    sweep of dead writes then decides. After a block that ends without an error and without a commit, call
    `hipslake.versions.pins.give_up` to delete the folder.

    Parameters
    ----------
    storage : Storage
        At the root of the catalog, or the cube.
    write_id : str, optional
        The write, which has no file that is needed again if the block fails; a new one if not given.
    versions : collection of int
        Of a new write, what its pin names from the first in a store; whoever needs them still reads them by
        `Pin.hold` or `Pin.hold_newest`.
    ended : callable, optional
        As for `Heartbeat`.
    ahead : ClaimAhead, optional
        Of a new write: as for `hipslake.versions.pins.claimed_for`.
    """
    shared = write_id is not None
    held: Collection[int] = ()
    if write_id is None:
        write_id, held = claimed_for(storage, versions, ahead)
    heartbeat, may_stand = Heartbeat(storage, write_id, rest=False, claimed=not shared, ended=ended), False
    try:
        with heartbeat, Pin(storage, write_id, heartbeat, held) as pin:
            try:
                yield Write(write_id, heartbeat, pin)
            except BaseException as error:
                may_stand = heartbeat.confirmed and not isinstance(error, _REFUSALS)
                raise
            may_stand = True
    except BaseException as error:
        if not may_stand and _is_over(storage, write_id, error, shared=shared):
            give_up(storage, write_id)
        raise


def _is_over(storage: Storage, write_id: str, error: BaseException, *, shared: bool) -> bool:
    """Whether a write that has failed is not committed and cannot be any more; False if that is not known.

    With a write id of the caller (`shared`), another attempt at the same write may be running, or follow.
    """
    try:
        if not shared:
            return write_id not in may_commit(storage)
        if not isinstance(error, HipslakeError) or error.retryable:
            return False
        return bool(fence(storage, [write_id])) and VersionLog(storage).find(write_id) is None
    except (HipslakeError, OSError):
        return False
