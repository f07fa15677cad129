"""The equi-join spec: what a user writes in `include/specs/joins/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hipslake.specs.base import Frozen
from hipslake.specs.join import JoinSpec

Column = Annotated[str, Field(min_length=1)]


class NestedSpec(Frozen):
    """How the right rows are nested in the left ones: as a time series."""

    time: Column
    name: Column = "sources"  # of the column that holds them
    keep_empty: bool = True  # left rows without any right row stay, with an empty list


class EquijoinSpec(JoinSpec):
    """One join of two catalogs on a key, and how the outcome is published."""

    type: Literal["equijoin"]
    on: dict[Column, Column]  # {id: object_id}: the key of the left side, and of the right
    how: Literal["inner", "left", "anti"] = "inner"
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    nested: NestedSpec | None = None  # None: pairs of rows side by side

    @model_validator(mode="after")
    def _fits(self) -> EquijoinSpec:
        if len(self.on) != 1:
            raise ValueError(f"on: names {len(self.on)} pairs of columns; give one: {{id: object_id}}")
        if self.left.motion is not None or self.right.motion is not None:
            raise ValueError("motion: a join on a key does not ask where rows are; leave it out")
        if self.nested is not None and (self.how != "inner" or self.suffixes is not None):
            raise ValueError("nested: has no use for 'how' and 'suffixes'; leave them out (see keep_empty)")
        return self

    @property
    def keys(self) -> tuple[str, str]:
        """The key of either side."""
        return next(iter(self.on.items()))
