"""The equi-join spec: what a user writes in `include/specs/joins/<name>.yaml`, as a frozen model."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from hipslake.errors import SpecError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog import NAME_PATTERN, Layout, ParquetSpec, Threshold, ThresholdUnit, VacuumSpec
from hipslake.specs.crossmatch import SideSpec

Column = Annotated[str, Field(min_length=1)]


class NestedSpec(Frozen):
    """How the right rows are nested in the left ones: as a time series."""

    time: Column
    name: Column = "sources"  # of the column that holds them
    keep_empty: bool = True  # left rows without any right row stay, with an empty list


class EquijoinSpec(Frozen):
    """One join of two catalogs on a key, and how the outcome is published."""

    name: str = Field(pattern=NAME_PATTERN)
    type: Literal["equijoin"]
    description: str = ""
    left: SideSpec
    right: SideSpec
    on: dict[Column, Column]  # {id: object_id}: the key of the left side, and of the right
    how: Literal["inner", "left", "anti"] = "inner"
    suffixes: tuple[str, str] | None = None  # of columns that both sides have; None: "", "_<right catalog>"
    nested: NestedSpec | None = None  # None: pairs of rows side by side
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    layout: Layout = Layout.HATS
    parquet: ParquetSpec = ParquetSpec()
    vacuum: VacuumSpec = VacuumSpec()

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

    def with_overrides(self, *, threshold: Threshold | str | None = None) -> EquijoinSpec:
        """Return this spec with a run's parameters put in, validated again; None keeps what the spec says.

        Raises
        ------
        SpecError
            When a parameter is wrong; the message says what would be right.
        """
        if threshold is None:
            return self
        try:
            return EquijoinSpec.model_validate(self.model_dump(mode="json") | {"threshold": str(threshold)})
        except ValidationError as error:
            told = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise SpecError(f"{self.name}: threshold: {told}") from None

    def fingerprint_text(self) -> str:
        """Return the canonical JSON of all that decides what is published; retention does not."""
        data: dict[str, Any] = self.model_dump(mode="json", exclude={"vacuum"})
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
