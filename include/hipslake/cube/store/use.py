"""Who is at work on a cube: runs that write to it, and readers that hold one of its versions."""

from __future__ import annotations

from hipslake.cube.dataset import listed
from hipslake.errors import ConflictError
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import is_live
from hipslake.versions.pins import pinning_writes
from hipslake.versions.write_id import is_write_id


def live_runs(cube: Storage) -> list[str]:
    """The write ids of all that live: those that beat or rest in a folder, pins among them, sorted."""
    folders = {entry.path for entry in cube.list() if entry.is_dir and is_write_id(entry.path)}
    return sorted(each for each in folders | {*pinning_writes(cube)} if is_live(cube, each))


def check_unused(cube: Storage, what: str) -> None:
    """Refuse to take a cube away from those who are at work on it.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    what : str
        What is to be done, for the message.

    Raises
    ------
    ConflictError
        Names their writes.
    """
    found = live_runs(cube)
    if found:
        raise ConflictError(
            f"{cube.uri()}: {what}, but {listed(found)} is at work there; try again when it has ended (one "
            "that was killed counts as dead after HIPSLAKE_STALE_SECONDS)"
        )
