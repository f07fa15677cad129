"""Which statistics a table has of the values of its columns: a part of the spec of a table."""

from __future__ import annotations

from pydantic import Field, model_validator

from hipslake.specs.base import ColumnNames, Frozen, repeated


class StatisticsSpec(Frozen):
    """What is counted of the values that a table has.

    Attributes
    ----------
    ndv : tuple of str
        Columns, or parts of structs (`struct.part`), whose distinct values are counted.
    recompute : bool
        Whether a sink reads these columns of files that it leaves as they are, where no earlier statistics
        tell of their rows; if not, its version has no statistics then.
    """

    ndv: ColumnNames = Field(min_length=1)
    recompute: bool = True

    @model_validator(mode="after")
    def _each_once(self) -> StatisticsSpec:
        if twice := repeated(self.ndv):
            raise ValueError(f"ndv: {', '.join(twice)} stands twice")
        return self
