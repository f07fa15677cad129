"""The commit of a Delta table: a file of the log that is created if absent, whole or not at all.

When another writer was first, the change is checked against what stands there now, and tried again with the
next number. So a change that is only right for the files it was made from is never applied to others,
whatever these were: that holds for inserts by others too, which delta-rs lets pass where it commits actions
of callers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hipslake.errors import ConflictError, SpecError
from hipslake.library_version import __version__
from hipslake.storage.backoff import wait_for_others
from hipslake.tables.delta.delta_actions import OURS, Action, file_identity, lines
from hipslake.tables.delta.delta_checkpoint import checkpoint_if_due
from hipslake.tables.delta.delta_files import DeltaFile, WrittenDeltaFile
from hipslake.tables.delta.delta_log import DeltaLog, LogState, commit_path
from hipslake.tables.delta.delta_protocol import check_delta_writable, enabling_vectors, vectors_asked
from hipslake.tables.delta.delta_vector_writer import MarkedFile
from hipslake.tables.delta.delta_vectors import deleted_count
from hipslake.tables.delta.delta_writes import commit_files, writes_below
from hipslake.versions.intents import create_version

log = logging.getLogger(__name__)

COMMIT_TRIES = 100
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0  # seconds


@dataclass(frozen=True)
class DeltaChange:
    """Files that come and go.

    Attributes
    ----------
    write_id : str
        Of the write that made the files; found again in the commit.
    operation : str
        What Delta calls it: `WRITE`, `DELETE` or `OPTIMIZE`.
    parameters : mapping of str to str
        Of the operation, for people.
    added : sequence of WrittenDeltaFile
    removed : sequence of DeltaFile
        As the version had them from which the change was made.
    transactions : mapping of str to int
        The number that each application has reached with it.
    told : mapping
        What else the commit says of itself.
    data_change : bool
        Whether the rows of the table are others afterwards.
    marked : sequence of MarkedFile
        Files that get deletion vectors; as `removed`, as the version had them.
    """

    write_id: str
    operation: str
    parameters: Mapping[str, str]
    added: Sequence[WrittenDeltaFile] = ()
    removed: Sequence[DeltaFile] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    data_change: bool = True
    marked: Sequence[MarkedFile] = ()

    @property
    def changed(self) -> list[DeltaFile]:
        """All files that have to stand as they were."""
        return [*self.removed, *(each.file for each in self.marked)]


class CommittedDelta(NamedTuple):
    """A change that was committed: the table after it, its version, and how often it was tried."""

    state: LogState
    version: int
    attempts: int


def commit_delta(
    table: DeltaLog, name: str, change: DeltaChange, check: Callable[[LogState], None] = lambda state: None
) -> CommittedDelta:
    """Apply a change to whatever the table's newest version is by now.

    Parameters
    ----------
    table : DeltaLog
    name : str
        Of the table, for messages.
    change : DeltaChange
    check : callable
        Looks whether the change fits to the version that it is given, and raises if not; asked before each
        try.

    Raises
    ------
    ConflictError
        Files that the change removes are gone; or others kept committing first.
    PlanError
        The table asks for more of its writers than is done here.
    StorageError
        The write was swept; or the store cannot be written to.
    SpecError
        The table is gone.
    CommitStateUnknownError
        The store does not say whether the commit stands; nothing that it may name is deleted.
    Exception
        What `check` raises.
    """
    for attempt in range(1, COMMIT_TRIES + 1):
        state = _standing(table, name)
        if (version := state.version_of(change.write_id)) is not None:
            return CommittedDelta(state, version, attempt)
        check(state)
        _check_fits(state, name, change)
        number = state.version + 1
        data = lines(_actions(state, change))
        writes = writes_below(table.location)
        outcome = create_version(writes, number, data, change.write_id, commit_files(table))
        if outcome == "committed" and number not in table.versions():
            # The log was cut behind this number since it was read, so that nobody would find the commit.
            table.storage.delete(commit_path(number))
            outcome = "conflict"
        if outcome == "committed":
            state = _standing(table, name)
            checkpoint_if_due(table, state, number)
            return CommittedDelta(state, number, attempt)
        log.info("Table %s was changed by another writer; trying again (%d).", name, attempt)
        wait_for_others(attempt, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
    raise ConflictError(f"table {name}: others committed first {COMMIT_TRIES} times; try again later")


def _standing(table: DeltaLog, name: str) -> LogState:
    state = table.newest()
    if state is None:
        raise SpecError(f"there is no Delta table {name} at {table.location} any more; was it dropped?")
    return state


def _check_fits(state: LogState, name: str, change: DeltaChange) -> None:
    check_delta_writable(state, name, removing=bool(change.changed) and change.data_change)
    if change.marked and vectors_asked(state.configuration) is False:
        raise ConflictError(f"table {name} was changed by another writer: it takes no deletion vectors now")
    gone = [file for file in change.changed if not stands(state, file)]
    if gone:
        raise ConflictError(
            f"table {name} was changed by another writer: {len(gone)} files that were read are gone or have "
            f"changed, such as {gone[0].path}; run it again on what is there now"
        )
    columns = {tuple(file.partition) for file in change.added} - {state.partition_columns}
    if columns:
        raise ConflictError(
            f"table {name} was changed by another writer: it is partitioned in another way now"
        )
    for application, number in change.transactions.items():
        reached = state.transactions.get(application)
        if reached is not None and int(reached["version"]) >= number:
            raise ConflictError(f"table {name}: another run has written {application} meanwhile")


def stands(state: LogState, file: DeltaFile) -> bool:
    """Whether a version has a file, with the same rows of it."""
    now = state.files.get(file.entry["path"])
    return now is not None and file_identity(now) == file_identity(file.entry)


def _actions(state: LogState, change: DeltaChange) -> list[Action]:
    now = round(time.time() * 1000)
    metrics = {
        "numAddedFiles": str(len(change.added)),
        "numRemovedFiles": str(len(change.removed)),
        "numOutputRows": str(sum(file.rows for file in change.added)),
    }
    if change.marked:
        metrics |= _vector_metrics(change.marked)
    info = commit_info(
        change.operation,
        change.parameters,
        now,
        {"write": change.write_id, **change.told},
        isolationLevel="Serializable",
        isBlindAppend=not change.changed and change.operation == "WRITE",
        readVersion=state.version,
        operationMetrics=metrics,
    )
    reached = [
        {"txn": {"appId": application, "version": number, "lastUpdated": now}}
        for application, number in change.transactions.items()
    ]
    enabled = enabling_vectors(state) if change.marked else []
    removed = [_remove(file.entry, now, data_change=change.data_change) for file in change.changed]
    marked = [each.add() for each in change.marked]
    added = [file.add(now, data_change=change.data_change) for file in change.added]
    return [info, *enabled, *reached, *removed, *marked, *added]


def _vector_metrics(marked: Sequence[MarkedFile]) -> dict[str, str]:
    before = sum(deleted_count(each.file.entry) for each in marked)
    return {
        "numDeletedRows": str(sum(int(each.vector["cardinality"]) for each in marked) - before),
        "numDeletionVectorsAdded": str(len(marked)),
        "numDeletionVectorsUpdated": str(sum(bool(each.file.entry.get("deletionVector")) for each in marked)),
    }


def commit_info(
    operation: str, parameters: Mapping[str, str], milliseconds: int, ours: Mapping[str, str], **more: Any
) -> Action:
    """The action that says what a commit is.

    Parameters
    ----------
    operation, parameters
        What was done, for people.
    milliseconds : int
        The time, since 1970 UTC.
    ours : mapping
        By what this library knows the commit again.
    **more
        Further keys of the published format.
    """
    told = {"timestamp": milliseconds, "operation": operation, "operationParameters": dict(parameters)}
    return {"commitInfo": {**told, **more, "engineInfo": f"hipslake/{__version__}", OURS: dict(ours)}}


def _remove(entry: Action, milliseconds: int, *, data_change: bool) -> Action:
    told = {
        "path": entry["path"],
        "deletionTimestamp": milliseconds,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": entry.get("partitionValues") or {},
        "size": entry["size"],
    }
    kept = {
        key: entry[key] for key in ("deletionVector", "baseRowId", "defaultRowCommitVersion") if key in entry
    }
    return {"remove": told | kept}


def commit_metadata(table: DeltaLog, version: int, actions: Sequence[Action], attempt: str) -> bool:
    """Commit a change of a table's metadata, which brings no files; False if another writer was first.

    Parameters
    ----------
    table : DeltaLog
    version : int
        That it makes.
    actions : sequence of dict
        The first is its `commitInfo`.
    attempt : str
        By which the commit says that it is this one: a store may say "taken" to whom it has obeyed.
    """
    if table.storage.create(commit_path(version), lines(actions)):
        return True
    files = commit_files(table)
    return files.write_of(table.storage.read(commit_path(version)), commit_path(version)) == attempt
