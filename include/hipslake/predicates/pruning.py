"""What may be skipped for a predicate: a weaker condition that every row for which it is true meets.

Statistics say little: those of real numbers leave NaN out, those of texts may be cut, a count of nulls may be
missing, and some have none at all. So a predicate is turned into bounds of columns, presence and absence of
values, joined by `and` and `or`; what bounds cannot say becomes the condition that always holds. Whatever
passes is then looked at row by row: see `hipslake.predicates.evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.predicates.binding import Same, bound_compare, bound_list
from hipslake.predicates.domains import domain_of, family_of
from hipslake.predicates.predicate_tree import (
    And,
    ArrowExpression,
    Compare,
    CompareColumns,
    InArray,
    InList,
    IsNull,
    IsTrue,
    Not,
    Or,
    Predicate,
)

_FEW = 20  # values of a list that are compared one by one
_TRUSTED = (pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.bool_())
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Anything:
    """Every row may meet it, or none (`holds` false)."""

    holds: bool = True


@dataclass(frozen=True)
class Within:
    """The value of a column lies in a range, of values of its domain; None: no bound. Null is outside."""

    column: str
    low: Any = None
    high: Any = None
    without_low: bool = False
    without_high: bool = False


@dataclass(frozen=True)
class Presence:
    """A column has a value, or has none."""

    column: str
    present: bool = True


@dataclass(frozen=True)
class Every:
    """All parts are met."""

    parts: tuple[Implied, ...]


@dataclass(frozen=True)
class Some:
    """One part or more is met."""

    parts: tuple[Implied, ...]


Implied = Anything | Within | Presence | Every | Some


@dataclass(frozen=True)
class KnownValues:
    """What is known of the values of a column in some rows.

    Attributes
    ----------
    low, high : object
        No value is less or greater, in the terms of the column's domain: whole numbers of days for dates, of
        the unit for times; NaN is not counted. None: not known.
    nulls : int or None
        How many rows have no value; None: not known.
    rows : int or None
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    rows: int | None = None


def may_pass(
    predicate: Predicate, known: Mapping[str, KnownValues], schema: pa.Schema, *, nan_is_null: bool = False
) -> bool:
    """Whether a predicate may be true for one of some rows.

    Parameters
    ----------
    predicate : Predicate
    known : mapping of str to KnownValues
        Per column what is known of its values in these rows; columns may be missing.
    schema : pyarrow.Schema
        Has the predicate's columns.
    nan_is_null : bool
        Whether NaN is read as null.
    """
    return _may_meet(implied(predicate, schema, nan_is_null=nan_is_null), known)


def surely_passes(
    predicate: Predicate, known: Mapping[str, KnownValues], schema: pa.Schema, *, nan_is_null: bool = False
) -> bool:
    """Whether a predicate is true for all of some rows, as far as is known; parameters as for `may_pass`."""
    if any(known.get(name, KnownValues()).nulls != 0 for name in predicate.columns):
        return False
    if nan_is_null and any(family_of(schema.field(name).type) == "float" for name in predicate.columns):
        return False  # statistics do not say whether a value is NaN
    return not _may_meet(_weaker(predicate, schema, nan_is_null, wanted=False), known)


def pushed_down(
    predicate: Predicate, schema: pa.Schema, stored: pa.Schema, *, nan_is_null: bool = False
) -> pc.Expression | None:
    """A weaker condition for Arrow's reader of Parquet, which skips row groups by it; None: nothing to skip.

    Parameters
    ----------
    predicate : Predicate
    schema : pyarrow.Schema
        Of the rows, as the predicate sees them.
    stored : pyarrow.Schema
        Of the file. Columns that it lacks are null.
    nan_is_null : bool
        Whether NaN is read as null.
    """
    found = _as_expression(implied(predicate, schema, nan_is_null=nan_is_null), schema, stored)
    if isinstance(found, bool):
        return None if found else pc.scalar(False)
    return found


def implied(predicate: Predicate, schema: pa.Schema, *, nan_is_null: bool = False) -> Implied:
    """A condition that all rows meet for which a predicate is true."""
    return _weaker(predicate, schema, nan_is_null, wanted=True)


def _weaker(node: Predicate, schema: pa.Schema, nan_is_null: bool, *, wanted: bool) -> Implied:
    """What rows meet for which a node is true, or false if that is `wanted`."""
    if isinstance(node, Not):
        return _weaker(node.of, schema, nan_is_null, wanted=not wanted)
    if isinstance(node, And | Or):
        parts = tuple(_weaker(part, schema, nan_is_null, wanted=wanted) for part in node.parts)
        return _joined(parts, every=isinstance(node, And) is wanted)
    if isinstance(node, Compare):
        return _of_compare(node, schema.field(node.column).type, wanted)
    if isinstance(node, InList):
        _, listed = bound_list(node, schema.field(node.column).type)
        return _of_values(node.column, listed, wanted)
    if isinstance(node, InArray):
        return _of_array(node, schema.field(node.column).type, wanted)
    if isinstance(node, CompareColumns):
        return Every((Presence(node.left), Presence(node.right)))
    if isinstance(node, IsNull):
        if wanted and nan_is_null and family_of(schema.field(node.column).type) == "float":
            return Anything()
        return Presence(node.column, not wanted)
    if isinstance(node, IsTrue):
        return Within(node.column, wanted, wanted)
    if isinstance(node, ArrowExpression):
        return Anything()
    return Presence(node.column) if wanted else Anything()  # type: ignore[attr-defined]  # is nan


def _joined(parts: tuple[Implied, ...], *, every: bool) -> Implied:
    """Parts joined, without those that decide nothing; one that decides the whole is the whole."""
    kept = tuple(part for part in parts if part != Anything(every))
    if Anything(not every) in kept:
        return Anything(not every)
    if len(kept) <= 1:
        return kept[0] if kept else Anything(every)
    return Every(kept) if every else Some(kept)


def _of_compare(node: Compare, kind: pa.DataType, wanted: bool) -> Implied:
    domain, test = bound_compare(node, kind)
    if isinstance(test, Same):
        return Presence(node.column) if test.truth is wanted else Anything(False)
    if not wanted and domain.family == "float":
        return Presence(node.column)  # NaN makes it false as well
    operator = test.operator if wanted else _OPPOSITE[test.operator]
    if operator == "!=":
        return Presence(node.column)
    value = test.value
    return Within(
        node.column,
        low=value if operator in ("=", ">", ">=") else None,
        high=value if operator in ("=", "<", "<=") else None,
        without_low=operator == ">",
        without_high=operator == "<",
    )


def _of_values(column: str, values: Sequence[Any], wanted: bool) -> Implied:
    if not wanted:
        return Presence(column)
    if len(values) <= _FEW:
        return _joined(tuple(Within(column, value, value) for value in values), every=False)
    return Within(column, min(values), max(values))


def _of_array(node: InArray, kind: pa.DataType, wanted: bool) -> Implied:
    domain = domain_of(kind)
    if not wanted or domain is None:
        return Presence(node.column)
    if not len(node.values):
        return Anything(False)
    values = domain.values(pa.chunked_array([node.values]))
    if domain.family == "decimal":
        return Presence(node.column)
    if len(values) <= _FEW:
        return _of_values(node.column, values.to_pylist(), wanted)
    extremes = pc.min_max(values)
    return Within(node.column, extremes["min"].as_py(), extremes["max"].as_py())


def _may_meet(node: Implied, known: Mapping[str, KnownValues]) -> bool:
    if isinstance(node, Anything):
        return node.holds
    if isinstance(node, Every):
        return all(_may_meet(part, known) for part in node.parts)
    if isinstance(node, Some):
        return any(_may_meet(part, known) for part in node.parts)
    values = known.get(node.column, KnownValues())
    all_null = values.rows is not None and values.nulls == values.rows
    if isinstance(node, Presence):
        return not all_null if node.present else values.nulls != 0
    if all_null:
        return False
    return _reaches(values.high, node.low, node.without_low) and _reaches(
        node.high, values.low, node.without_high
    )


def _reaches(greater: Any, less: Any, without: bool) -> bool:
    """Whether a bound from above is not below one from below; None, and NaN, are no bounds."""
    if greater is None or less is None or greater != greater or less != less:
        return True
    return bool(greater > less if without else greater >= less)


def _as_expression(node: Implied, schema: pa.Schema, stored: pa.Schema) -> pc.Expression | bool:
    if isinstance(node, Anything):
        return node.holds
    if isinstance(node, Every | Some):
        every = isinstance(node, Every)
        found = [_as_expression(part, schema, stored) for part in node.parts]
        if (not every) in [each for each in found if isinstance(each, bool)]:
            return not every
        kept = [each for each in found if not isinstance(each, bool)]
        return reduce(and_ if every else or_, kept) if kept else every
    if node.column not in stored.names:
        return isinstance(node, Presence) and not node.present
    kind = schema.field(node.column).type
    field = pc.field(node.column)
    if pa.types.is_nested(kind) or stored.field(node.column).type != kind:
        return True
    if isinstance(node, Presence):
        return field.is_valid() if node.present else field.is_null()
    return _range(node, field, kind)


def _range(node: Within, field: pc.Expression, kind: pa.DataType) -> pc.Expression | bool:
    scalar = _scalars(kind)
    if scalar is None:
        return True
    if pa.types.is_float32(kind):
        node = _outward(node)
    found: pc.Expression | None = None
    if node.low is not None:
        found = field > scalar(node.low) if node.without_low else field >= scalar(node.low)
    if node.high is not None:
        below = field < scalar(node.high) if node.without_high else field <= scalar(node.high)
        found = below if found is None else found & below
    return True if found is None else found


def _scalars(kind: pa.DataType) -> Callable[[Any], pa.Scalar] | None:
    """Makes scalars of a type whose statistics are trusted; None: they are not."""
    types = pa.types
    if types.is_timestamp(kind):
        return lambda value: pa.scalar(value, pa.int64()).cast(kind)
    if types.is_date32(kind):
        return lambda value: pa.scalar(value, pa.int32()).cast(kind)
    trusted = types.is_integer(kind) or kind in _TRUSTED
    return (lambda value: pa.scalar(value, kind)) if trusted else None


def _outward(node: Within) -> Within:
    """Bounds that a shorter float holds, no tighter than they were."""
    low, high = node.low, node.high
    with np.errstate(over="ignore"):
        if low is not None:
            short = np.float32(low)
            short = short if float(short) <= low else np.nextafter(short, np.float32(-np.inf))
            node = replace(node, low=float(short), without_low=node.without_low and float(short) == low)
        if high is not None:
            short = np.float32(high)
            short = short if float(short) >= high else np.nextafter(short, np.float32(np.inf))
            node = replace(node, high=float(short), without_high=node.without_high and float(short) == high)
    return node
