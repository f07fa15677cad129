"""What was sunk into a table: kept as its properties, which outlive snapshots, set by the commit itself.

Each metadata file of a table holds all of its properties, so they must not grow with every night. The newest
sinks are kept one by one. Of older ones stays which intervals they were of, and intervals that touch are one:
enough to know that rows would come twice, not to know whether they are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

from pydantic import AwareDatetime, ValidationError
from pyiceberg.table import Table

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen

Model = TypeVar("Model", bound=Frozen)

PREFIX = "hipslake.sunk."
EARLIER = "hipslake.sunk-earlier."

KEPT = 400
"""So many sinks a table keeps one by one: a year of nights."""


class Sunk(Frozen):
    """One sink that stands in a table."""

    key: str  # what the rows are of: `SinkOrder.key`
    fingerprint: str
    content: str  # what decided the rows, whatever the spec made of them
    rows: int  # that were added
    write: str  # id of the write
    at: AwareDatetime | None = None  # when; None: the id of the write says it, to the minute
    start: AwareDatetime | None = None  # of the interval
    end: AwareDatetime | None = None
    whole: bool = False  # of all that a source has: there is one such sink per spec


class Earlier(Frozen):
    """Older sinks of one spec."""

    spec: str
    intervals: tuple[tuple[AwareDatetime, AwareDatetime], ...] = ()  # [start, end), ascending, with gaps
    starts: tuple[AwareDatetime, ...] = ()  # of intervals whose end is not known
    others: tuple[str, ...] = ()  # digests of the keys of what was of no interval

    def holds(self, key: str, start: datetime | None) -> bool:
        """Whether there was a sink of a key."""
        if start is None or _digest(key) in self.others:
            return _digest(key) in self.others
        return start in self.starts or any(first <= start < last for first, last in self.intervals)

    def with_sinks(self, sinks: Iterable[Sunk]) -> Earlier:
        """Take up further ones."""
        intervals, starts, others = list(self.intervals), set(self.starts), set(self.others)
        for sunk in sinks:
            if sunk.start is None:
                others.add(_digest(sunk.key))
            elif sunk.end is None or sunk.end <= sunk.start:
                starts.add(sunk.start)
            else:
                intervals.append((sunk.start, sunk.end))
        joined: list[tuple[datetime, datetime]] = []
        for first, last in sorted(intervals):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return Earlier(
            spec=self.spec,
            intervals=tuple(joined),
            starts=tuple(sorted(starts)),
            others=tuple(sorted(others)),
        )


class PropertyChange(NamedTuple):
    """Properties of a table that a commit sets, and those that it removes."""

    put: dict[str, str]
    removed: tuple[str, ...] = ()


def sunk_properties(table: Table, sunk: Sunk) -> PropertyChange:
    """What a commit of a sink changes: one property per key, so that sinks do not overwrite each other's.

    Where there are too many of them, the oldest are brought together.
    """
    mine = _name(sunk.key)
    put = {mine: sunk.model_dump_json(exclude_defaults=True)}
    known = {name: _read(Sunk, text) for name, text in table.properties.items() if name.startswith(PREFIX)}
    single = [(name, each) for name, each in known.items() if each is not None and not each.whole]
    single = sorted((each for each in single if each[0] != mine), key=lambda each: _age(each[1]))
    old = single[: max(0, len(single) + 1 - KEPT)]
    by_spec: dict[str, list[Sunk]] = {}
    for _, each in old:
        by_spec.setdefault(_spec_of(each.key), []).append(each)
    for spec, sinks in by_spec.items():
        name = EARLIER + _digest(spec)
        standing = _earlier(table, spec) or Earlier(spec=spec)
        put[name] = standing.with_sinks(sinks).model_dump_json(exclude_defaults=True)
    return PropertyChange(put, tuple(name for name, _ in old))


def known_sink(table: Table, key: str) -> Sunk | None:
    """What was sunk under a key; None if nothing was, or it is so old that no more than that is known.

    Raises
    ------
    PlanError
        The property is not ours.
    """
    text = table.properties.get(_name(key))
    if text is None:
        return None
    try:
        return Sunk.model_validate_json(text)
    except ValidationError as error:
        raise PlanError(
            f"table {'.'.join(table.name())}: property {_name(key)!r} does not say what was sunk "
            f"({error}); remove it, if nothing of that interval is in the table"
        ) from None


def was_sunk_earlier(table: Table, key: str, start: datetime | None) -> bool:
    """Whether there was a sink of a key that the table does not keep by itself any more.

    Parameters
    ----------
    table : pyiceberg.table.Table
    key : str
        As of `SinkOrder`.
    start : datetime, optional
        Of its interval.

    Raises
    ------
    PlanError
        The property is not ours.
    """
    earlier = _earlier(table, _spec_of(key))
    return earlier is not None and earlier.holds(key, start)


def _earlier(table: Table, spec: str) -> Earlier | None:
    name = EARLIER + _digest(spec)
    text = table.properties.get(name)
    if text is None:
        return None
    found = _read(Earlier, text)
    if found is None:
        raise PlanError(
            f"table {'.'.join(table.name())}: property {name!r} does not say what was sunk before; remove "
            "it, if nothing of these intervals is sunk again"
        )
    return found


def _read(model: type[Model], text: str) -> Model | None:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


def _age(sunk: Sunk) -> tuple[str, float, str]:
    """Ascending with the time of the sink."""
    return sunk.write.partition("-")[0], sunk.at.timestamp() if sunk.at else 0.0, sunk.key


def _spec_of(key: str) -> str:
    return key.partition("/")[0]


def _name(key: str) -> str:
    return PREFIX + _digest(key)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
