"""The tree of a predicate: what forms, specs and Python say of rows, in one form that all readers evaluate.

A predicate is true, false or unknown for a row, as in SQL; only rows for which it is true are kept. A
comparison with null is unknown, and so is its negation. `hipslake.predicates.evaluation` says what a node
means for rows, `hipslake.predicates.pruning` what may be skipped for it.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

KEYWORDS = frozenset({"and", "or", "not", "is", "in", "between", "null", "nan", "true", "false"})
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator when both sides change places."""
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class NumberLiteral:
    """A number as it was written; exact, until a column of real numbers takes it for the nearest double."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextLiteral:
    """A text; also a date or time, where the column has these."""

    text: str

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'"


@dataclass(frozen=True)
class TruthLiteral:
    """True or false."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class TypedLiteral:
    """A value of Python, which has to be of the column's type: 1 is no double, and True is no integer."""

    value: Any

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, bool):
            return str(TruthLiteral(value))
        if isinstance(value, str | datetime.date):
            return str(TextLiteral(value if isinstance(value, str) else value.isoformat()))
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, bytes):
            return str(TextLiteral(value.decode("utf-8", "replace")))
        return str(TextLiteral(str(value)))


Literal = NumberLiteral | TextLiteral | TruthLiteral | TypedLiteral
"""What a column is compared with."""


class Predicate(ABC):
    """A node of the tree."""

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""


@dataclass(frozen=True)
class OfColumn(Predicate):
    """A test of the values of one column."""

    column: str

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset([self.column])


@dataclass(frozen=True)
class OfParts(Predicate):
    """Several predicates, joined by a word."""

    parts: tuple[Predicate, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """Those of all parts."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True)
class Compare(OfColumn):
    """A column compared with a literal by one of `OPERATORS`."""

    operator: str
    literal: Literal

    def __str__(self) -> str:
        return f"{quoted(self.column)} {self.operator} {self.literal}"


@dataclass(frozen=True)
class CompareColumns(Predicate):
    """Two columns of a row compared with each other by one of `OPERATORS`."""

    left: str
    operator: str
    right: str

    @property
    def columns(self) -> frozenset[str]:
        """Both."""
        return frozenset([self.left, self.right])

    def __str__(self) -> str:
        return f"{quoted(self.left)} {self.operator} {quoted(self.right)}"


@dataclass(frozen=True)
class InList(OfColumn):
    """The value of a column equals one of some literals."""

    literals: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"{quoted(self.column)} in ({', '.join(map(str, self.literals))})"


@dataclass(frozen=True, eq=False)
class InArray(OfColumn):
    """The value of a column is one of many, an array of the column's type without nulls."""

    values: pa.Array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InArray) and self.column == other.column and self.values.equals(other.values)

    def __hash__(self) -> int:
        return hash((self.column, len(self.values)))

    def __str__(self) -> str:
        return f"{quoted(self.column)} in ({len(self.values)} values)"


@dataclass(frozen=True)
class IsNull(OfColumn):
    """A column has no value."""

    def __str__(self) -> str:
        return f"{quoted(self.column)} is null"


@dataclass(frozen=True)
class IsNan(OfColumn):
    """A value of a floating column is NaN; false for null."""

    def __str__(self) -> str:
        return f"{quoted(self.column)} is nan"


@dataclass(frozen=True)
class IsTrue(OfColumn):
    """A column of booleans, as a condition by itself."""

    def __str__(self) -> str:
        return quoted(self.column)


@dataclass(frozen=True)
class Not(Predicate):
    """The negation; unknown stays unknown."""

    of: Predicate

    @property
    def columns(self) -> frozenset[str]:
        """Those of what is negated."""
        return self.of.columns

    def __str__(self) -> str:
        if isinstance(self.of, IsNull | IsNan):
            return f"{quoted(self.of.column)} is not {'null' if isinstance(self.of, IsNull) else 'nan'}"
        if isinstance(self.of, InList):
            return str(self.of).replace(" in (", " not in (", 1)
        return f"not {_enclosed(self.of)}"


@dataclass(frozen=True)
class And(OfParts):
    """All parts hold; without any, every row passes."""

    def __str__(self) -> str:
        return " and ".join(_enclosed(part) if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True)
class Or(OfParts):
    """At least one part holds; without any, no row passes."""

    def __str__(self) -> str:
        return " or ".join(str(part) for part in self.parts)


@dataclass(frozen=True, eq=False)
class ArrowExpression(Predicate):
    """An expression of Arrow, which only Arrow understands; evaluated on rows and never on statistics.

    Attributes
    ----------
    expression : pyarrow.compute.Expression
        Gives true, false or null.
    names : tuple of str
        The columns that it looks at.
    """

    expression: pc.Expression
    names: tuple[str, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrowExpression) and bool(self.expression.equals(other.expression))

    def __hash__(self) -> int:
        return hash(self.names)

    def __str__(self) -> str:
        return str(self.expression)


def quoted(name: str) -> str:
    """The name of a column as texts of filters have it.

    Examples
    --------
    >>> quoted("mag"), quoted("B-V"), quoted("in")
    ('mag', '"B-V"', '"in"')
    """
    if _WORD.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _enclosed(node: Predicate) -> str:
    return f"({node})" if isinstance(node, And | Or | ArrowExpression) else str(node)
