"""Surveys of which rows are deleted, and what they must hold: plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey
from tests.steps.store_nights import StoreSurvey, UpsertStoreSurvey
from tests.steps.upserts import Record, UpsertSurvey, plain_rows, rows_of

STAR = ["id", "ra", "dec", "mag", "night"]
"""The columns of `night_rows`."""
_IDS = 1_000_000  # of a night


@dataclass
class DeletingSurvey(UpsertSurvey):
    """Records of nights, and of deletes: of each key the order of the row that was deleted."""

    gone: list[tuple[int, int]] = field(default_factory=list)

    @property
    def state(self) -> dict[int, Record]:
        best: dict[int, tuple[tuple[float, int], Record | None]] = {}
        ranked: list[tuple[int, tuple[float, int], Record | None]] = [
            (record.id, (record.seq if self.ordered else number, 0), record)
            for number, its in self.nights.items()
            for record in its
        ]
        ranked += [(key, (rank, 1), None) for key, rank in self.gone]
        for key, rank, record in ranked:
            if key not in best or best[key][0] < rank:
                best[key] = (rank, record)
        return {key: each for key, (_, each) in best.items() if each is not None and each.op != "D"}

    def note_deleted(self, keys: Iterable[int]) -> None:
        """Note that the rows which some keys have now are deleted."""
        state = self.state
        self.gone += [(key, state[key].seq if self.ordered else state[key].night) for key in keys]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """What the catalog must have, sorted."""
        return sorted(record.row for record in self.state.values())

    def note_deleted_between(self, low: float, high: float) -> None:
        """Note that all rows with a magnitude between two are deleted."""
        self.note_deleted([key for key, each in self.state.items() if low < each.mag < high])

    def note_reassigned_between(self, low: float, high: float, night: int) -> None:
        """Note that all rows with a magnitude between two have another value of `night`."""
        chosen = {each for each in self.state.values() if low < each.mag < high}
        for number, its in self.nights.items():
            self.nights[number] = [each._replace(night=night) if each in chosen else each for each in its]


@dataclass
class DeletingStars(Survey):
    """Nights of rows without a key, and the ids of those that were deleted."""

    gone: set[int] = field(default_factory=set)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """What the catalog must have, sorted."""
        landed = [row for table in self.landed.values() for row in rows_of(table, STAR)]
        return sorted(row for row in landed if row[0] not in self.gone)

    def note_deleted_between(self, low: float, high: float) -> None:
        """Note that all rows with a magnitude between two are deleted."""
        self.gone |= {row[0] for row in self.rows if low < row[3] < high}

    def note_night(self, number: int) -> None:
        """Note that a night came again, with all its rows."""
        self.gone = {each for each in self.gone if each // _IDS != number}

    def assert_holds_the_state(self) -> None:
        """Check that the newest version is whole, and its leaf files have exactly the rows of the state."""
        catalog = self.catalog
        catalog.verify().raise_if_failed()
        assert catalog.metadata.total_rows == len(self.rows)
        assert plain_rows(self, catalog.metadata, STAR) == self.rows
        assert sorted(rows_of(catalog.read(), STAR)) == self.rows
        assert_margins_are_exact(catalog)


@dataclass
class DeletingStoreSurvey(UpsertStoreSurvey, DeletingSurvey):
    """As `DeletingSurvey`, below a URI."""


@dataclass
class DeletingStoreStars(StoreSurvey, DeletingStars):
    """As `DeletingStars`, below a URI."""
