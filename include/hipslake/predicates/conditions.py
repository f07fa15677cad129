"""Conditions written in Python: `(C("ok") == True) & C("mag").in_interval(9.0, 12.0)`.

A query of a cube has one conjunction of conditions, each on one column, so that every condition can be asked
of the one dataset (or the index) that knows the column, before anything is joined. In a cube NaN is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from hipslake.errors import ConditionError, ConditionTypeError
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import (
    And,
    Compare,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    TypedLiteral,
    quoted,
)
from hipslake.predicates.typed_values import plain


class C:
    """A column; comparing it gives a condition.

    `==`, `!=`, `<`, `<=`, `>`, `>=` with a value; `isin([...])`; `in_interval(start, stop)`, with `start`
    included and `stop` not, either of which may be left out; `is_null()` and `not_null()`, of the value that
    the column's dataset stores. Conditions are joined with `&`.

    Examples
    --------
    >>> print((C("ok") == True) & C("mag").in_interval(9.0, 12.0))
    ok = true and mag >= 9.0 and mag < 12.0
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConditionTypeError(f"C({name!r}): a column is named by a text")
        self.name = name

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compared(">=", other)

    def isin(self, values: Iterable[Any]) -> Condition:
        """The value is one of some."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ConditionTypeError(
                f"C({self.name!r}).isin({values!r}): give a list of values, such as [{values!r}]"
            )
        return Condition(self.name, InList(self.name, tuple(_literal(self.name, value) for value in values)))

    def in_interval(self, start: Any = None, stop: Any = None) -> Condition:
        """The value lies in [start, stop); without both, any value does, and null too."""
        bounds = ((">=", start), ("<", stop))
        parts = tuple(
            Compare(self.name, operator, _literal(self.name, value))
            for operator, value in bounds
            if value is not None
        )
        return Condition(self.name, parts[0] if len(parts) == 1 else And(parts))

    def is_null(self) -> Condition:
        """The column's dataset has the cell, without a value."""
        return Condition(self.name, IsNull(self.name))

    def not_null(self) -> Condition:
        """The column's dataset has the cell, with a value."""
        return Condition(self.name, Not(IsNull(self.name)))

    def _compared(self, operator: str, value: object) -> Condition:
        return Condition(self.name, Compare(self.name, operator, _literal(self.name, value)))

    def __repr__(self) -> str:
        return f"C({self.name!r})"

    def __bool__(self) -> NoReturn:
        raise ConditionTypeError(
            f"{self!r} is a column, not a truth value; compare it, as in {self!r} == True"
        )


@dataclass(frozen=True)
class Condition:
    """What the values of one column have to be.

    Attributes
    ----------
    column : str
    predicate : Predicate
        On this column alone.
    """

    column: str
    predicate: Predicate

    @property
    def active(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.predicate.columns)

    def __and__(self, other: Condition | Conjunction) -> Conjunction:
        return Conjunction.of(self) & other

    def __or__(self, other: object) -> NoReturn:
        raise ConditionTypeError(
            f"'{self}' is joined by |; a query has one conjunction. Use isin([...]) for several values of a "
            "column, or query twice"
        )

    def __invert__(self) -> NoReturn:
        raise ConditionTypeError(f"'{self}' is negated by ~; write the opposite condition, such as != for ==")

    def __bool__(self) -> NoReturn:
        raise ConditionTypeError(
            f"'{self}' is no truth value; join conditions by &, not by 'and', and write a chain such as "
            f"1 <= C({self.column!r}) < 5 as C({self.column!r}).in_interval(1, 5)"
        )

    def __str__(self) -> str:
        return str(self.predicate)


@dataclass(frozen=True)
class Conjunction:
    """Conditions that all have to be met."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, given: Conditions) -> Conjunction:
        """The conjunction of whatever a query was given: none, one, some, or a conjunction.

        Raises
        ------
        ConditionTypeError
            Something among it is no condition.
        """
        if given is None:
            return cls()
        if isinstance(given, Conjunction):
            return given
        if isinstance(given, Condition):
            return cls((given,))
        if isinstance(given, str | bytes | C) or not isinstance(given, Iterable):
            raise ConditionTypeError(f"{given!r} is no condition; write one as in C('x') == 1")
        return cls(tuple(each for part in given for each in cls.of(part).conditions))

    @classmethod
    def of_predicate(cls, predicate: Predicate) -> Conjunction:
        """The conditions that a predicate is made of.

        Raises
        ------
        ConditionError
            A part of it is on several columns.
        """
        if isinstance(predicate, And):
            return cls(tuple(each for part in predicate.parts for each in cls.of_predicate(part).conditions))
        if len(predicate.columns) != 1:
            names = ", ".join(map(quoted, sorted(predicate.columns)))
            either = "; use 'in (...)' for several values of a column" if isinstance(predicate, Or) else ""
            raise ConditionError(
                f"'{predicate}' is on several columns ({names}); a query has one conjunction of conditions "
                f"on one column each, so query twice{either}. Texts stand between single quotes: 'text'"
            )
        return cls((Condition(min(predicate.columns), predicate),))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it asks for anything."""
        return frozenset(each.column for each in self.conditions if each.active)

    @property
    def predicate(self) -> Predicate:
        """All conditions together."""
        return And(tuple(each.predicate for each in self.conditions if each.active))

    def on(self, columns: Iterable[str]) -> Conjunction:
        """The part that asks for anything of some columns."""
        wanted = frozenset(columns)
        return Conjunction(tuple(each for each in self.conditions if each.active and each.column in wanted))

    def check(self, schema: pa.Schema) -> None:
        """Look whether the conditions can be asked of some columns.

        Raises
        ------
        ConditionTypeError
            A column's type is another than that of the value.
        """
        for each in self.conditions:
            try:
                check_predicate(each.predicate, schema, nan_is_null=True)
            except UnfitError as error:
                raise ConditionTypeError(f"condition '{each}': {error}") from None

    def meeting(self, table: pa.Table) -> pa.Table:
        """The rows of a table that meet all conditions.

        Raises
        ------
        ConditionTypeError
            As of `check`.
        """
        if not self.columns:
            return table
        self.check(table.schema)
        return passing(self.predicate, table, nan_is_null=True)

    def __and__(self, other: Condition | Conjunction) -> Conjunction:
        return Conjunction((*self.conditions, *Conjunction.of(other).conditions))

    def __or__(self, other: object) -> NoReturn:
        raise ConditionTypeError(f"'{self}' is joined by |; a query has one conjunction, so query twice")

    def __bool__(self) -> NoReturn:
        raise ConditionTypeError(f"'{self}' is no truth value; join conditions by &, not by 'and'")

    def __str__(self) -> str:
        return str(And(tuple(each.predicate for each in self.conditions if each.active)))


Conditions = Condition | Conjunction | Iterable["Condition | Conjunction"] | None
"""What a query takes as conditions."""


def _literal(column: str, value: Any) -> Literal:
    if isinstance(value, C):
        raise ConditionTypeError(f"{column!r} is compared with column {value.name!r}; give a value")
    if isinstance(value, Condition | Conjunction):
        raise ConditionTypeError(
            f"{column!r} is compared with a condition; put each in parentheses, joined by &"
        )
    return TypedLiteral(plain(value, column))
