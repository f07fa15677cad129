"""A branch of an Iceberg table becomes main, or is dropped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate
from sqlalchemy.exc import SQLAlchemyError

from hipslake.errors import ConflictError, HipslakeError
from hipslake.storage.backoff import wait_for_others
from hipslake.tables.iceberg.branches import (
    Branch,
    at_snapshot,
    branch_of,
    check_tag,
    is_published,
    no_fast_forward,
    ref_fields,
    set_tag,
)
from hipslake.tables.iceberg.catalog_answers import CATALOG_FAILURES, refusal, unknown_outcome
from hipslake.tables.iceberg.catalogs import open_table, without_client_retries
from hipslake.tables.iceberg.commit import (
    FIRST_WAIT,
    LONGEST_WAIT,
    looked_for,
)
from hipslake.tables.iceberg.stored_marks import mark_of, true_properties
from hipslake.tables.marks import SinkMark

log = logging.getLogger(__name__)

TRIES = 30
TagOf = Callable[[SinkMark], str | None]


def publish_branch(
    catalog: Catalog, name: str, branch: str, head: int, tag_of: TagOf = lambda mark: None
) -> bool:
    """Make a snapshot of a branch that of main, in one commit that also takes the branch away and sets tags.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    branch : str
    head : int
        The snapshot that was looked at. What has come to the branch since stays there.
    tag_of : callable
        Gives the tag of a sink.

    Returns
    -------
    bool
        Whether it was published now; False: main had it already.

    Raises
    ------
    ConflictError
        Main has moved since the branch was begun, or the branch is gone.
    SpecError
        A tag is of something else.
    CommitStateUnknownError
        The catalog does not say whether it is published.
    StorageError
        It does not answer, or does not let this user commit.
    """
    for attempt in range(1, TRIES + 1):
        table = open_table(catalog, name)
        if is_published(table, head):
            return attempt > 1
        found = branch_of(table, branch)
        if found is None or head not in {each.snapshot_id for each in found.own}:
            raise ConflictError(f"table {name}: snapshot {head} is not on branch {branch} any more")
        if found.main != found.base or found.others:
            raise ConflictError(f"table {name}: {no_fast_forward(found.state(branch))}")
        try:
            _fast_forward(table, branch, found, head, tag_of)
        except CommitFailedException:
            log.info("Table %s was changed by another writer; trying again (%d).", name, attempt)
        except CATALOG_FAILURES as error:
            if (refused := refusal(table, error)) is not None:
                raise refused from error
            stands = looked_for(table, "the branch is published", error, lambda now: is_published(now, head))
            if not stands and not isinstance(error, SQLAlchemyError):
                what = f"snapshot {head} of branch {branch} is not on main"
                raise unknown_outcome(table, what, error) from error
        else:
            return True
        wait_for_others(attempt, first=FIRST_WAIT, longest=LONGEST_WAIT)
    raise ConflictError(f"table {name}: others committed first {TRIES} times; try again later")


def drop_branch(catalog: Catalog, name: str, branch: str) -> None:
    """Take a branch away, if there is one; its snapshots go with the next vacuum.

    Raises
    ------
    ConflictError
        Others kept committing to it.
    HipslakeError
        The catalog does not answer, or does not let this user commit.
    """
    for attempt in range(1, TRIES + 1):
        table = open_table(catalog, name)
        ref = table.metadata.refs.get(branch)
        if ref is None:
            return
        branch_of(table, branch)  # tells that it is a tag
        try:
            with without_client_retries(table).transaction() as transaction:
                gone = RemoveSnapshotRefUpdate(**{"ref-name": branch})
                transaction._apply((gone,), (at_snapshot(branch, ref.snapshot_id),))
        except CommitFailedException:
            wait_for_others(attempt, first=FIRST_WAIT, longest=LONGEST_WAIT)
        except CATALOG_FAILURES as error:
            known: HipslakeError | None = refusal(table, error)
            raise known or unknown_outcome(table, f"branch {branch} may still be there", error) from error
    if open_table(catalog, name).metadata.refs.get(branch) is not None:
        raise ConflictError(f"table {name}: others kept committing to branch {branch}; try again later")


def _fast_forward(table: Table, branch: str, found: Branch, head: int, tag_of: TagOf) -> None:
    last = [each.snapshot_id for each in found.own].index(head)
    tags: dict[str, Snapshot] = {}
    for each in found.own[: last + 1]:
        mark = mark_of(each)
        if mark is not None and (tag := tag_of(mark)) is not None:
            check_tag(table, tag, mark.key)
            tags[tag] = each
    metadata = table.metadata.model_copy(update={"current_snapshot_id": head})
    shown = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    corrected = true_properties(shown)
    with without_client_retries(table).transaction() as transaction:
        corrected.apply(transaction)
        ours = (at_snapshot(MAIN_BRANCH, found.main), at_snapshot(branch, found.head.snapshot_id))
        gone = head == found.head.snapshot_id
        transaction._apply(
            (
                SetSnapshotRefUpdate(**ref_fields(MAIN_BRANCH, SnapshotRefType.BRANCH, head)),
                *((RemoveSnapshotRefUpdate(**{"ref-name": branch}),) if gone else ()),
            ),
            ours,
        )
        for tag, each in tags.items():
            set_tag(transaction, table, tag, each.snapshot_id)
