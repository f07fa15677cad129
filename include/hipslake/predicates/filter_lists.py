"""Filters as lists in disjunctive normal form: `[("mag", "<", 12), ("ok", "=", True)]`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from hipslake.predicates.domains import UnfitError
from hipslake.predicates.predicate_tree import (
    And,
    Compare,
    InList,
    Literal,
    Not,
    NumberLiteral,
    Or,
    Predicate,
    TextLiteral,
    TruthLiteral,
    TypedLiteral,
)
from hipslake.predicates.typed_values import is_null, python_value

_BEYOND = Decimal("1e400")  # every number of every type
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def predicate_of_lists(given: Any) -> Predicate:
    """The predicate of a list of (column, operator, value), all of which hold, or of a list of such lists.

    Operators are `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` and `not in`; they mean what they mean in texts.

    Raises
    ------
    UnfitError
        It is something else, or a value that nothing is compared with.

    Examples
    --------
    >>> print(predicate_of_lists([[("mag", "<", 12)], [("band", "in", ["g", "r"])]]))
    mag < 12 or band in ('g', 'r')
    """
    if not isinstance(given, list | tuple) or not given:
        raise UnfitError("it is no list")
    if all(isinstance(part, tuple) and _is_test(part) for part in given):
        given = [given]
    return Or(tuple(And(tuple(_test(test) for test in _listed(part))) for part in given))


def _is_test(part: tuple[Any, ...]) -> bool:
    return not part or not isinstance(part[0], tuple | list)


def _listed(part: Any) -> Iterable[Any]:
    if not isinstance(part, list | tuple) or not part:
        raise UnfitError(f"{part!r} is no list of (column, operator, value)")
    return part


def _test(given: Any) -> Predicate:
    if not isinstance(given, list | tuple) or len(given) != 3 or not isinstance(given[0], str):
        raise UnfitError(f"{given!r} is not (column, operator, value)")
    column, operator, value = given
    if operator in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise UnfitError(f"{given!r}: give a list of values")
        found = InList(column, tuple(_literal(column, each) for each in value))
        return Not(found) if operator == "not in" else found
    if operator not in _OPERATORS:
        raise UnfitError(
            f"{given!r}: {operator!r} compares nothing; use one of {', '.join(_OPERATORS)}, in, not in"
        )
    return Compare(column, _OPERATORS[operator], _literal(column, value))


def _literal(column: str, value: Any) -> Literal:
    value = python_value(value)
    if is_null(value):
        raise UnfitError(
            f"column {column!r} is compared with {value!r}, which nothing equals; ask for null in a text"
        )
    if isinstance(value, bool):
        return TruthLiteral(value)
    if isinstance(value, int | float | Decimal) and not -_BEYOND < value < _BEYOND:
        return NumberLiteral("1e400" if value > 0 else "-1e400")
    if isinstance(value, int | float | Decimal):
        return NumberLiteral(repr(value) if isinstance(value, float) else str(value))
    if isinstance(value, str):
        return TextLiteral(value)
    if isinstance(value, datetime.date | datetime.time):
        return TextLiteral(value.isoformat())
    if isinstance(value, np.datetime64):
        return TextLiteral(str(value))
    if isinstance(value, bytes):
        return TypedLiteral(value)
    raise UnfitError(
        f"column {column!r} is compared with {value!r}, a {type(value).__name__}, which is no value"
    )
