"""Positions taken from another catalog: how sources come to lie in the pixels of their objects."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from hipslake.specs.base import NAME_PATTERN, Frozen


class Unmatched(StrEnum):
    """What becomes of rows whose id is null, or of no object."""

    FAIL = "fail"
    QUARANTINE = "quarantine"  # kept apart, whole and with a reason
    OWN_POSITION = "own_position"  # they lie where they were seen; ids of no object unmark the column


class PositionFromSpec(Frozen):
    """The catalog of objects that rows take their `_healpix_29` from, and how to tell whose a row is."""

    catalog: str = Field(pattern=NAME_PATTERN)  # of the same warehouse
    on: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]]  # {object_id: id}
    unmatched: Unmatched = Unmatched.FAIL
    max_fraction: float = Field(default=0.01, ge=0.0, le=1.0)  # of all rows; past it a quarantine fails too

    @property
    def column(self) -> str:
        """The column of the source that holds the id of the object."""
        return next(iter(self.on))

    @property
    def key(self) -> str:
        """The column of the objects that holds their ids."""
        return next(iter(self.on.values()))

    @model_validator(mode="after")
    def _one_pair(self) -> PositionFromSpec:
        if len(self.on) != 1:
            raise ValueError(
                f"on: names {len(self.on)} pairs of columns; give one, the source's and the objects': "
                "{object_id: id}"
            )
        return self
