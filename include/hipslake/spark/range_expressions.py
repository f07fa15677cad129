"""Look-ups in sorted arrays as expressions of the JVM, for columns of any type that has an order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, types
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.internal import InternalFunction

from hipslake.clustering.range_ids import check_names, unorderable

_ORDERABLE = (
    types.NumericType,
    types.BooleanType,
    types.StringType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
)


@dataclass(frozen=True)
class InOrder:
    """Distinct values, ascending, as Spark compares them.

    Attributes
    ----------
    texts : list of str
        The values, written so that Spark casts them to the type.
    type : str
        Spark's name of it.
    """

    texts: list[str]
    type: str

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.int64]) -> InOrder:
        return cls([str(number) for number in numbers.tolist()], "bigint")

    def array(self) -> Column:
        """The values as one array: a literal, which Spark searches without copying it."""
        return _parsed(self.texts, "array<string>").cast(f"array<{self.type}>")


def check_orderable(schema: types.StructType, names: Sequence[str]) -> None:
    """Raise if a DataFrame cannot be clustered by these columns.

    Raises
    ------
    SpecError
        No column, one that is missing or named twice.
    InputError
        A column has values that have no order.
    """
    check_names(schema.names, names)
    for name in names:
        kind = schema[name].dataType
        if not isinstance(kind, _ORDERABLE):
            raise unorderable(name, kind.simpleString())


def comparable(column: Column, kind: types.DataType) -> Column:
    """A column in the form that it is compared in: its order is the same."""
    if isinstance(kind, types.BooleanType):
        return column.cast("int").cast("bigint")
    if isinstance(kind, types.IntegralType):
        return column.cast("bigint")
    if isinstance(kind, types.FloatType | types.DoubleType):
        return column.cast("double") + F.lit(0.0)  # makes -0.0 the 0.0 that it is equal to
    if isinstance(kind, types.DateType):
        return F.unix_date(column).cast("bigint")
    if isinstance(kind, types.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, types.StringType):
        return column.cast("string")  # without a collation
    if isinstance(kind, types.BinaryType):
        return F.hex(column)
    return column


def in_order(bounds: pa.Array, kind: types.DataType) -> InOrder:
    """The bounds of a column's ranges, in the form that it is compared in."""
    if isinstance(kind, types.BooleanType | types.IntegralType):
        return InOrder.of_numbers(bounds.cast(pa.int64()).to_numpy())
    if isinstance(kind, types.DateType):
        return InOrder.of_numbers(bounds.view(pa.int32()).to_numpy())
    if isinstance(kind, types.TimestampType):
        return InOrder.of_numbers(bounds.view(pa.int64()).to_numpy())
    if isinstance(kind, types.FloatType | types.DoubleType):
        numbers = bounds.cast(pa.float64()).to_numpy() + 0.0
        return InOrder([repr(number) for number in numbers.tolist()], "double")
    if isinstance(kind, types.StringType):
        return InOrder(bounds.to_pylist(), "string")
    if isinstance(kind, types.BinaryType):
        return InOrder([value.hex().upper() for value in bounds.to_pylist()], "string")
    return InOrder(bounds.cast(pa.string()).to_pylist(), kind.simpleString())


def number_below(values: InOrder, column: Column) -> Column:
    """How many of the values lie below each value of a column, as int; null where it is null."""
    # Spark gives the place of a value that is there, and -1 - the place where it would be of one that is not.
    found = InternalFunction.array_binary_search(values.array(), column)
    return F.greatest(found, F.bitwise_not(found))


def number_array(numbers: NDArray[np.int64]) -> Column:
    """Numbers as an array of bigint."""
    return _parsed(numbers.tolist(), "array<bigint>")


def indexed(array: Column, at: Column) -> Column:
    """An element of an array, counted from 0; null behind its end."""
    return F.get(array, at)


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """An expression in which a value is used more than once, but computed once."""
    return F.get(F.transform(F.array(value), lambda bound: body(bound)), 0)


def _parsed(values: list, schema: str) -> Column:
    # A literal element by element would be a call to the JVM for each; the optimizer folds this into one
    # literal.
    return F.from_json(F.lit(json.dumps(values)), schema)
