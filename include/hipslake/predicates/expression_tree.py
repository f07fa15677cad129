"""The tree of an expression: a value per row, of columns, constants, operators, functions and conditions.

`hipslake.predicates.expression_text` reads it from a text, `hipslake.predicates.expression_types` says of
which type it is, and `hipslake.predicates.expression_values` computes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import pyarrow as pa

from hipslake.predicates.expression_functions import RowFunction
from hipslake.predicates.predicate_tree import NumberLiteral, Predicate, TextLiteral, TruthLiteral


@dataclass(frozen=True)
class Expression(ABC):
    """A node of the tree.

    Attributes
    ----------
    place : int
        Where it stands in its text, for messages.
    """

    place: int = field(compare=False)

    @property
    @abstractmethod
    def parts(self) -> tuple[Expression, ...]:
        """The nodes right below."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True)
class ColumnValue(Expression):
    """The value of a column, as it is."""

    name: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        """None."""
        return ()

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset([self.name])


@dataclass(frozen=True)
class Constant(Expression):
    """A number, a text, a truth, or null (None)."""

    literal: NumberLiteral | TextLiteral | TruthLiteral | None

    @property
    def parts(self) -> tuple[Expression, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Chained(Expression):
    """Operators of one rank from left to right: `a - b + c`.

    Attributes
    ----------
    first : Expression
    rest : tuple of (str, int, Expression)
        Per operator (`+`, `-`, `*`, `/`, `//`, `%`) its sign, its place in the text, and its right side.
    """

    first: Expression
    rest: tuple[tuple[str, int, Expression], ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """All operands."""
        return (self.first, *(operand for _, _, operand in self.rest))


@dataclass(frozen=True)
class RaisedPower(Expression):
    """`base ** exponent`."""

    base: Expression
    exponent: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Base and exponent."""
        return (self.base, self.exponent)


@dataclass(frozen=True)
class Negated(Expression):
    """`-x`."""

    of: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What is negated."""
        return (self.of,)


@dataclass(frozen=True)
class FunctionCall(Expression):
    """A function of `hipslake.predicates.expression_functions`."""

    function: RowFunction
    arguments: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments


@dataclass(frozen=True)
class ValueChoice(Expression):
    """`where(condition, yes, no)`: null where the condition is unknown."""

    condition: Expression
    yes: Expression
    no: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Condition and both values."""
        return (self.condition, self.yes, self.no)


@dataclass(frozen=True)
class ConvertedValue(Expression):
    """`cast(x, type)`: a value that the type does not hold is an error."""

    of: Expression
    kind: pa.DataType

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What is cast."""
        return (self.of,)


@dataclass(frozen=True)
class ConditionTruth(Expression):
    """Whether a predicate is true, false or unknown (null).

    Attributes
    ----------
    predicate : Predicate
    computed : tuple of (str, Expression)
        What its operands stand for that are no columns, by the names that the predicate has for them.
    """

    predicate: Predicate
    computed: tuple[tuple[str, Expression], ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The computed operands."""
        return tuple(part for _, part in self.computed)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the predicate and of its computed operands."""
        return super().columns | self.predicate.columns - {name for name, _ in self.computed}
