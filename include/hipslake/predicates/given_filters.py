"""Filters in any form that users give them in: a text, lists, an expression of Arrow, or a predicate."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hipslake.errors import FilterError, SchemaMismatchError
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.conditions import Condition, Conjunction
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.filter_lists import predicate_of_lists
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.predicate_tree import And, ArrowExpression, Predicate


def predicate_of(filters: Any, schema: pa.Schema, owner: str) -> Predicate | None:
    """The predicate that filters stand for; None: they let every row pass.

    Parameters
    ----------
    filters : str or list or pyarrow.compute.Expression or Predicate, optional
        A text as `parse_filter` takes it, lists in disjunctive normal form, an expression, which Arrow
        evaluates on rows, or a predicate.
    schema : pyarrow.Schema
        Of the rows.
    owner : str
        What has them, for messages: "catalog stars".

    Raises
    ------
    SchemaMismatchError
        There is no such column; the message names the nearest ones. Or the filter does not fit the columns.
    FilterError
        The filter is not understood.
    """
    if filters is None or (isinstance(filters, str) and not filters.strip()):
        return None
    try:
        if isinstance(filters, str):
            return parse_filter(filters, schema)
        if isinstance(filters, ds.Expression):
            return _of_expression(filters, schema, owner)
        if isinstance(filters, Predicate):
            found = filters
        elif isinstance(filters, Condition | Conjunction):
            found = Conjunction.of(filters).predicate
        else:
            found = predicate_of_lists(filters) if filters else And()
    except FilterError as error:
        raise FilterError(f"{owner}: {error}") from None
    except UnfitError as error:
        raise FilterError(
            f"{owner}: {filters!r} is no filter ({error}); give a text, an expression, or "
            "a list such as [('mag', '<', 12)]"
        ) from None
    require_columns(sorted(found.columns), schema, owner)
    try:
        check_predicate(found, schema)
    except UnfitError as error:
        raise FilterError(f"{owner}: filter {found}: {error}") from None
    return found if found.columns else None


def _of_expression(expression: ds.Expression, schema: pa.Schema, owner: str) -> ArrowExpression:
    """An expression of Arrow with the columns that it needs.

    An expression does not tell its columns, but its text holds their names, and it says whether it can be
    evaluated on a schema.
    """
    text = str(expression)
    some = pa.schema([field for field in schema if field.name in text])
    if not _binds(expression, some):
        try:
            kind = _bound(expression, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
            raise SchemaMismatchError(
                f"{owner}: the filter {text} does not fit its columns "
                f"({str(error).splitlines()[0]}); they are {', '.join(schema.names)}"
            ) from error
        if not pa.types.is_boolean(kind):
            raise SchemaMismatchError(
                f"{owner}: the filter {text} gives {kind}, not true or false; compare it with something"
            )
        some = schema
    needed = [name for at, name in enumerate(some.names) if not _binds(expression, some.remove(at))]
    return ArrowExpression(expression, tuple(needed))


def _bound(expression: ds.Expression, schema: pa.Schema) -> pa.DataType:
    """The type of an expression on a schema."""
    scanner = ds.dataset(schema.empty_table()).scanner(columns={"kept": expression})
    return scanner.projected_schema.field("kept").type


def _binds(expression: ds.Expression, schema: pa.Schema) -> bool:
    """Whether an expression is a condition on a schema."""
    try:
        return bool(pa.types.is_boolean(_bound(expression, schema)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
        return False


def require_columns(names: Sequence[str], schema: pa.Schema, owner: str) -> None:
    """Look that rows have some columns, each named once; raise `SchemaMismatchError`."""
    known = set(schema.names)
    for name in names:
        if name not in known:
            near = " or ".join(repr(n) for n in difflib.get_close_matches(str(name), schema.names, n=3))
            raise SchemaMismatchError(
                f"{owner} has no column {name!r}"
                + (f"; did you mean {near}?" if near else f"; its columns are {', '.join(schema.names)}")
            )
    if len(set(names)) < len(names):
        raise SchemaMismatchError(f"{owner}: a column is asked for twice: {', '.join(names)}")
