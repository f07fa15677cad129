"""What validation says of a model, in the words of who writes specs: no class and no type of Python is named.

A mistake is told as what does not fit and what to write in its place. Where a value may be of several kinds
(a list of columns, or `"*"`), validation reports one error for each kind; they are told as one mistake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic_core.core_schema import ErrorType

from hipslake.specs.secrets import without

Place = tuple[str | int, ...]

_NAMES = "use lower-case letters, digits and _, a letter first"
_DOTTED = "use letters, digits and _, with a dot between namespace and table, such as survey.stars"
_SHOWN = 60  # characters of a value that a message shows
# What a location holds besides keys: `int`, `literal['*']`, `tuple[str, ...]`, `function-after[f(), str]`.
_MEMBER = re.compile(
    r"(int|str|float|bool|none|dict|list|tuple|constrained-\w+|nullable)|[\w-]*[\[(].*", re.DOTALL
)

_KINDS: dict[str, str] = {
    "a text": "string_type string_unicode string_sub_type string_not_ascii bytes_type url_type uuid_type",
    "a whole number": "int_type int_parsing int_from_float int_parsing_size",
    "a number": "float_type float_parsing decimal_type decimal_parsing fraction_type complex_type",
    "a number that is finite": "finite_number",
    "true or false": "bool_type bool_parsing",
    "a list": "tuple_type list_type set_type frozen_set_type iterable_type deque_type named_tuple_type",
    "keys with values": "dict_type mapping_type model_type model_attributes_type dataclass_type",
    "a date, such as 2026-11-20": (
        "date_type date_parsing date_from_datetime_parsing date_from_datetime_inexact"
    ),
    "a time, such as 2026-11-20T03:30:00Z": (
        "datetime_type datetime_parsing datetime_object_invalid datetime_from_date_parsing time_type "
        "time_parsing timezone_naive timezone_aware timezone_offset"
    ),
    "a length of time, such as 02:30:00": "time_delta_type time_delta_parsing",
    "null": "none_required",
    "texts as keys": "invalid_key",
    "a name": "string_pattern_mismatch",
}
_WANTED = {error: wanted for wanted, errors in _KINDS.items() for error in errors.split()}
_BOUNDS: dict[str, tuple[str, str]] = {
    "greater_than": ("a number above {}", "gt"),
    "greater_than_equal": ("a number of at least {}", "ge"),
    "less_than": ("a number below {}", "lt"),
    "less_than_equal": ("a number of at most {}", "le"),
    "multiple_of": ("a multiple of {}", "multiple_of"),
    "string_too_long": ("a text of at most {} characters", "max_length"),
    "too_short": ("entries, at least {}", "min_length"),
    "too_long": ("entries, at most {}", "max_length"),
    "literal_error": ("{}", "expected"),
    "enum": ("{}", "expected"),
    "union_tag_invalid": ("{}", "expected_tags"),
}
_OWN = ("value_error", "assertion_error")


class Mistake(NamedTuple):
    """Where something is wrong, what kind of error validation gave it, and what is told of it."""

    place: Place
    kind: str
    text: str


def mistakes_of(
    errors: Sequence[Mapping[str, Any]],
    place_of: Callable[[Mapping[str, Any]], Place],
    *,
    shows_values: bool,
    model_at: Callable[[Place], Iterable[type[BaseModel]]] = lambda _: (),
    written: Mapping[Place, str] | None = None,
) -> list[Mistake]:
    """Return the mistakes that a validation found, in its order.

    Parameters
    ----------
    errors : sequence of mapping
        Of `pydantic.ValidationError.errors()`.
    place_of : callable
        Takes one of them, and gives its place without what is no key there.
    shows_values : bool
        Whether the values that do not fit are shown; secrets of addresses never are.
    model_at : callable, optional
        Gives the models that may stand at a place, whose keys are named.
    written : mapping of place to str, optional
        How a value is written, where that is not how it is shown: `yes` of a truth, say.
    """
    found: dict[Place, list[Mapping[str, Any]]] = {}
    is_text = cache(lambda place: bool(_texts_of(model_at(place))))
    for error in errors:
        place = place_of(error)
        within = (at for at, part in enumerate(place) if isinstance(part, str) and is_text(place[:at]))
        depth = next(within, None)
        if depth is not None:  # keys of what is written as a text: its parts are nothing that users know
            place, error = place[:depth], {"type": "model_type", "loc": place[:depth], "input": {}, "msg": ""}
        found.setdefault(place, []).append(error)
    # Of a value of several kinds, the one that it comes nearest to has its mistake deeper within; and a list
    # whose entries are wrong has too few of them.
    above = {place[:depth] for place in found for depth in range(len(place))}
    told = []
    for place, several in found.items():
        if place in above:
            continue
        shown = None
        if shows_values:
            shown = (written or {}).get(place) or shown_value(several[0]["input"])
        text = _own_words(several[0]) or _fitting(several, place, model_at, shown)
        told.append(Mistake(place, several[0]["type"], text))
    return told


def keys_alone(error: Mapping[str, Any]) -> Place:
    """Return the location of an error without the names of kinds of values."""
    return tuple(part for part in error["loc"] if not (isinstance(part, str) and _MEMBER.fullmatch(part)))


def _own_words(error: Mapping[str, Any]) -> str | None:
    """What a check of ours says, and the errors that are about no value."""
    kind = error["type"]
    if kind in _OWN:
        return str(error["msg"]).partition(", ")[2]  # behind "Value error"
    if kind == "missing":
        return "is missing; add it"
    if kind == "extra_forbidden":
        return "unknown key; take it out"
    if kind not in _WANTED and kind not in _BOUNDS and not _is_known(kind):
        return str(error["msg"])  # of an error type of ours
    return None


def _is_known(kind: str) -> bool:
    """Whether an error type is one of validation itself."""
    return kind in get_args(ErrorType)


def _fitting(
    errors: Sequence[Mapping[str, Any]],
    place: Place,
    model_at: Callable[[Place], Iterable[type[BaseModel]]],
    shown: str | None,
) -> str:
    shown = f"{shown} " if shown is not None else ""
    if all(error["type"] == "string_pattern_mismatch" for error in errors):
        dotted = any("." in error["ctx"]["pattern"] for error in errors)
        return f"{shown}is no name; {_DOTTED if dotted else _NAMES}"
    wanted = dict.fromkeys(_wanted(error, place, model_at) for error in errors)
    return f"{shown}does not fit; write {' or '.join(wanted)}"


def _wanted(
    error: Mapping[str, Any], place: Place, model_at: Callable[[Place], Iterable[type[BaseModel]]]
) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        text, key = _BOUNDS[kind]
        if isinstance(error["input"], float) and not math.isfinite(error["input"]):
            text = text.replace("a number", "a finite number")
        return text.format(context[key])
    if kind == "string_too_short":
        least = context["min_length"]
        return "a text that is not empty" if least == 1 else f"a text of at least {least} characters"
    wanted = _WANTED.get(kind, "another value")
    if wanted == "a text" and isinstance(error["input"], int | float | date):
        return "a text, in quotes"
    if wanted == "keys with values":
        return _of_models(model_at(place)) or wanted
    return wanted


def _of_models(models: Iterable[type[BaseModel]]) -> str:
    """What stands for one of these models: the texts of those that are read from texts, or their keys."""
    models = list(models)
    if texts := _texts_of(models):
        return f"a text, such as {', '.join(map(repr, texts))}"
    keys = [key for model in models for key, field in model.model_fields.items() if not field.exclude]
    return f"keys with values: {', '.join(dict.fromkeys(keys))}" if keys else ""


def _texts_of(models: Iterable[type[BaseModel]]) -> list[str]:
    """Examples of the texts that models are read from; none where they are written as keys."""
    return [
        text for model in models if hasattr(model, "fields_of") for text in getattr(model, "examples", ())
    ]


def shown_value(given: Any) -> str:
    """Return how a message shows a value: as YAML has it, within bounds, without secrets of addresses.

    Examples
    --------
    >>> shown_value(True), shown_value("x"), shown_value(date(2026, 11, 20)), shown_value(["x"])
    ('true', "'x'", '2026-11-20', 'a list')
    """
    if given is None:
        return "null"
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, date | datetime):
        return given.isoformat()
    if isinstance(given, bytes):
        return "bytes"
    if isinstance(given, float) and not math.isfinite(given):
        return ".nan" if math.isnan(given) else ".inf" if given > 0 else "-.inf"
    if isinstance(given, Mapping | BaseModel):
        return "a value with keys"
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return "a list"
    text = without(repr(given), ())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
