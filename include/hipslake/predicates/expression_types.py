"""The type of the values of an expression, for the types of the columns that it looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from hipslake.predicates.binding import check_predicate
from hipslake.predicates.domains import UnfitError, family_of
from hipslake.predicates.expression_functions import joint_kind, number_kind
from hipslake.predicates.expression_tree import (
    Chained,
    ColumnValue,
    ConditionTruth,
    Constant,
    ConvertedValue,
    Expression,
    FunctionCall,
    Negated,
    RaisedPower,
    ValueChoice,
)
from hipslake.predicates.filter_tokens import no_such_column
from hipslake.predicates.predicate_tree import NumberLiteral, TextLiteral, quoted

_WHOLE = frozenset("0123456789-+")
_LEAST, _BEYOND = -(2**63), 2**63


class MisplacedError(UnfitError):
    """A part of an expression does not fit the columns, or a value of a row does not fit the part.

    Attributes
    ----------
    place : int
        Of the part, in the text.
    """

    def __init__(self, place: int, said: str) -> None:
        super().__init__(said)
        self.place = place


@contextmanager
def placed_at(place: int) -> Iterator[None]:
    """Say of what does not fit where it stands."""
    try:
        yield
    except MisplacedError:
        raise
    except UnfitError as error:
        raise MisplacedError(place, str(error)) from None


def plain_kind(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values: of a dictionary, that of its entries."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def kind_of(node: Expression, schema: pa.Schema) -> pa.DataType:
    """The type of the values of an expression.

    Parameters
    ----------
    node : Expression
    schema : pyarrow.Schema
        The columns that there are.

    Raises
    ------
    MisplacedError
        A part names a column that there is not, or is of a type that its place does not take.
    """
    if isinstance(node, ColumnValue):
        if node.name not in schema.names:
            raise MisplacedError(node.place, no_such_column(node.name, schema.names))
        return plain_kind(schema.field(node.name).type)
    if isinstance(node, Constant):
        return constant_kind(node)
    if isinstance(node, ConditionTruth):
        return _of_condition(node, schema)
    kinds = [kind_of(part, schema) for part in node.parts]
    if isinstance(node, Chained):
        return chained_kind(node, kinds)
    with placed_at(node.place):
        if isinstance(node, FunctionCall):
            return node.function.kind(kinds)
        if isinstance(node, RaisedPower | Negated):
            numbers = [_number_at(part, kind) for part, kind in zip(node.parts, kinds, strict=True)]
            return numbers[0] if isinstance(node, Negated) else pa.float64()
        if isinstance(node, ValueChoice):
            return _of_choice(node, kinds)
        assert isinstance(node, ConvertedValue), node
        try:
            pa.nulls(0, kinds[0]).cast(node.kind)
        except pa.ArrowException:
            raise UnfitError(f"values of type {kinds[0]} cannot be cast to {node.kind}") from None
        return node.kind


def number_columns(node: Expression) -> set[str]:
    """The columns that an expression computes with: they have to be numbers."""
    found = set[str]().union(*(number_columns(part) for part in node.parts))
    computes = isinstance(node, Chained | RaisedPower | Negated)
    if computes or (isinstance(node, FunctionCall) and node.function.takes_numbers):
        found |= {part.name for part in node.parts if isinstance(part, ColumnValue)}
    return found


def constant_kind(node: Constant) -> pa.DataType:
    """The type of a constant: int64 for whole numbers that are written without point and exponent."""
    literal = node.literal
    if literal is None:
        return pa.null()
    if isinstance(literal, TextLiteral):
        return pa.string()
    if not isinstance(literal, NumberLiteral):
        return pa.bool_()
    if not set(literal.text) <= _WHOLE:
        return pa.float64()
    if not _LEAST <= int(literal.text) < _BEYOND:
        raise MisplacedError(
            node.place, f"64 bits do not hold {literal.text}; write {literal.text}.0 for a double"
        )
    return pa.int64()


def chained_kind(node: Chained, kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type of a chain whose operands are of some types: of integers int64, but `/` gives a double."""
    found = _number_at(node.first, kinds[0])
    for (operator, place, operand), kind in zip(node.rest, kinds[1:], strict=True):
        with placed_at(place):
            other = _number_at(operand, kind)
            both = found == other == pa.int64()
            found = pa.int64() if both and operator != "/" else pa.float64()
    return found


def _number_at(node: Expression, kind: pa.DataType) -> pa.DataType:
    with placed_at(node.place):
        return number_kind(kind)


def _of_choice(node: ValueChoice, kinds: Sequence[pa.DataType]) -> pa.DataType:
    if not (pa.types.is_boolean(kinds[0]) or pa.types.is_null(kinds[0])):
        raise MisplacedError(
            node.condition.place,
            f"a condition is needed, and this is of type {kinds[0]}; compare it with something",
        )
    return joint_kind(kinds[1:])


def _of_condition(node: ConditionTruth, schema: pa.Schema) -> pa.DataType:
    for name in sorted(node.predicate.columns - {name for name, _ in node.computed}):
        if name not in schema.names:
            raise MisplacedError(node.place, no_such_column(name, schema.names))
    seen = condition_schema(node, schema)
    with placed_at(node.place):
        check_predicate(node.predicate, seen)
    return pa.bool_()


def condition_schema(node: ConditionTruth, schema: pa.Schema) -> pa.Schema:
    """The columns that the predicate of a condition is evaluated on: those of the rows, and what is computed.

    Raises
    ------
    MisplacedError
        A computed operand does not fit, or there is a column with the name that it has here.
    """
    computed = {name for name, _ in node.computed}
    fields = [schema.field(name) for name in sorted(node.predicate.columns - computed)]
    for name, part in node.computed:
        if name in schema.names:
            raise MisplacedError(part.place, f"there is a column {quoted(name)} too; rename it first")
        kind = kind_of(part, schema)
        if family_of(kind) is None and not pa.types.is_null(kind):
            raise MisplacedError(part.place, f"values of type {kind} cannot be compared")
        fields.append(pa.field(name, pa.float64() if pa.types.is_null(kind) else kind))
    return pa.schema(fields)
