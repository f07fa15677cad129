"""Conditions of cube queries: `(C("ok") == True) & C("mag").in_interval(9.0, 12.0)`.

A query has one conjunction of conditions, each on one column, so that every condition can be asked of the one
dataset (or the index) that knows the column, before anything is joined. Null meets no comparison.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.literals import plain, typed
from hipslake.errors import ConditionError, ConditionTypeError
from hipslake.membership import is_one_of

_OPERATORS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class C:
    """A column of a cube; comparing it gives a condition.

    `==`, `!=`, `<`, `<=`, `>`, `>=` with a value; `isin([...])`; `in_interval(start, stop)`, with `start`
    included and `stop` not, either of which may be left out; `is_null()` and `not_null()`, of the value that
    the column's dataset stores. Conditions are joined with `&`.

    Examples
    --------
    >>> print((C("ok") == True) & C("mag").in_interval(9.0, 12.0))
    (ok == True) & (mag.in_interval(9.0, 12.0))
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConditionTypeError(f"C({name!r}): a column is named by a text")
        self.name = name

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Comparison(self.name, "==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Comparison(self.name, "!=", other)

    def __lt__(self, other: object) -> Condition:
        return Comparison(self.name, "<", other)

    def __le__(self, other: object) -> Condition:
        return Comparison(self.name, "<=", other)

    def __gt__(self, other: object) -> Condition:
        return Comparison(self.name, ">", other)

    def __ge__(self, other: object) -> Condition:
        return Comparison(self.name, ">=", other)

    def isin(self, values: Iterable[Any]) -> Condition:
        """The value is one of some."""
        return IsIn(self.name, values)  # type: ignore[arg-type]

    def in_interval(self, start: Any = None, stop: Any = None) -> Condition:
        """The value lies in [start, stop); without both, any value does, and null too."""
        return InInterval(self.name, start, stop)

    def is_null(self) -> Condition:
        """The column's dataset has the cell, without a value."""
        return NullTest(self.name, True)

    def not_null(self) -> Condition:
        """The column's dataset has the cell, with a value."""
        return NullTest(self.name, False)

    def __repr__(self) -> str:
        return f"C({self.name!r})"

    def __bool__(self) -> NoReturn:
        raise ConditionTypeError(
            f"{self!r} is a column, not a truth value; compare it, as in {self!r} == True"
        )


@dataclass(frozen=True)
class Condition(ABC):
    """What the values of one column have to be."""

    column: str
    active: ClassVar[bool] = True

    @abstractmethod
    def expression(self, field: pa.Field) -> pc.Expression:
        """The condition for Arrow; false or null for rows that do not meet it.

        Raises
        ------
        ConditionTypeError
            The column's type is another than that of the value.
        """

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


@dataclass(frozen=True)
class Comparison(Condition):
    """The value compares with another in some way."""

    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.op not in _OPERATORS:
            raise ConditionError(f"{self.op!r} compares nothing; use one of {', '.join(_OPERATORS)}")
        object.__setattr__(self, "value", _value(self.column, self.value))

    def expression(self, field: pa.Field) -> pc.Expression:
        scalar = _typed(self.value, field, self)
        found = _OPERATORS[self.op](pc.field(field.name), pc.scalar(scalar))
        # NaN stands for null here, and it alone is unequal to everything.
        return found & ~pc.field(field.name).is_nan() if _may_be_nan(field, self.op) else found

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value!r}"


@dataclass(frozen=True)
class IsIn(Condition):
    """The value is one of some."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        values = self.values
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ConditionTypeError(
                f"C({self.column!r}).isin({values!r}): give a list of values, such as [{values!r}]"
            )
        object.__setattr__(self, "values", tuple(_value(self.column, value) for value in values))

    def expression(self, field: pa.Field) -> pc.Expression:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        scalars = [_typed(value, field, self).as_py() for value in self.values]
        return is_one_of(pc.field(field.name), pa.array(scalars, kind))

    def __str__(self) -> str:
        return f"{self.column} in [{', '.join(map(repr, self.values))}]"


@dataclass(frozen=True)
class InInterval(Condition):
    """The value is in [start, stop)."""

    start: Any
    stop: Any

    def __post_init__(self) -> None:
        for name in ("start", "stop"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _value(self.column, value))

    @property
    def active(self) -> bool:  # type: ignore[override]
        """Whether it asks for anything."""
        return self.start is not None or self.stop is not None

    def expression(self, field: pa.Field) -> pc.Expression:
        column, found = pc.field(field.name), pc.scalar(True)
        if self.start is not None:
            found = column >= pc.scalar(_typed(self.start, field, self))
        if self.stop is not None:
            below = column < pc.scalar(_typed(self.stop, field, self))
            found = below if self.start is None else found & below
        return found

    def __str__(self) -> str:
        return f"{self.column}.in_interval({self.start!r}, {self.stop!r})"


@dataclass(frozen=True)
class NullTest(Condition):
    """There is no value; or there is one. NaN is none."""

    null: bool

    def expression(self, field: pa.Field) -> pc.Expression:
        found = pc.field(field.name).is_null(nan_is_null=pa.types.is_floating(field.type))
        return found if self.null else ~found

    def __str__(self) -> str:
        return f"{self.column} is {'null' if self.null else 'not null'}"


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

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it asks for anything."""
        return frozenset(each.column for each in self.conditions if each.active)

    def on(self, columns: Iterable[str]) -> Conjunction:
        """The part that asks for anything of some columns."""
        wanted = frozenset(columns)
        return Conjunction(tuple(each for each in self.conditions if each.active and each.column in wanted))

    def expression(self, schema: pa.Schema) -> pc.Expression | None:
        """All conditions for Arrow; None where there are none.

        Raises
        ------
        ConditionTypeError
            As for `Condition.expression`.
        """
        found: pc.Expression | None = None
        for condition in self.conditions:
            if condition.active:
                each = condition.expression(schema.field(condition.column))
                found = each if found is None else found & each
        return found

    def meeting(self, table: pa.Table) -> pa.Table:
        """The rows of a table that meet all conditions."""
        expression = self.expression(table.schema)
        return table if expression is None else table.filter(expression)

    def to_json(self) -> list[dict[str, Any]]:
        """The conditions as what JSON can hold; dates and times cannot be held."""
        return [{"type": type(each).__name__, **vars(each)} for each in self.conditions]

    @classmethod
    def from_json(cls, given: Iterable[Mapping[str, Any]]) -> Conjunction:
        """The inverse of `to_json`.

        Raises
        ------
        ConditionError
            It is not what `to_json` gives.
        """
        return cls(tuple(_from_json(each) for each in given))

    def __and__(self, other: Condition | Conjunction) -> Conjunction:
        return Conjunction((*self.conditions, *Conjunction.of(other).conditions))

    def __or__(self, other: object) -> NoReturn:
        raise ConditionTypeError(f"'{self}' is joined by |; a query has one conjunction, so query twice")

    def __bool__(self) -> NoReturn:
        raise ConditionTypeError(f"'{self}' is no truth value; join conditions by &, not by 'and'")

    def __str__(self) -> str:
        return " & ".join(f"({each})" for each in self.conditions)


Conditions = Condition | Conjunction | Iterable["Condition | Conjunction"] | None
"""What a query takes as conditions."""

_TYPES: dict[str, type[Condition]] = {
    each.__name__: each for each in (Comparison, IsIn, InInterval, NullTest)
}


def _value(column: str, value: Any) -> Any:
    if isinstance(value, C):
        raise ConditionTypeError(f"{column!r} is compared with column {value.name!r}; give a value")
    if isinstance(value, Condition | Conjunction):
        raise ConditionTypeError(
            f"{column!r} is compared with a condition; put each in parentheses, joined by &"
        )
    return plain(value, column)


def _typed(value: Any, field: pa.Field, condition: Condition) -> pa.Scalar:
    return typed(value, field.type, f"column {field.name!r}", str(condition))


def _may_be_nan(field: pa.Field, op: str) -> bool:
    return op == "!=" and pa.types.is_floating(field.type)


def _from_json(given: Mapping[str, Any]) -> Condition:
    data = dict(given)
    kind = _TYPES.get(str(data.pop("type", "")))
    if kind is None:
        raise ConditionError(f"{given!r} is no condition; its type is one of {', '.join(sorted(_TYPES))}")
    try:
        return kind(**data)
    except TypeError as error:
        raise ConditionError(f"{given!r} is no condition: {error}") from error
