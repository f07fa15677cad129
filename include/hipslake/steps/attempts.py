"""Attempts of a run at a commit, each under a write id of its own: a retry has to find what one committed.

A run that starts over, since it was cleared, has other files or another write id, and finds none of them:
it is to do its work once more.
"""

from __future__ import annotations

from hipslake.specs.base import Frozen
from hipslake.steps.attempt_places import ADOPTIONS, APPENDS, COMPACTIONS, DELETIONS, MARGINS, REASSIGNMENTS
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

_FROZEN = "frozen.json"


class FrozenState(Frozen):
    """What a run has frozen when an attempt begins."""

    write_id: str
    fingerprint: str | None  # of its files; None: it reads none

    @classmethod
    def of(cls, run: FrozenRun, inputs: FrozenInputs | None = None) -> FrozenState:
        """The state of a frozen run, and of its inputs if it reads any."""
        return cls(write_id=run.write_id, fingerprint=inputs.fingerprint if inputs else None)


def note_attempt(folder: RunFolder, place: str, write_id: str, now: FrozenState) -> None:
    """Record that an attempt begins; call it before anything can be committed under its write id.

    Parameters
    ----------
    folder : RunFolder
    place : str
        `APPENDS`, `COMPACTIONS`, `MARGINS`, `ADOPTIONS` or `DELETIONS`.
    write_id : str
        Of the attempt.
    now : FrozenState
    """
    folder.write(f"{place}/{write_id}/{_FROZEN}", now)


def attempts_of(folder: RunFolder, place: str, now: FrozenState) -> list[str]:
    """Return the write ids of the attempts at what the run has frozen now."""
    return [
        write_id
        for write_id in _write_ids(folder, place)
        if folder.storage.is_file(f"{place}/{write_id}/{_FROZEN}")
        and folder.read(f"{place}/{write_id}/{_FROZEN}", FrozenState) == now
    ]


def has_committed(folder: RunFolder, catalog: Storage) -> bool:
    """Return whether any attempt of a run has committed a version."""
    log = VersionLog(catalog)
    tried = [
        write_id
        for place in (APPENDS, COMPACTIONS, MARGINS, ADOPTIONS, DELETIONS)
        for write_id in _write_ids(folder, place)
    ]
    for entry in folder.storage.list(REASSIGNMENTS):
        tried += attempts_below(folder.storage, entry.path)
    return any(log.find(write_id) is not None for write_id in tried)


def attempts_below(storage: Storage, place: str) -> list[str]:
    """Return the write ids of all attempts of the runs whose folders lie in another folder.

    Parameters
    ----------
    storage : Storage
        At the folder of a run that upserts what it has made itself.
    place : str
    """
    runs = [RunFolder(storage.uri(entry.path)) for entry in storage.list(place)]
    return [write_id for run in runs for write_id in _write_ids(run, APPENDS)]


def _write_ids(folder: RunFolder, place: str) -> list[str]:
    return [entry.path.rpartition("/")[2] for entry in folder.storage.list(place)]
