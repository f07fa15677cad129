"""What a table should hold: rows with their owners, and what others have done to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

OUTSIDER = "outsider"


class Row(NamedTuple):
    """A row, and by which sink it came; or of which sink's row others have made it."""

    id: int
    x: float
    night: int
    owner: str
    made_of: str = ""

    @property
    def value(self) -> tuple[int, float, int]:
        return self[:3]


class Content(NamedTuple):
    """What was sunk under a key: which files, in the columns of that time, by which spec."""

    uri: str
    column: str
    by_night: bool
    mode: str


@dataclass(frozen=True)
class State:
    """What a snapshot holds."""

    rows: tuple[Row, ...] = ()
    sinks: tuple[tuple[str, Content], ...] = ()
    lost: tuple[Row, ...] = ()  # rows of sinks that others have deleted or changed
    held: tuple[Row, ...] = ()  # of them, those that they will bring back
    brought: bool = False  # others have brought rows back

    def with_sink(self, key: str, content: Content, stay: tuple[Row, ...], new: tuple[Row, ...]) -> State:
        """With a sink, which knows of its own rows only, and of what becomes of these."""
        sinks = {**dict(self.sinks), key: content}
        rows = tuple(
            row._replace(
                owner=OUTSIDER if row.owner == key else row.owner,
                made_of="" if row.made_of == key else row.made_of,
            )
            for row in stay
        )
        lost, held = (tuple(row for row in each if row.owner != key) for each in (self.lost, self.held))
        return replace(self, rows=rows + new, sinks=tuple(sinks.items()), lost=lost, held=held)

    def without(self, gone: Callable[[Row], bool], rows: tuple[Row, ...] = ()) -> State:
        """As others make it: some rows go, and others come."""
        lost = tuple(row for row in self.rows if gone(row) and row.owner != OUTSIDER)
        stay = tuple(row for row in self.rows if not gone(row))
        return replace(self, rows=stay + rows, lost=self.lost + lost)

    def has_changed(self, key: str) -> bool:
        """Whether a row of a sink is gone, and one that others have made of it stands."""
        lost = {row.id for row in self.lost if row.owner == key}
        return any(row.made_of == key and row.id in lost for row in self.rows)

    def may_have_changed(self, key: str) -> bool:
        strange = self.brought or any(row.owner == OUTSIDER for row in self.rows)
        return strange and any(row.owner == key for row in self.lost)
