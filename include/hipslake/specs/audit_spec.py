"""Write, audit, publish: the branch that a sink writes to, and what its rows are held to."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hipslake.specs.base import Column, ColumnNames, Frozen, repeated
from hipslake.specs.template import fill_template, is_templated

MAIN = "main"
"""The branch that readers see."""

_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_MOST_SQL = 100_000


def _moment(given: object) -> object:
    """YAML reads some dates itself."""
    return given.isoformat() if isinstance(given, date | datetime) else given


Bound = Annotated[
    Annotated[int, Field(strict=True)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[str, Field(min_length=1)],
    BeforeValidator(_moment),
]
"""A value of a column: a number, a text, or a date or time as ISO 8601 has it."""


class ValueRange(Frozen):
    """Between which values those of a column lie, both of them included; nulls are passed over."""

    min: Bound | None = None
    max: Bound | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ValueRange:
        if self.min is None and self.max is None:
            raise ValueError("give min, max, or both")
        numbers = [each for each in (self.min, self.max) if isinstance(each, int | float)]
        texts = [each for each in (self.min, self.max) if isinstance(each, str)]
        if numbers and texts:
            raise ValueError(f"min is {self.min!r} and max is {self.max!r}; write both alike")
        if len(numbers) == 2 and numbers[0] > numbers[1]:
            raise ValueError(f"min {self.min} is larger than max {self.max}")
        return self


class RowsRange(Frozen):
    """How many rows there have to be, both bounds included."""

    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _is_one(self) -> RowsRange:
        if self.min is None and self.max is None:
            raise ValueError("give min, max, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is larger than max {self.max}")
        return self


class AuditSpec(Frozen):
    """What rows on a branch are held to; at least one check.

    Attributes
    ----------
    over : {"came", "table"}
        Which rows all checks but `sql` look at: those of data files that main lacks, or all that the table
        would have.
    rows : RowsRange, optional
    not_null : tuple of str
        Columns.
    ranges : dict of str to ValueRange
        By column. A NaN lies in no range.
    unique : tuple of str
        Columns that tell rows apart together. Rows with a null in one of them are passed over, as in SQL.
    sql : str, optional
        A SELECT of DuckDB upon the tables `came` and `branch` (all rows); each row that it gives is a
        violation.
    """

    over: Literal["came", "table"] = "came"
    rows: RowsRange | None = None
    not_null: ColumnNames = ()
    ranges: dict[Column, ValueRange] = Field(default_factory=dict)
    unique: ColumnNames = ()
    sql: str | None = Field(default=None, min_length=1, max_length=_MOST_SQL)

    @model_validator(mode="after")
    def _checks_something(self) -> AuditSpec:
        if not (self.rows or self.not_null or self.ranges or self.unique or self.sql):
            raise ValueError("name a check: rows, not_null, ranges, unique or sql")
        for name in ("not_null", "unique"):
            if twice := repeated(getattr(self, name)):
                raise ValueError(f"{name}: {', '.join(twice)} stands twice")
        return self

    @field_validator("sql")
    @classmethod
    def _says_something(cls, given: str | None) -> str | None:
        if given is not None and not given.strip():
            raise ValueError("is empty; leave it out, or write a SELECT")
        return given

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the checks other than `sql` look at, each once."""
        return tuple(dict.fromkeys([*self.not_null, *self.ranges, *self.unique]))


def check_refs(*, branch: str | None, audit: AuditSpec | None, tag: str | None, has_interval: bool) -> None:
    """Hold the keys of branches and tags in a spec against each other.

    Parameters
    ----------
    branch, audit, tag
        As the spec has them.
    has_interval : bool
        Whether a run takes the rows of an interval.

    Raises
    ------
    ValueError
        They do not fit.
    """
    if branch is not None and (branch == MAIN or not _REF.fullmatch(branch)):
        what = "is what readers see" if branch == MAIN else "is no name of a branch"
        raise ValueError(f"branch: {branch!r} {what}; take another, with letters, digits, _, - and .")
    if branch is not None and audit is None:
        raise ValueError(
            "branch: nothing would bring its rows to main; write 'audit' with what they are held to"
        )
    if audit is not None and branch is None:
        raise ValueError("audit: is of rows on a branch; write 'branch: audit'")
    if tag is None:
        return
    if not has_interval:
        raise ValueError(
            "tag: is of a night, and a run of this spec takes rows of no interval; leave it out, or write "
            "'rows: increment' of a catalog, or files with the interval in their uri"
        )
    if not is_templated(tag, "tag"):
        raise ValueError(
            f"tag: {tag!r} would move with each night; name the night, as in 'night-{{{{ night }}}}'"
        )
    some = datetime(2026, 11, 21, tzinfo=UTC)
    name = fill_template(tag, some, some + timedelta(days=1))
    if name in (MAIN, branch) or not _REF.fullmatch(name):
        raise ValueError(f"tag: {name!r} is no name of a tag; take another, with letters, digits, _, - and .")
