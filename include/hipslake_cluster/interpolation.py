"""Variables in a compose file: `${NAME}`, with a default or with what to say where it is missing.

The Compose Specification, "Interpolation" (https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RULE = re.compile(r":?[-?+]")


class MissingVariableError(ValueError):
    """A variable has no value, and the file says that it must have one."""


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace the variables in all texts of a tree of mappings and lists.

    Raises
    ------
    MissingVariableError
        If a variable of the form `${NAME:?what to do}` has no value; all of them are named.
    ValueError
        If a `$` is no variable and not doubled.

    Examples
    --------
    >>> interpolate(["${PORT:-8080}", "${HOST}", "$$5"], {"HOST": "moon"})
    ['8080', 'moon', '$5']
    """
    missing: dict[str, str] = {}
    replaced = with_texts(value, lambda text: _text(text, variables, missing))
    if missing:
        raise MissingVariableError("\n".join(f"{name} is not set: {why}" for name, why in missing.items()))
    return replaced


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of YAML with every text in it changed; keys stay."""
    if isinstance(value, dict):
        return {key: with_texts(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [with_texts(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def _text(text: str, variables: Mapping[str, str], missing: dict[str, str]) -> str:
    done, rest = "", text
    while rest:
        before, dollar, rest = rest.partition("$")
        done += before
        if not dollar:
            break
        if rest.startswith("$"):
            done, rest = f"{done}$", rest[1:]
        elif rest.startswith("{"):
            end = _closing(rest, text)
            done += _value(rest[1:end], text, variables, missing)
            rest = rest[end + 1 :]
        else:
            name = _NAME.match(rest)
            if name is None:
                raise ValueError(f"{text!r}: a $ that is no variable is written $$")
            done, rest = done + variables.get(name[0], ""), rest[name.end() :]
    return done


def _closing(rest: str, text: str) -> int:
    """Return where the brace that `rest` begins with is closed."""
    depth = 0
    for at, letter in enumerate(rest):
        if letter == "}":
            depth -= 1
            if depth == 0:
                return at
        elif letter == "{" and (at == 0 or rest[at - 1] == "$"):
            depth += 1
    raise ValueError(f"{text!r}: a brace is not closed")


def _value(inside: str, text: str, variables: Mapping[str, str], missing: dict[str, str]) -> str:
    """Return the value of `${inside}`."""
    name = _NAME.match(inside)
    rule = _RULE.match(inside, name.end()) if name else None
    if name is None or (rule is None and name.end() != len(inside)):
        raise ValueError(f"{text!r}: ${{{inside}}} is no variable")
    found = variables.get(name[0])
    if rule is None:
        return found or ""
    has_value = bool(found) if rule[0].startswith(":") else found is not None
    other = inside[rule.end() :]
    if rule[0].endswith("+"):
        return _text(other, variables, missing) if has_value else ""
    if has_value:
        return found or ""
    if rule[0].endswith("?"):
        missing.setdefault(name[0], _text(other, variables, missing) or "it is required")
        return ""
    return _text(other, variables, missing)
