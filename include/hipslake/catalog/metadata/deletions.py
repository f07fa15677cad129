"""Deletions: rows that were taken out of a catalog on request, and not by the records of a night."""

from __future__ import annotations

from pydantic import Field, model_validator

from hipslake.specs.base import Frozen

MOST_TEXT = 200
"""Most characters of what a deletion says of the rows that were chosen."""


class Deletion(Frozen):
    """A delete of rows of any increments, which was a version by itself.

    In mode upsert it is a set of records: of each row, that its key has none. Such a record has the order of
    the row that it takes away, and wins at a tie, so that only a later record of the key brings a row back.
    Its `_row` is the ordinal of the deletion, and the ordinal of the row's increment in place of a number.
    The rows are superseded rows then, and counted as such.

    In mode append, rows have no key: what counts is how many rows of each increment are gone. An increment
    that takes the place of an earlier one brings its rows anew, and is no longer listed here.
    """

    ordinal: int = Field(ge=0, lt=1 << 23, description="shared with the increments: no two have the same")
    write_id: str
    rows: int = Field(ge=1, description="rows of leaves that it took out when it came")
    chosen: str = Field(max_length=MOST_TEXT, description="how the rows were chosen, in words")
    rows_of: dict[int, int] | None = Field(
        default=None, description="mode append: by the ordinal of each increment, its rows that are gone"
    )

    @model_validator(mode="after")
    def _counts_rows(self) -> Deletion:
        if self.rows_of is not None and not all(rows > 0 for rows in self.rows_of.values()):
            raise ValueError("rows_of: says of how many rows of each increment are gone, at least 1")
        return self

    @property
    def rows_gone(self) -> int:
        """Rows of increments that are in no leaf because of it; mode upsert: 0, they are superseded."""
        return sum((self.rows_of or {}).values())

    def without(self, ordinal: int) -> Deletion | None:
        """What is left of it when an increment has brought its rows anew; None if that is nothing."""
        if self.rows_of is None or ordinal not in self.rows_of:
            return self
        left = {each: rows for each, rows in self.rows_of.items() if each != ordinal}
        return self.model_copy(update={"rows_of": left}) if left else None
