"""What may happen to a catalog in mode upsert, one commit after the other, held against a dict after each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import InputError

from tests.catalog import plain_changes
from tests.steps import in_process
from tests.steps.upserts import (
    TWO_GROUPS,
    Record,
    UpsertHistory,
    UpsertSurvey,
    history_of,
    rows_of,
    state_of,
    table_of,
)

KEYS = 40
NIGHTS = 6  # so that they come late, and again
MARGIN = "\nmargin: {arcsec: [3600]}"


class Shape(NamedTuple):
    """What catalogs differ in."""

    layout: str  # "hats" or "hipscat"
    append: str  # "rewrite" or "add_file"
    groups: int  # 1 or 2
    ordered: bool  # by order_by, or by the nights

    def __str__(self) -> str:
        groups = "one group" if self.groups == 1 else "two groups"
        return f"{self.layout}, {self.append}, {groups}, {'by order' if self.ordered else 'by night'}"

    def survey(self, place: Path, kind: type[UpsertSurvey] = UpsertSurvey) -> UpsertSurvey:
        """A survey in which nothing has happened yet."""
        groups = TWO_GROUPS if self.groups == 2 else ""
        more = f"append: {self.append}\n{groups}{MARGIN}"
        return kind(place, threshold="10 rows", layout=self.layout, more=more, ordered=self.ordered)


SHAPES = [
    Shape(*each)
    for each in itertools.product(("hats", "hipscat"), ("rewrite", "add_file"), (1, 2), (True, False))
]


def random_records(
    rng: np.random.Generator, survey: UpsertSurvey, number: int, count: int, keys: int = KEYS
) -> list[Record]:
    """Records of some keys: puts at old and new places, and deletes; no two of a key are of one order."""
    taken = {(each.id, each.seq) for other, its in survey.nights.items() if other != number for each in its}
    found: list[Record] = []
    for key in rng.choice(keys, count, replace=survey.ordered).tolist():
        seq = int(rng.integers(0, 1000))
        if (key, seq) in taken:
            continue
        taken.add((key, seq))
        if rng.random() < 0.25:
            found.append(Record("D", key, seq, None, None, 0.0, number))
            continue
        place = np.random.default_rng([key, int(rng.integers(0, 3))])
        ra, dec = (
            (place.uniform(80, 81), place.uniform(20, 21))
            if key % 2
            else (place.uniform(0, 360), place.uniform(-80, 80))
        )
        found.append(Record("IU"[int(rng.integers(2))], key, seq, ra, dec, float(rng.normal()), number))
    return found


class Story:
    """A catalog, what it held in each version that can be opened, and what happens to it next.

    Parameters
    ----------
    survey : UpsertSurvey
    seed : int
        Of all that is random.
    """

    def __init__(self, survey: UpsertSurvey, seed: int) -> None:
        self.survey = survey
        self.rng = np.random.default_rng(seed)
        self.nights: dict[int, dict[float, list[Record]]] = {}  # of each version that can be opened
        self.commits = 0
        self.corrections = 0
        self.happened: list[str] = []  # what went through, in order
        self._events: dict[str, tuple[float, Callable[[], None]]] = {
            "night": (0.46, self._night),
            "empty": (0.07, self._empty),
            "deletes": (0.08, self._deletes),
            "delete": (0.06, self._delete),
            "reassign": (0.06, self._reassign),
            "conflict": (0.07, self._conflict),
            "compact": (0.08, self._compact),
            "rollback": (0.06, self._roll_back),
            "vacuum": (0.06, self._vacuum),
        }

    def go_on(self, commits: int) -> None:
        """Let things happen until there are so many commits more; look at the catalog after each."""
        names = list(self._events)
        weights = [weight for weight, _ in self._events.values()]
        until = self.commits + commits
        while self.commits < until:
            name = names[int(self.rng.choice(len(names), p=weights))]
            self.happened.append(name)
            self._events[name][1]()
            self._look()

    def look_of_changes(self, since: int, until: int) -> None:
        """Check that the changes between two versions are exactly those between what they held."""
        old, new = (self._rows(version) for version in (since, until))
        changes = self.survey.catalog.changes(since, until).to_arrow()
        both = [key for key in old.keys() & new.keys() if old[key] != new[key]]
        expected = {
            "delete": [old[key] for key in old.keys() - new.keys()],
            "insert": [new[key] for key in new.keys() - old.keys()],
            "update_before": [old[key] for key in both],
            "update_after": [new[key] for key in both],
        }
        told = {
            kind: rows_of(changes.filter(pa.compute.equal(changes["_change"], kind))) for kind in expected
        }
        for kind, rows in expected.items():
            assert sorted(told[kind]) == sorted(rows), f"{kind} from {since} to {until}"

    @property
    def ids(self) -> list[int]:
        """Those of all rows that the newest version holds, ascending."""
        return sorted(self.survey.state)

    def _rows(self, version: int) -> dict[int, tuple[Any, ...]]:
        held = state_of(self.nights[version], ordered=self.survey.ordered)
        return {key: record.row for key, record in held.items()}

    def _look(self) -> None:
        if not self.survey.is_published:
            assert not self.survey.state
            return
        version = self.survey.catalog.version
        self.survey.assert_holds_the_state()
        if version not in self.nights:
            self.commits += 1
            self.nights[version] = {night: list(its) for night, its in self.survey.nights.items()}
            since, until = self.rng.choice(list(self.nights), 2).tolist()
            self.look_of_changes(since, until)

    def _any_night(self) -> int:
        return int(self.rng.integers(NIGHTS))

    def _night(self) -> None:
        number = self._any_night()
        count = int(self.rng.integers(1, KEYS))
        self.survey.upsert(number, random_records(self.rng, self.survey, number, count))

    def _empty(self) -> None:
        self.survey.upsert(self._any_night(), [])

    def _deletes(self) -> None:
        number = self._any_night()
        its = random_records(self.rng, self.survey, number, int(self.rng.integers(1, 20)))
        self.survey.upsert(number, [each._replace(op="D", ra=None, dec=None) for each in its])

    def _delete(self) -> None:
        """Rows are deleted on request: that is a record of each key, right after that of its row."""
        if not self.nights or isinstance(self.survey, UpsertHistory):  # which keeps all rows
            return
        keys = self.rng.choice(KEYS, int(self.rng.integers(1, 12)), replace=False).tolist()
        gone = [record for key, record in self.survey.state.items() if key in keys]
        self.survey.catalog.delete(keys=keys, force=True)
        self._correct([each._replace(op="D", ra=None, dec=None) for each in gone])

    def _reassign(self) -> None:
        """Rows get another value in a column on request: each by a record, right after that of its row."""
        if not self.nights or isinstance(self.survey, UpsertHistory):
            return
        keys = self.rng.choice(KEYS, int(self.rng.integers(1, 12)), replace=False).tolist()
        some = [record for key, record in self.survey.state.items() if key in keys]
        values = {key: float(self.rng.integers(3)) for key in keys}
        if self.rng.random() < 0.5:
            given = {"id": keys, "mag": [values[key] for key in keys]}
            self.survey.catalog.reassign(given, column="mag", force=True)
        else:
            values = dict.fromkeys(keys, values[keys[0]])
            self.survey.catalog.reassign(keys, values[keys[0]], column="mag", force=True)
        self._correct([each._replace(mag=values[each.id]) for each in some if each.mag != values[each.id]])

    def _correct(self, records: list[Record]) -> None:
        self.corrections += 1
        for each in records:
            after = each._replace(correction=self.corrections)
            self.survey.nights.setdefault(each.night + 0.5, []).append(after)

    def _conflict(self) -> None:
        """A record has the order of another night's: it is refused, and nothing changes."""
        number = self._any_night()
        nights = self.survey.nights
        others = [each for at, its in nights.items() if at != number and at % 1 == 0 for each in its]
        if not others or not self.survey.ordered:
            return
        versions = self.survey.catalog.versions() if self.nights else []
        one = others[int(self.rng.integers(len(others)))]
        self.survey.land(number, table_of([one._replace(op="U", ra=1.0, dec=2.0)]))
        with pytest.raises(InputError, match="of the same order"):
            self.survey.append(number)
        assert (self.survey.catalog.versions() if self.nights else []) == versions
        self.happened.append("refused")

    def _compact(self) -> None:
        if self.nights and "add_file" in self.survey.more:
            self.survey.compact(min_files=2)

    def _roll_back(self) -> None:
        if not self.nights:
            return
        version = int(self.rng.choice(list(self.nights)))
        if version != self.survey.catalog.version:
            self.survey.catalog.rollback(version)
            self.survey.nights = {night: list(its) for night, its in self.nights[version].items()}

    def _vacuum(self) -> None:
        if self.nights:
            keep = int(self.rng.integers(1, 5))
            self.survey.catalog.vacuum(keep_versions=keep, keep_days=0, dry_run=False)
            left = self.survey.catalog.versions()
            self.nights = {version: its for version, its in self.nights.items() if version in left}

    def show(self) -> None:
        """Show the newest version to readers of HATS."""
        in_process.show(self.survey.begin())


class HistoryStory(Story):
    """The story of a catalog that keeps all rows with their intervals of validity."""

    def look_of_changes(self, since: int, until: int) -> None:
        """Hold the changes between two versions against what plain pyarrow reads of both."""
        changes = self.survey.catalog.changes(since, until).to_arrow()
        old, new = (plain_changes.rows_of(self.survey.root, version) for version in (since, until))
        plain_changes.assert_leads(changes, old, new, ["id", "valid_from"])

    @property
    def ids(self) -> list[int]:
        return sorted(row[0] for row in history_of(self.survey.nights, ordered=self.survey.ordered))


def story_of(place: Path, seed: int) -> Story:
    """The story that a seed gives: shapes take turns, and every fourth of each keeps all its rows."""
    turn, at = divmod(seed, len(SHAPES))
    if turn % 4 == 3:
        return HistoryStory(SHAPES[at].survey(place, UpsertHistory), seed)
    return Story(SHAPES[at].survey(place), seed)
