"""Conditions of cubes as text, in specs and forms: `HIP is not null and "B-V" > 0.5 and mag < 12`.

The language is that of filters. What cubes had before it is still read, where the text is no filter, and said
to be old; no text is taken for one of two things.
"""

from __future__ import annotations

import logging
import warnings

import pyarrow as pa

from hipslake.errors import ConditionError, ConditionTypeError, FilterError
from hipslake.predicates.binding import bound_compare, bound_list
from hipslake.predicates.conditions import Conjunction
from hipslake.predicates.filter_text import read_filter
from hipslake.predicates.filter_tokens import MAX_LENGTH
from hipslake.predicates.old_conditions import parse_old_conditions
from hipslake.predicates.predicate_tree import And, Compare, InList, Not, Or, Predicate

log = logging.getLogger(__name__)


def parse_conditions(text: str, schema: pa.Schema) -> Conjunction:
    """Parse a text into a conjunction of conditions on the columns of a schema.

    Parameters
    ----------
    text : str
        As for `hipslake.predicates.filter_text.parse_filter`: parts joined by `and`, each on one column. With
        nothing in it, there are no conditions.
    schema : pyarrow.Schema
        The columns that there are. Conditions on others are left for the caller to refuse.

    Raises
    ------
    ConditionError
        It is something else, or could mean two things.
    ConditionTypeError
        A value does not fit its column.

    Examples
    --------
    >>> schema = pa.schema([("ok", pa.bool_()), ("B-V", pa.float64())])
    >>> print(parse_conditions('ok and "B-V" > 0.5', schema))
    ok and "B-V" > 0.5
    """
    if not text.strip():
        return Conjunction()
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"the conditions have {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        found = read_filter(text)
    except FilterError as error:
        return _old(text, schema, error)
    old = _old_reading(text, schema)
    if not found.columns <= set(schema.names):
        if old is not None and old.columns <= set(schema.names):
            return _warn_of_old_form(text, old)
        return Conjunction.of_predicate(found)
    if old is not None and _meaning(old.predicate, schema) != _known_meaning(found, schema):
        raise ConditionError(
            f"{text!r} means '{found}' as a filter, where texts stand between single quotes and columns "
            f"between double ones, and meant '{old}' in the old form of conditions; write one of these"
        )
    conditions = Conjunction.of_predicate(found)
    conditions.check(schema)
    return conditions


def check_conditions(text: str) -> None:
    """Look whether a text can be conditions, whatever the columns.

    Raises
    ------
    ConditionError
        It cannot.
    """
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"the conditions have {len(text)} characters; at most {MAX_LENGTH} are read")
    if not text.strip():
        return
    try:
        Conjunction.of_predicate(read_filter(text))
    except (FilterError, ConditionError) as error:
        try:
            parse_old_conditions(text)
        except ConditionError:
            raise ConditionError(str(error)) from None


def _old(text: str, schema: pa.Schema, error: FilterError) -> Conjunction:
    """A text that is no filter."""
    try:
        found = parse_old_conditions(text)
    except ConditionError as older:
        raise ConditionError(f"{error}. In the old form of conditions: {older}") from None
    found.on(schema.names).check(schema)
    return _warn_of_old_form(text, found)


def _warn_of_old_form(text: str, found: Conjunction) -> Conjunction:
    said = f"The conditions {text!r} are in an old form that will not be read for ever; write: {found}"
    log.warning(said)
    warnings.warn(said, DeprecationWarning, stacklevel=3)
    return found


def _old_reading(text: str, schema: pa.Schema) -> Conjunction | None:
    """What a text means in the old form, if it has a meaning there."""
    try:
        found = parse_old_conditions(text)
        found.on(schema.names).check(schema)
    except (ConditionError, ConditionTypeError):
        return None
    return found


def _known_meaning(node: Predicate, schema: pa.Schema) -> object:
    try:
        return _meaning(node, schema)
    except ValueError:
        return None


def _meaning(node: Predicate, schema: pa.Schema) -> tuple[object, ...]:
    """What two predicates have in common that mean the same, however their literals are written."""
    if isinstance(node, And | Or):
        parts = [_meaning(part, schema) for part in node.parts]
        if isinstance(node, And):
            parts = [each for part in parts for each in (part[1:] if part[0] is And else (part,))]  # type: ignore[misc]
        return parts[0] if len(parts) == 1 else (type(node), *parts)
    if isinstance(node, Not):
        return (Not, _meaning(node.of, schema))
    if isinstance(node, Compare) and node.column in schema.names:
        return (node.column, bound_compare(node, schema.field(node.column).type)[1])
    if isinstance(node, InList) and node.column in schema.names:
        return (node.column, bound_list(node, schema.field(node.column).type)[1])
    return (node,)
