"""The commit of a table: files come and go in one snapshot, or nothing happens.

pyiceberg writes the manifests and sends the request to the catalog. When another writer was first, this
module checks whether the change still fits, and tries again. So a change that is only right for the files it
was made from is never applied to others.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from sqlalchemy.exc import SQLAlchemyError

from hipslake.errors import ConflictError, PlanError, StorageError
from hipslake.storage.backoff import wait_for_others
from hipslake.tables.iceberg.branches import begin, on_branch, set_tag
from hipslake.tables.iceberg.catalog_answers import CATALOG_FAILURES, refusal, unknown_outcome
from hipslake.tables.iceberg.catalogs import open_table, told_of, without_client_retries
from hipslake.tables.iceberg.commit_attempts import (
    CommitAttempt,
    announce_attempt,
    retract_attempt,
    writes_of,
)
from hipslake.tables.iceberg.data_files import WrittenFile, live_files
from hipslake.tables.iceberg.delete_writer import paths_named, to_delete_file
from hipslake.tables.iceberg.metadata_files import manifests_of
from hipslake.tables.iceberg.snapshot_history import WRITE_PROPERTY, summary_of
from hipslake.tables.iceberg.snapshot_producers import Append, Exchange, ManifestMerge, MergingAppend
from hipslake.tables.iceberg.snapshot_statistics import (
    SketchedChange,
    set_statistics,
    take_over_statistics,
)
from hipslake.tables.iceberg.stored_marks import PropertyChange
from hipslake.tables.iceberg.transactions import transaction_of
from hipslake.tables.protocol import NewDeletes
from hipslake.versions.heartbeat import refuse_swept

log = logging.getLogger(__name__)

TRIES = 100
_LOOKS = 5  # for a commit whose outcome the catalog did not report
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0  # seconds

Check = Callable[[Table], None]


@dataclass(frozen=True)
class TableChange:
    """Files that come and go.

    Attributes
    ----------
    operation : Operation
        `APPEND`, `OVERWRITE`, or `REPLACE`: other files with the same rows, as of a compaction.
    write_id : str
        Of the write that made the files; found again in the snapshot.
    added : sequence of WrittenFile
    removed : sequence of DataFile
        As `live_files` gave them.
    properties : callable
        Tells which properties of the table, as it is found, are set and removed with it.
    summary : dict
        What else the snapshot says of itself.
    data_sequence : int, optional
        The data sequence number of the files that are added; by default that of the snapshot. With that of
        the snapshot in which their rows were read, equality deletes that came since apply to them.
    unneeded : callable
        Tells which delete files of the table, as it is found, nothing needs once this change is made.
    manifest_bytes : int, optional
        Nothing comes and goes, but manifests are merged and cut, so that each has about so many bytes.
    deletes : sequence of NewDeletes
        Delete files that come; not with `APPEND`.
    branch : str, optional
        That is committed to, as `on_branch` shows it; by default main.
    tag : str, optional
        Is set at the new snapshot of main.
    sketched : SketchedChange, optional
        What is known of the distinct values of columns. The snapshot of `REPLACE` takes over what the one
        before it has.
    """

    operation: Operation
    write_id: str
    added: Sequence[WrittenFile] = ()
    removed: Sequence[DataFile] = ()
    properties: Callable[[Table], PropertyChange] = lambda table: PropertyChange({})
    summary: dict[str, str] = field(default_factory=dict)
    data_sequence: int | None = None
    unneeded: Callable[[Table], Sequence[DataFile]] = lambda table: ()
    manifest_bytes: int | None = None
    deletes: Sequence[NewDeletes] = ()
    branch: str | None = None
    tag: str | None = None
    sketched: SketchedChange | None = None


@dataclass(frozen=True)
class Committed:
    """A change that was committed.

    Attributes
    ----------
    table : pyiceberg.table.Table
        As it is after it.
    snapshot_id : int
    attempts : int
        How often the catalog was asked.
    """

    table: Table
    snapshot_id: int
    attempts: int


def commit(catalog: Catalog, name: str, change: TableChange, check: Check = lambda table: None) -> Committed:
    """Apply a change to whatever the table's newest snapshot is by now.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    change : TableChange
    check : callable
        Looks whether the change fits to the table that it is given, and raises if not; asked before each try.

    Raises
    ------
    ConflictError
        Files that the change removes are gone; or others kept committing first.
    StorageError
        The write was swept; or the catalog does not let this user commit.
    SpecError
        The table is gone.
    CommitStateUnknownError
        The catalog does not say whether the commit stands; nothing that it may name is deleted.
    Exception
        What `check` raises.
    """
    for attempt in range(1, TRIES + 1):
        table = on_branch(open_table(catalog, name), change.branch)
        if (found := snapshot_of(table, change.write_id)) is not None:
            return Committed(table, found.snapshot_id, attempt)
        check(table)
        _check_standing(table, change)
        announced = announce_attempt(table, change.write_id)
        try:
            with retracted(table, announced):
                refuse_swept(writes_of(table), change.write_id)
                _commit_once(table, change)
        except CommitFailedException:
            log.info("Table %s was changed by another writer; trying again (%d).", name, attempt)
        except ValidationException as error:
            raise _conflict(name, str(error)) from error
        except CATALOG_FAILURES as error:
            stands = looked_for(
                table, "the commit stands", error, lambda now: snapshot_of(now, change.write_id) is not None
            )
            if not stands and not isinstance(error, SQLAlchemyError):
                what = f"write {change.write_id} is in no snapshot"
                raise unknown_outcome(table, what, error) from error
        except ValueError as error:
            if not _is_outdated(error):
                raise
        except OverflowError as error:  # pyiceberg writes partition values as texts into the summary
            raise PlanError(
                f"table {name}: a time before the year 1 or after 9999 is a partition value ({error}), and "
                "pyiceberg has no text for it; partition by a bucket of the column, or leave such rows out"
            ) from error
        else:
            table = on_branch(open_table(catalog, name), change.branch)
            found = snapshot_of(table, change.write_id)
            snapshot = found.snapshot_id if found else table.metadata.current_snapshot_id or 0
            return Committed(table, snapshot, attempt)
        wait_for_others(attempt, first=FIRST_WAIT, longest=LONGEST_WAIT)
    raise ConflictError(f"table {name}: others committed first {TRIES} times; try again later")


@contextmanager
def retracted(table: Table, attempt: CommitAttempt) -> Iterator[None]:
    """Take an attempt back when the block, which asks the catalog for a change, ends with a known outcome.

    Parameters
    ----------
    table : pyiceberg.table.Table
    attempt : CommitAttempt
        As `announce_attempt` returned it.

    Raises
    ------
    HipslakeError
        The catalog has refused the change, as `refusal` says.
    Exception
        What the block raises. After other errors of `CATALOG_FAILURES` the change may still take effect.
    """
    try:
        yield
    except CATALOG_FAILURES as error:
        if (refused := refusal(table, error)) is None:
            raise
        retract_attempt(table, attempt)
        raise refused from error
    except Exception as error:
        if isinstance(error, _NOT_DONE) or _is_outdated(error):
            retract_attempt(table, attempt)
        raise
    retract_attempt(table, attempt)


_NOT_DONE = (
    CommitFailedException,  # another writer was first
    ValidationException,
    StorageError,  # the write was swept
    OverflowError,
)
"""Errors after which the catalog does not make a change."""


def _is_outdated(error: Exception) -> bool:
    """Whether others committed, and rolled back, since the table was read."""
    return isinstance(error, ValueError) and "sequence number" in str(error)


def commit_uuid(write_id: str) -> uuid.UUID:
    """What the names of a write's manifests hold, so that a sweep finds those of a dead one."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"hipslake:{write_id}")


def snapshot_of(table: Table, write_id: str) -> Snapshot | None:
    """Return the snapshot that added the files of a write; None if there is none, or it has expired."""
    return next(reversed(snapshots_of(table, write_id)), None)


def snapshots_of(table: Table, write_id: str) -> list[Snapshot]:
    """The snapshots that a write has made."""
    return [each for each in table.snapshots() if summary_of(each).get(WRITE_PROPERTY) == write_id]


def looked_for(table: Table, what: str, error: Exception, stands: Callable[[Table], bool]) -> bool:
    """Look for a change whose outcome the catalog has not reported; False if it is not found so far.

    Parameters
    ----------
    table : pyiceberg.table.Table
        As it was before.
    what : str
        What is not known, for the log.
    error : Exception
        What the catalog said instead.
    stands : callable
        Takes the table as it is now.

    Raises
    ------
    SpecError
        The table is gone.
    """
    catalog, name = table.catalog, ".".join(table.name())
    told = told_of(catalog.name, error)
    log.warning("Table %s: whether %s is not known (%s); looking.", name, what, told)
    for look in range(_LOOKS):
        wait_for_others(look + 1, first=FIRST_WAIT, longest=LONGEST_WAIT)
        with suppress(StorageError):  # it may answer the next time
            if stands(open_table(catalog, name)):
                return True
    return False


def _check_standing(table: Table, change: TableChange) -> None:
    """Look whether the table still has the files to be removed, and the spec of those to be added."""
    name = ".".join(table.name())
    if (snapshot := table.current_snapshot()) is not None:
        manifests_of(table, snapshot)  # the new snapshot has them too; damage is found before it is made
    if needed := {file.file_path for file in change.removed} | paths_named(change.deletes):
        gone = sorted(needed - {file.file_path for file in live_files(table)})
        if gone:
            raise _conflict(name, f"{len(gone)} files that were read are gone, such as {gone[0]}")
    specs = {file.spec_id for file in change.added} - {table.spec().spec_id}
    if specs:
        raise _conflict(name, "it is partitioned in another way now")


def _conflict(name: str, what: str) -> ConflictError:
    return ConflictError(
        f"table {name} was changed by another writer: {what}; run it again on what is there now"
    )


def _commit_once(table: Table, change: TableChange) -> None:
    table = without_client_retries(table)
    summary = {WRITE_PROPERTY: change.write_id, **change.summary}
    with transaction_of(table) as transaction:
        change.properties(table).apply(transaction)
        made: Any = Exchange
        if change.operation is Operation.APPEND:
            merging = table.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
            made = MergingAppend if merging else Append
        elif change.manifest_bytes is not None:
            made = ManifestMerge
        if change.branch is not None:
            summary |= begin(transaction, table, change.branch)
        producer = made(
            change.operation,
            transaction,
            table.io,
            snapshot_properties=summary,
            branch=change.branch or MAIN_BRANCH,
        )
        if isinstance(producer, Exchange):
            producer.data_sequence = change.data_sequence
            producer.added_deletes = [to_delete_file(each) for each in change.deletes]
        if isinstance(producer, ManifestMerge) and change.manifest_bytes is not None:
            producer.manifest_bytes = change.manifest_bytes
        # An earlier try may still take effect: no two tries write files of the same names.
        producer.commit_uuid = f"{commit_uuid(change.write_id)}-{producer.snapshot_id}"
        with producer:
            for written in change.added:
                producer.append_data_file(written.to_data_file(table))
            for file in (*change.removed, *change.unneeded(table)):
                producer.delete_data_file(file)
        if change.tag is not None:
            set_tag(transaction, table, change.tag, producer.snapshot_id)
        if change.operation is Operation.REPLACE:
            take_over_statistics(transaction, table, producer.snapshot_id, producer.commit_uuid)
        elif change.sketched is not None:
            sketches = change.sketched.sketches(table)
            set_statistics(transaction, producer.snapshot_id, sketches, producer.commit_uuid)
    for path in producer.unlisted:
        table.io.delete(path)
