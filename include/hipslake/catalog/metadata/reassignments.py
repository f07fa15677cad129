"""Reassignments: rows that were given to other objects on request, and not by the records of a night."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hipslake.catalog.metadata.deletions import MOST_TEXT
from hipslake.specs.base import Frozen


class RowsOfNight(Frozen):
    """Rows of a reassignment, up to those of the next entry, that were of one night before."""

    first: int = Field(ge=0, description="number of the first of them in the reassignment")
    ordinal: int = Field(ge=0, lt=1 << 23, description="increment that had brought them")


class Reassignment(Frozen):
    """Rows that got another value in the column that names their object; an increment by itself.

    Its records are those of other nights, with this one value changed. Each has the order of the record that
    it was read from, and wins at a tie, so that a night that is run again does not take it back, and a later
    record of the key does.
    """

    ordinal: int = Field(ge=0, lt=1 << 23, description="of the increment that holds the rows")
    write_id: str
    rows: int = Field(ge=1)
    column: str = Field(description="that names the object of a row")
    chosen: str = Field(max_length=MOST_TEXT, description="how the rows were chosen, in words")
    nights: tuple[RowsOfNight, ...] = Field(min_length=1, description="of which nights the rows were")

    @model_validator(mode="after")
    def _all_rows_have_a_night(self) -> Reassignment:
        firsts = [each.first for each in self.nights]
        if firsts[0] or firsts != sorted(set(firsts)) or firsts[-1] >= self.rows:
            raise ValueError(
                "nights: their first rows ascend from 0, and are among the rows of the reassignment"
            )
        return self

    def nights_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ordinal of the night that each row was of before, by its number, int64[n]."""
        firsts = np.array([each.first for each in self.nights], np.int64)
        ordinals = np.array([each.ordinal for each in self.nights], np.int64)
        found: NDArray[np.int64] = ordinals[np.searchsorted(firsts, numbers, side="right") - 1]
        return found
