"""Comparisons of a column with literals, resolved for the type of the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hipslake.predicates.domains import Domain, UnfitError, comparable_domain, family_of
from hipslake.predicates.predicate_tree import (
    And,
    ArrowExpression,
    Compare,
    CompareColumns,
    InArray,
    InList,
    IsNan,
    IsNull,
    IsTrue,
    Not,
    Or,
    Predicate,
)

_NUMBERS = frozenset({"whole", "decimal", "float"})
_BYTES = frozenset({"text", "binary"})
_TIMES = frozenset({"date", "stamp"})


@dataclass(frozen=True)
class Same:
    """A comparison that comes out the same for every value; unknown for null."""

    truth: bool


@dataclass(frozen=True)
class Against:
    """A comparison with one value of the column's domain."""

    operator: str
    value: Any


def bound_compare(node: Compare, kind: pa.DataType) -> tuple[Domain, Same | Against]:
    """A comparison in the terms of the column's domain, exactly as true as with the literal itself.

    Raises
    ------
    UnfitError
        The literal does not fit the type.
    """
    domain = comparable_domain(node.column, kind)
    place, operator = domain.place(node.column, node.literal), node.operator
    if not place.exact:  # every value is at most the step below, or above it
        if operator in ("=", "!="):
            return domain, Same(operator == "!=")
        operator = "<=" if operator in ("<", "<=") else ">"
    if domain.least is not None and domain.greatest is not None:
        if place.value < domain.least:
            return domain, Same(operator in ("!=", ">", ">="))
        if place.value > domain.greatest:
            return domain, Same(operator in ("!=", "<", "<="))
    return domain, Against(operator, place.value)


def bound_list(node: InList, kind: pa.DataType) -> tuple[Domain, tuple[Any, ...]]:
    """A list in the terms of the column's domain, without literals that no value equals.

    Raises
    ------
    UnfitError
        A literal does not fit the type.
    """
    domain = comparable_domain(node.column, kind)
    found = []
    for literal in node.literals:
        place = domain.place(node.column, literal)
        held = (
            domain.least is None or domain.greatest is None or domain.least <= place.value <= domain.greatest
        )
        if place.exact and held:
            found.append(place.value)
    return domain, tuple(dict.fromkeys(found))


def check_predicate(node: Predicate, schema: pa.Schema, *, nan_is_null: bool = False) -> None:
    """Look whether a predicate can be evaluated on some columns.

    Parameters
    ----------
    node : Predicate
        Its columns are in the schema.
    schema : pyarrow.Schema
    nan_is_null : bool
        Whether NaN is read as null, so that nothing is NaN.

    Raises
    ------
    UnfitError
        A literal does not fit its column, or two columns cannot be compared.
    """
    if isinstance(node, And | Or):
        for part in node.parts:
            check_predicate(part, schema, nan_is_null=nan_is_null)
    elif isinstance(node, Not):
        check_predicate(node.of, schema, nan_is_null=nan_is_null)
    elif isinstance(node, Compare):
        bound_compare(node, schema.field(node.column).type)
    elif isinstance(node, InList):
        bound_list(node, schema.field(node.column).type)
    elif isinstance(node, InArray):
        comparable_domain(node.column, schema.field(node.column).type)
    elif isinstance(node, CompareColumns):
        check_columns(node, schema)
    elif isinstance(node, IsNan):
        _check_nan(node, schema.field(node.column).type, nan_is_null)
    elif isinstance(node, IsTrue):
        kind = schema.field(node.column).type
        if family_of(kind) != "bool":
            raise UnfitError(f"column {node.column!r} is of type {kind}, and no condition by itself")
    else:
        assert isinstance(node, IsNull | ArrowExpression), node


def check_columns(node: CompareColumns, schema: pa.Schema) -> tuple[Domain, Domain]:
    """The domains of two columns that are compared.

    Raises
    ------
    UnfitError
        Values of one cannot be compared with those of the other.
    """
    kinds = [schema.field(name).type for name in (node.left, node.right)]
    left, right = (
        comparable_domain(name, kind) for name, kind in zip((node.left, node.right), kinds, strict=True)
    )
    families = {left.family, right.family}
    if not (len(families) == 1 or families <= _NUMBERS or families <= _BYTES or families <= _TIMES):
        raise UnfitError(
            f"column {node.left!r} is of type {kinds[0]} and {node.right!r} of {kinds[1]}, which cannot be "
            "compared with each other"
        )
    if families == {"decimal"}:
        scale = max(left.kind.scale, right.kind.scale)
        whole = max(left.kind.precision - left.kind.scale, right.kind.precision - right.kind.scale)
        if scale + whole > MOST_DIGITS:
            raise UnfitError(
                f"columns {node.left!r} and {node.right!r}: to compare {kinds[0]} with {kinds[1]} takes more "
                f"than {MOST_DIGITS} digits; ingest one of them with fewer"
            )
    return left, right


MOST_DIGITS = 76


def _check_nan(node: IsNan, kind: pa.DataType, nan_is_null: bool) -> None:
    if family_of(kind) != "float":
        raise UnfitError(f"column {node.column!r} is of type {kind}, which has no NaN; ask for null")
    if nan_is_null:
        raise UnfitError(f"column {node.column!r}: NaN stands for null here; write 'is null' for 'is nan'")
