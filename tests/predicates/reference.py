"""What predicates mean, row by row in plain Python: no Arrow, no numpy, nothing of the library.

Values of a row: None, bool, int, Fraction (decimals), float (IEEE 754), and bytes (texts as UTF-8). Times are
whole nanoseconds, of 1970 or of midnight, as int. Three values: True, False, and None for unknown.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Value = Any
Truth = bool | None
Row = dict[str, Value]


@dataclass(frozen=True)
class Literal:
    """A value as a predicate has it.

    Attributes
    ----------
    text : str
        In the language of filters.
    value : Value
        What a column's values are compared with.
    given : object
        The same as a Python object, for lists and `C`; None if there is none.
    """

    text: str
    value: Value
    given: Any = None


class Node(ABC):
    """A predicate."""

    @abstractmethod
    def truth(self, row: Row) -> Truth: ...

    @abstractmethod
    def text(self) -> str: ...

    @abstractmethod
    def columns(self) -> set[str]: ...

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Compares(Node):
    """A column with a literal; `turned` writes the literal first."""

    column: str
    sign: str
    literal: Literal
    turned: bool = False

    def truth(self, row: Row) -> Truth:
        return compared(row[self.column], self.sign, self.literal.value)

    def text(self) -> str:
        if self.turned:
            return f"{self.literal.text} {_TURNED[self.sign]} {named(self.column)}"
        return f"{named(self.column)} {self.sign} {self.literal.text}"

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class ComparesColumns(Node):
    """Two columns."""

    left: str
    sign: str
    right: str

    def truth(self, row: Row) -> Truth:
        return compared(row[self.left], self.sign, row[self.right])

    def text(self) -> str:
        return f"{named(self.left)} {self.sign} {named(self.right)}"

    def columns(self) -> set[str]:
        return {self.left, self.right}


@dataclass(frozen=True)
class IsIn(Node):
    """One of some literals, or none of them."""

    column: str
    literals: tuple[Literal, ...]
    negated: bool

    def truth(self, row: Row) -> Truth:
        value = row[self.column]
        found: Truth = False
        for literal in self.literals:
            found = either(found, compared(value, "=", literal.value))
        return opposite(found) if self.negated else found

    def text(self) -> str:
        listed = ", ".join(literal.text for literal in self.literals)
        return f"{named(self.column)} {'not ' * self.negated}in ({listed})"

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class Between(Node):
    """From a literal to another, both included; or not."""

    column: str
    low: Literal
    high: Literal
    negated: bool

    def truth(self, row: Row) -> Truth:
        value = row[self.column]
        found = both(compared(value, ">=", self.low.value), compared(value, "<=", self.high.value))
        return opposite(found) if self.negated else found

    def text(self) -> str:
        return f"{named(self.column)} {'not ' * self.negated}between {self.low.text} and {self.high.text}"

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class IsNothing(Node):
    """Null, or not null."""

    column: str
    negated: bool

    def truth(self, row: Row) -> Truth:
        return (row[self.column] is None) != self.negated

    def text(self) -> str:
        return f"{named(self.column)} is {'not ' * self.negated}null"

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class IsNotANumber(Node):
    """NaN, or not; null is not NaN."""

    column: str
    negated: bool

    def truth(self, row: Row) -> Truth:
        value = row[self.column]
        return (value is not None and math.isnan(value)) != self.negated

    def text(self) -> str:
        return f"{named(self.column)} is {'not ' * self.negated}nan"

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class Flag(Node):
    """A column of booleans by itself."""

    column: str

    def truth(self, row: Row) -> Truth:
        return row[self.column]

    def text(self) -> str:
        return named(self.column)

    def columns(self) -> set[str]:
        return {self.column}


@dataclass(frozen=True)
class Opposite(Node):
    """`not`."""

    part: Node

    def truth(self, row: Row) -> Truth:
        return opposite(self.part.truth(row))

    def text(self) -> str:
        inner = self.part.text()
        return f"not ({inner})" if isinstance(self.part, Joined) else f"not {inner}"

    def columns(self) -> set[str]:
        return self.part.columns()


@dataclass(frozen=True)
class Joined(Node):
    """`and`, or `or`, of some."""

    word: str
    parts: tuple[Node, ...]

    def truth(self, row: Row) -> Truth:
        joined = both if self.word == "and" else either
        found = self.parts[0].truth(row)
        for part in self.parts[1:]:
            found = joined(found, part.truth(row))
        return found

    def text(self) -> str:
        return f" {self.word} ".join(
            f"({part.text()})" if isinstance(part, Joined) else part.text() for part in self.parts
        )

    def columns(self) -> set[str]:
        return set().union(*(part.columns() for part in self.parts))


def passing(node: Node, rows: list[Row]) -> list[int]:
    """The numbers of the rows for which a predicate is true."""
    return [number for number, row in enumerate(rows) if node.truth(row) is True]


def without_nan(row: Row) -> Row:
    """A row of a cube, where NaN is null."""
    return {name: None if _is_nan(value) else value for name, value in row.items()}


def both(left: Truth, right: Truth) -> Truth:
    """Kleene's and."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: Truth, right: Truth) -> Truth:
    """Kleene's or."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def opposite(truth: Truth) -> Truth:
    """Kleene's not."""
    return None if truth is None else not truth


def compared(left: Value, sign: str, right: Value) -> Truth:
    """Compare two values; unknown where one is null, and with NaN nothing but `!=` is true."""
    if left is None or right is None:
        return None
    if _is_nan(left) or _is_nan(right):
        return sign in ("!=", "<>")
    order = _order(left, right)
    return {
        "=": order == 0,
        "==": order == 0,
        "!=": order != 0,
        "<>": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[sign]


def _order(left: Value, right: Value) -> int:
    """-1, 0 or 1; infinities lie beyond all numbers, and numbers of all kinds compare by their value."""
    if not isinstance(left, Fraction) and not isinstance(right, Fraction):
        return (left > right) - (left < right)  # Python compares int with float exactly
    far = _infinity(left), _infinity(right)
    if far != (0, 0):
        return (far[0] > far[1]) - (far[0] < far[1])
    one, other = Fraction(left), Fraction(right)
    return (one > other) - (one < other)


def _infinity(value: Value) -> int:
    if isinstance(value, float) and math.isinf(value):
        return 1 if value > 0 else -1
    return 0


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def named(column: str) -> str:
    """A column in the language of filters."""
    plain = column.isidentifier() and column.isascii() and column.lower() not in _WORDS
    return column if plain else '"' + column.replace('"', '""') + '"'


_TURNED = {"=": "=", "==": "==", "!=": "!=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = {"and", "or", "not", "is", "in", "between", "null", "nan", "true", "false"}
