"""What was sunk into a table: kept as its properties, which outlive snapshots, set by the commit itself.

Each metadata file of a table holds all of its properties. So only the newest sinks are kept one by one, and
older ones packed (`hipslake.tables.marks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import NamedTuple, TypeVar

from pydantic import AwareDatetime, ValidationError
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen
from hipslake.tables.iceberg.snapshot_history import (
    START,
    WRITE_PROPERTY,
    History,
    next_place,
    place_of,
    summary_of,
)
from hipslake.tables.marks import KEPT, PREFIX, SinkMark, SnapshotPlace, packed, spec_of, unpacked

Model = TypeVar("Model", bound=Frozen)

OLDER = "hipslake.sunk-older."
"""Properties: the older sinks of a spec, packed."""
EARLIER = "hipslake.sunk-earlier."
"""Properties that are not written any more: intervals of older sinks, of which nothing else is known."""
KEY_PROPERTY = "hipslake.sink"
"""In the summary of a snapshot: the key of the sink that made it."""
MARK_PROPERTY = "hipslake.sunk"
"""In the summary of a snapshot: the sink that made it, whole, since properties of the table can be newer."""


class Earlier(Frozen):
    """Older sinks of one spec, as earlier versions of this library have noted them."""

    spec: str
    intervals: tuple[tuple[AwareDatetime, AwareDatetime], ...] = ()  # [start, end), ascending, with gaps
    starts: tuple[AwareDatetime, ...] = ()  # of intervals whose end is not known
    others: tuple[str, ...] = ()  # digests of the keys of what was of no interval

    def holds(self, key: str, start: datetime | None) -> bool:
        """Whether there was a sink of a key."""
        if start is None or _digest(key) in self.others:
            return _digest(key) in self.others
        return start in self.starts or any(first <= start < last for first, last in self.intervals)


class PropertyChange(NamedTuple):
    """Properties of a table that a commit sets, and those that it removes."""

    put: dict[str, str]
    removed: tuple[str, ...] = ()

    def apply(self, transaction: Transaction) -> None:
        """Make the change in a transaction of the table."""
        if self.put:
            transaction.set_properties(self.put)
        if self.removed:
            transaction.remove_properties(*self.removed)


def mark_properties(table: Table, sunk: SinkMark) -> PropertyChange:
    """What a commit of a sink changes: one property per key, so that sinks do not overwrite each other's.

    Where there are too many of them, the oldest are packed together.
    """
    corrected = _standing_of_all(table)
    corrected[sunk.key] = sunk
    return _change(table, corrected)


def true_properties(table: Table) -> PropertyChange:
    """The change after which the properties have the marks of the sinks in the table, and no others.

    Done with a commit, it is known also when the snapshots that tell it have expired.
    """
    return _change(table, _standing_of_all(table))


def _standing_of_all(table: Table) -> dict[str, SinkMark]:
    """By key; also for keys whose sinks may be in the table, now or after a change of branch."""
    standing, found = StoredMarks(table), {}
    for key in standing.keys:
        each = standing.of(key)
        if each is None:
            each = standing.trace_of(key)
        elif not standing.is_told(key) and standing.was_sunk_earlier(key, each.start):
            continue
        if each is not None:
            found[key] = each
    return found


def _change(table: Table, sinks: Mapping[str, SinkMark]) -> PropertyChange:
    """The change that stores marks in the properties of a table: the newest one by one, the others packed."""
    by_age = sorted((each for each in sinks.values() if each.write and not each.whole), key=_age)
    old = by_age[: max(0, len(by_age) - KEPT)]
    packs: dict[str, list[SinkMark]] = {}
    for each in old:
        packs.setdefault(OLDER + _digest(spec_of(each.key)), []).append(each)
    told = {name: packed(each) for name, each in packs.items()}
    gone = {each.key for each in old}
    told |= {
        _name(key): each.model_dump_json(exclude_defaults=True)
        for key, each in sinks.items()
        if key not in gone
    }
    put = {name: text for name, text in told.items() if table.properties.get(name) != text}
    ours = {
        name
        for name, text in table.properties.items()
        if name.startswith(OLDER) or (name.startswith(PREFIX) and _read(SinkMark, text) is not None)
    }
    return PropertyChange(put, tuple(sorted(ours - told.keys())))


class StoredMarks:
    """The sinks that the current snapshot of a table descends from; cheap to ask for many keys.

    Parameters
    ----------
    table : pyiceberg.table.Table
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._history = History(table)
        self._by_key: dict[str, Snapshot] = {}  # of each key the last one
        for snapshot in self._history.made:
            if (key := summary_of(snapshot).get(KEY_PROPERTY)) is not None:
                self._by_key.setdefault(key, snapshot)

    @cached_property
    def _older(self) -> dict[str, SinkMark]:
        found: dict[str, SinkMark] = {}
        for name, text in self._table.properties.items():
            if name.startswith(OLDER):
                found |= unpacked(text, name)
        return found

    @property
    def keys(self) -> list[str]:
        """The keys of all sinks in properties or snapshots."""
        told = (
            _read(SinkMark, text) for name, text in self._table.properties.items() if name.startswith(PREFIX)
        )
        single = (each.key for each in told if each is not None)
        return list(dict.fromkeys([*single, *self._older, *self._by_key]))

    def was_sunk_earlier(self, key: str, start: datetime | None) -> bool:
        """Whether there was a sink of a key, of an interval, that is too old to be kept by itself.

        Raises
        ------
        PlanError
            The property is not ours.
        """
        name = EARLIER + _digest(spec_of(key))
        text = self._table.properties.get(name)
        if text is None:
            return False
        found = _read(Earlier, text)
        if found is None:
            raise PlanError(
                f"table {'.'.join(self._table.name())}: property {name!r} does not say what was sunk before; "
                "remove it, if nothing of these intervals is sunk again"
            )
        return found.holds(key, start)

    def forgotten_by(self, key: str) -> str:
        """How users make a table forget a sink whose rows they have deleted by hand."""
        return f"its property {PREFIX}* with the key {key}"

    def is_told(self, key: str) -> bool:
        """Whether a property has a mark of a key."""
        return _name(key) in self._table.properties or key in self._older

    def of(self, key: str) -> SinkMark | None:
        """The mark of the sink of a key that is part of the table.

        None if nothing was, or was rolled back; or it is so old that no more than that is known.

        Raises
        ------
        PlanError
            The property is not ours.
        """
        told = self._told(key)
        return self.instead_of(told) if told is not None else self._of_snapshot(key)

    def may_stand(self, key: str) -> bool:
        """Whether some sink of a key may stand of which no more is known, as `of` gives none.

        So it is where others have taken the table back to what came before the last two sinks of a key, and
        the snapshots have expired that tell of those before them.
        """
        told, since = self._told(key), self._since(key)
        if told is None or since is None or self.of(key) is not None or self._history.covers(since):
            return False
        return told.absent_on is None or not self._history.may_descend_from(told.absent_on)

    def first_of(self, key: str) -> SnapshotPlace:
        """No snapshot before this place is of a sink of a key; the next one, if there was none."""
        told = self._told(key) or self._of_snapshot(key)
        return next_place(self._table) if told is None else told.since or START

    def trace_of(self, key: str) -> SinkMark | None:
        """The mark to keep for a key without a known sink in the table; None if no sink can turn up later."""
        told, since = self._told(key), self._since(key)
        if told is None or since is None:
            return None
        doubtful = self.may_stand(key)
        if not doubtful and not any(place_of(each) >= since for each in self._history.left):
            return None
        return SinkMark(
            key=key,
            fingerprint="",
            content="",
            rows=0,
            write="",
            start=told.start,
            end=told.end,
            whole=told.whole,
            absent_on=None if doubtful else self._table.metadata.current_snapshot_id,
            since=since,
        )

    def _told(self, key: str) -> SinkMark | None:
        """The mark of a key in the properties."""
        text = self._table.properties.get(_name(key))
        try:
            return self._older.get(key) if text is None else SinkMark.model_validate_json(text)
        except ValidationError as error:
            raise PlanError(
                f"table {'.'.join(self._table.name())}: property {_name(key)!r} does not say what was sunk "
                f"({error}); remove it, if nothing of that interval is in the table"
            ) from None

    def _since(self, key: str) -> SnapshotPlace | None:
        """As `first_of`; None if there was none, or one only, noted by an earlier version of this library."""
        told = self._told(key)
        if told is None or told.since is not None:
            return None if told is None else told.since
        return START if told.replaced is not None or key in self._older else None

    def instead_of(self, told: SinkMark) -> SinkMark | None:
        """The sink that is part of the table, where a property has a mark of its key."""
        found = self._of_snapshot(told.key)
        if found is not None and not found.fingerprint:
            found = found.model_copy(update={"start": told.start, "end": told.end, "whole": told.whole})
        if found is not None and found.write == told.write:
            return told
        if not told.write:
            return found
        # If it stood, its snapshot would be known.
        gone = told.earliest is not None and self._history.covers(told.earliest)
        if self._history.knows(told.write) or gone:
            if found is None and (gone or self._history.rolled_back(told.write)):
                return None if told.replaced is None else self.instead_of(told.replaced)
            return found or told
        # Its snapshot has expired: it stands, unless a later sink of the key does.
        return found if found is not None and _age(found) > _age(told) else told

    def _of_snapshot(self, key: str) -> SinkMark | None:
        """The mark in the snapshot of a key; if it has none, one with only the rows and the write."""
        if key not in self._by_key:
            return None
        summary = summary_of(self._by_key[key])
        return _read(SinkMark, summary.get(MARK_PROPERTY, "")) or SinkMark(
            key=key,
            fingerprint="",
            content="",
            rows=int(summary.get("added-records", 0)),
            write=summary.get(WRITE_PROPERTY, ""),
        )


def writes_alone(table: Table) -> set[str]:
    """The writes of sinks whose files hold the rows of that write only."""
    standing = StoredMarks(table)
    found = (standing.of(key) for key in standing.keys)
    return {each.write for each in found if each is not None and each.alone}


def mark_of(snapshot: Snapshot) -> SinkMark | None:
    """The mark of the sink that made a snapshot; None if none did."""
    return _read(SinkMark, summary_of(snapshot).get(MARK_PROPERTY, ""))


def tells_rows_apart(snapshot: Snapshot) -> bool:
    """Whether a snapshot is of a sink whose own rows lie in other files than those that it kept."""
    told = mark_of(snapshot)
    return told is not None and told.alone is True


def _read(model: type[Model], text: str) -> Model | None:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


def _age(sunk: SinkMark) -> tuple[str, float, str]:
    """Ascending with the time of the sink."""
    return sunk.write.partition("-")[0], sunk.at.timestamp() if sunk.at else 0.0, sunk.key


def _name(key: str) -> str:
    return PREFIX + _digest(key)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
