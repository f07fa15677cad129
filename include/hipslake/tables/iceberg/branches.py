"""Branches and tags of an Iceberg table: commits to a branch, the fast-forward of main, tags of sinks.

A branch of ours stands only while something on it waits to be published. Its first commit starts it at main's
snapshot, and each of its snapshots says so; publishing makes its head that of main, and takes the branch
away, in one commit. What a branch is to a sink, `on_branch` shows: the same table, whose current snapshot is
the branch's.

Marks of sinks stand in the summaries of snapshots only, as long as they are on a branch: properties are of
the whole table. The commit that publishes them sets the properties too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate

from hipslake.errors import ConflictError, SpecError
from hipslake.tables.branch_protocol import BranchState
from hipslake.tables.iceberg.snapshot_history import ancestors_of, summary_of
from hipslake.tables.iceberg.stored_marks import KEY_PROPERTY, mark_of

BRANCH_PROPERTY = "hipslake.branch"
"""In the summary of a snapshot: the branch that it was committed to."""
BASE_PROPERTY = "hipslake.branch-base"
"""In the summary of a snapshot: main's snapshot when the branch was begun."""


@dataclass(frozen=True)
class Branch:
    """A branch that has something of its own.

    Attributes
    ----------
    head : Snapshot
    own : tuple of Snapshot
        Since it was begun, from old to new.
    base : int or None
        Main's snapshot when it was begun; None if that is not known.
    main : int or None
        And now.
    others : tuple of Snapshot
        Those of `own` that were not committed to it by this library.
    """

    head: Snapshot
    own: tuple[Snapshot, ...]
    base: int | None
    main: int | None
    others: tuple[Snapshot, ...]

    def state(self, name: str) -> BranchState:
        """The same, in words that are of no format."""
        marks = [mark for each in self.own if (mark := mark_of(each)) is not None]
        return BranchState(
            name,
            self.head.snapshot_id,
            self.base,
            moved=self.main != self.base,
            sinks=tuple(marks),
            others=tuple(each.snapshot_id for each in self.others),
        )


def main_of(table: Table) -> int | None:
    """The snapshot that readers see, also where a table is shown as it is on a branch."""
    ref = table.metadata.refs.get(MAIN_BRANCH)
    return None if ref is None else ref.snapshot_id


def branch_of(table: Table, name: str) -> Branch | None:
    """A branch of a table; None if there is none, or it has nothing that main lacks.

    Raises
    ------
    SpecError
        The name is that of a tag.
    """
    ref = table.metadata.refs.get(name)
    if ref is None:
        return None
    if ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise SpecError(
            f"table {'.'.join(table.name())}: {name!r} is a tag, and no branch; give the branch another name"
        )
    main = main_of(table)
    seen = {each.snapshot_id for each in ancestors_of(table, main)}
    line = ancestors_of(table, ref.snapshot_id)
    if not line or ref.snapshot_id in seen:
        return None
    bases = (summary_of(each).get(BASE_PROPERTY) for each in line if each.snapshot_id not in seen)
    told = next((base for base in bases if base), None)
    base = int(told) if told and told.isdigit() else None
    own: list[Snapshot] = []
    for each in line:
        if each.snapshot_id == base or each.snapshot_id in seen:
            break
        own.append(each)
    own.reverse()
    others = tuple(each for each in own if summary_of(each).get(BRANCH_PROPERTY) != name)
    return Branch(line[0], tuple(own), base, main, others)


def on_branch(table: Table, name: str | None) -> Table:
    """A table as it is on a branch: as on main, if the branch has nothing of its own."""
    if name is None or (found := branch_of(table, name)) is None:
        return table
    metadata = table.metadata.model_copy(update={"current_snapshot_id": found.head.snapshot_id})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def begin(transaction: Transaction, table: Table, name: str) -> dict[str, str]:
    """Let a transaction commit to a branch; a new one, or one that has nothing of its own, begins at main.

    Returns
    -------
    dict of str to str
        What the snapshot says of itself.
    """
    if (found := branch_of(table, name)) is not None:
        return {BRANCH_PROPERTY: name, BASE_PROPERTY: str(found.base or "")}
    main, ref = main_of(table), table.metadata.refs.get(name)
    if main is None:
        raise ConflictError(
            f"table {'.'.join(table.name())}: there is no snapshot of main any more to begin branch {name} at"
        )
    transaction._apply(
        (SetSnapshotRefUpdate(**ref_fields(name, SnapshotRefType.BRANCH, main)),),
        (at_snapshot(name, None if ref is None else ref.snapshot_id), at_snapshot(MAIN_BRANCH, main)),
    )
    return {BRANCH_PROPERTY: name, BASE_PROPERTY: str(main)}


def check_tag(table: Table, name: str, key: str) -> None:
    """Look that a tag may be set at a sink of a key: there is none of that name, or it is of this key.

    Raises
    ------
    SpecError
        There is a branch or a tag of that name, of something else.
    """
    ref = table.metadata.refs.get(name)
    if ref is None:
        return
    snapshot = table.snapshot_by_id(ref.snapshot_id)
    of = None if snapshot is None else summary_of(snapshot).get(KEY_PROPERTY)
    if ref.snapshot_ref_type == SnapshotRefType.TAG and of == key:
        return
    what = f"of {of}" if of is not None else "that no sink has set"
    kind = "tag" if ref.snapshot_ref_type == SnapshotRefType.TAG else "branch"
    raise SpecError(
        f"table {'.'.join(table.name())} has a {kind} {name!r} {what}; let 'tag' of the spec give each night "
        "a name of its own"
    )


def set_tag(transaction: Transaction, table: Table, name: str, snapshot_id: int) -> None:
    """Set a tag in a transaction, unless it moves meanwhile."""
    ref = table.metadata.refs.get(name)
    transaction._apply((SetSnapshotRefUpdate(**ref_fields(name, SnapshotRefType.TAG, snapshot_id)),))
    if not table.snapshots():  # then no catalog has a tag, and pyiceberg's refuses to look
        return
    # pyiceberg keeps one requirement of a kind.
    transaction._requirements += (at_snapshot(name, None if ref is None else ref.snapshot_id),)


def is_published(table: Table, snapshot_id: int) -> bool:
    """Whether main's snapshot is one, or descends from it."""
    return any(each.snapshot_id == snapshot_id for each in ancestors_of(table, main_of(table)))


def snapshots_apart(table: Table) -> set[int]:
    """The snapshots that branches have, and main has not."""
    main = {each.snapshot_id for each in ancestors_of(table, main_of(table))}
    apart: set[int] = set()
    for ref in table.metadata.refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            apart |= {each.snapshot_id for each in ancestors_of(table, ref.snapshot_id)} - main
    return apart


def no_fast_forward(branch: BranchState) -> str:
    """Why a branch cannot become main, in words."""
    if branch.others:
        return (
            f"branch {branch.name} has snapshot {branch.others[0]}, which this library has not committed to "
            "it; nothing of it is published"
        )
    return (
        f"main has changed since branch {branch.name} began at snapshot {branch.base}, so that it cannot "
        "simply become main"
    )


def ref_fields(name: str, kind: SnapshotRefType, snapshot_id: int) -> dict[str, Any]:
    """The fields of an update that sets a branch or a tag."""
    return {"ref-name": name, "type": kind, "snapshot-id": snapshot_id}


def at_snapshot(name: str, snapshot_id: int | None) -> AssertRefSnapshotId:
    """What a catalog looks at before a commit: that a branch or tag is at a snapshot; None: there is none."""
    return AssertRefSnapshotId(ref=name, **{"snapshot-id": snapshot_id})
