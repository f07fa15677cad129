"""The values of an expression for some rows, computed a column at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.predicates.evaluation import truth
from hipslake.predicates.expression_functions import as_doubles, as_kind, by_numpy, joint_kind, whole_quotient
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
from hipslake.predicates.expression_types import MisplacedError, condition_schema, constant_kind
from hipslake.predicates.predicate_tree import NumberLiteral, TextLiteral, TruthLiteral

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_OF_DOUBLES = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}


def values_of(node: Expression, rows: pa.RecordBatch) -> pa.Array:
    """The values of an expression, one per row, of the type that `kind_of` says.

    Parameters
    ----------
    node : Expression
    rows : pyarrow.RecordBatch
        With its columns.

    Raises
    ------
    MisplacedError
        A sum or product of integers is beyond 64 bits, an integer is divided by zero, or a value does not fit
        the type that it is cast to.
    """
    if isinstance(node, ColumnValue):
        column = rows.column(node.name)
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if isinstance(node, Constant):
        return _constant(node, rows.num_rows)
    if isinstance(node, ConditionTruth):
        return _truth(node, rows)
    if isinstance(node, ValueChoice):
        return _chosen(node, rows)
    parts = [values_of(part, rows) for part in node.parts]
    if isinstance(node, Chained):
        return _chained(node, parts)
    with _fitting(node.place):
        if isinstance(node, FunctionCall):
            return node.function.values(parts)
        if isinstance(node, RaisedPower):
            return by_numpy(np.power, [as_doubles(part) for part in parts])
        if isinstance(node, Negated):
            return pc.negate_checked(_as_computed(parts[0]))
        assert isinstance(node, ConvertedValue), node
        return _as_computed(parts[0], only_half=True).cast(node.kind)


def _chosen(node: ValueChoice, rows: pa.RecordBatch) -> pa.Array:
    """Each value is computed of the rows alone that take it, so that a condition can keep errors away."""
    condition = values_of(node.condition, rows).cast(pa.bool_())
    unknown = condition.is_null().to_numpy(zero_copy_only=False)
    holds = pc.fill_null(condition, False).to_numpy(zero_copy_only=False)
    places = np.zeros(rows.num_rows, np.int64)
    found: list[pa.Array] = []
    for part, mine in ((node.yes, holds), (node.no, ~holds & ~unknown)):
        places[mine] = sum(map(len, found)) + np.arange(mine.sum())
        found.append(values_of(part, rows if mine.all() else rows.filter(pa.array(mine))))
    kind = joint_kind([part.type for part in found])
    with _fitting(node.place):
        values = pa.concat_arrays([as_kind(part, kind) for part in found])
    return values.take(pa.array(places, mask=unknown))


def _constant(node: Constant, count: int) -> pa.Array:
    literal, kind = node.literal, constant_kind(node)
    if literal is None:
        return pa.nulls(count)
    if isinstance(literal, NumberLiteral):
        number = int(literal.text) if pa.types.is_int64(kind) else float(literal.text)
        return pa.repeat(pa.scalar(number, kind), count)
    assert isinstance(literal, TextLiteral | TruthLiteral), literal
    return pa.repeat(
        pa.scalar(literal.text if isinstance(literal, TextLiteral) else literal.value, kind), count
    )


def _chained(node: Chained, parts: list[pa.Array]) -> pa.Array:
    with _fitting(node.first.place):
        found = _as_computed(parts[0])
    for (operator, place, _), part in zip(node.rest, parts[1:], strict=True):
        with _fitting(place):
            other = _as_computed(part)
            if pa.types.is_int64(found.type) and pa.types.is_int64(other.type) and operator != "/":
                is_sum = operator in _CHECKED
                found = (
                    _CHECKED[operator](found, other)
                    if is_sum
                    else whole_quotient(found, other, rest=operator == "%")
                )
            elif operator in _OF_DOUBLES:
                found = _OF_DOUBLES[operator](as_doubles(found), as_doubles(other))
            else:
                function = np.remainder if operator == "%" else np.floor_divide
                found = by_numpy(function, [as_doubles(found), as_doubles(other)])
    return found


def _as_computed(column: pa.Array, *, only_half: bool = False) -> pa.Array:
    """Numbers in the type in which they are computed; of what is to be cast, only those of half precision."""
    if only_half:
        return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    return as_kind(column, pa.int64() if pa.types.is_integer(column.type) else pa.float64())


def _truth(node: ConditionTruth, rows: pa.RecordBatch) -> pa.Array:
    schema = condition_schema(node, rows.schema)
    computed = {name: values_of(part, rows) for name, part in node.computed}
    columns = [
        computed[field.name].cast(field.type) if field.name in computed else rows.column(field.name)
        for field in schema
    ]
    if not columns:  # and, or, without parts: nothing of that is ever read from a text
        raise MisplacedError(node.place, "a condition without columns")
    found = truth(node.predicate, pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.bool_())


@contextmanager
def _fitting(place: int) -> Iterator[None]:
    """Say of values that do not fit where in the text they are asked for."""
    try:
        yield
    except pa.ArrowInvalid as error:
        said = str(error).partition("\n")[0]
        if said == "overflow":
            said = "a result is beyond 64 bits; cast(..., float64) computes it as a double"
        raise MisplacedError(place, said) from None
