"""Attempts of a run at a commit, each under a write id of its own: a retry has to find what one committed.

A run that starts over, since it was cleared, has other files or another write id, and finds none of them:
it is to do its work once more.
"""

from __future__ import annotations

from hipslake.specs.base import Frozen
from hipslake.steps.append import ATTEMPTS
from hipslake.steps.compact import COMPACTIONS
from hipslake.steps.run import RunFolder
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog

_FROZEN = "frozen.json"


class FrozenThen(Frozen):
    """What a run had frozen when an attempt began."""

    write_id: str
    fingerprint: str | None  # of its files; None: it reads none


def note_attempt(folder: RunFolder, place: str, write_id: str) -> None:
    """Say that an attempt begins; to be called before anything can be committed under its write id.

    Parameters
    ----------
    folder : RunFolder
    place : str
        `ATTEMPTS` or `COMPACTIONS`.
    write_id : str
        Of the attempt.
    """
    folder.write(f"{place}/{write_id}/{_FROZEN}", _frozen_now(folder))


def attempts_of(folder: RunFolder, place: str) -> list[str]:
    """Return the write ids of the attempts at what the run has frozen now."""
    now = _frozen_now(folder)
    return [
        write_id
        for write_id in _write_ids(folder, place)
        if folder.storage.exists(f"{place}/{write_id}/{_FROZEN}")
        and folder.read(f"{place}/{write_id}/{_FROZEN}", FrozenThen) == now
    ]


def has_committed(folder: RunFolder, catalog: Storage) -> bool:
    """Return whether any attempt of a run has committed a version."""
    log = VersionLog(catalog)
    tried = [write_id for place in (ATTEMPTS, COMPACTIONS) for write_id in _write_ids(folder, place)]
    return any(log.find(write_id) is not None for write_id in tried)


def _frozen_now(folder: RunFolder) -> FrozenThen:
    reads_files = folder.storage.exists(RunFolder.FILES)
    return FrozenThen(
        write_id=folder.run().write_id, fingerprint=folder.inputs().fingerprint if reads_files else None
    )


def _write_ids(folder: RunFolder, place: str) -> list[str]:
    return [entry.path.rpartition("/")[2] for entry in folder.storage.list(place)]
