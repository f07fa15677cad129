"""YAML read into a model, every mistake reported with its file, line and key."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hipslake.errors import SpecError
from hipslake.specs.mistakes import Mistake, Place, mistakes_of
from hipslake.specs.plain_yaml import Document, YamlError

MOST_BYTES = 256 << 10
"""A spec file may have: Airflow reads all of them in one process, within a time."""

MOST_TOLD = 50
"""Of the errors that validation finds in a spec, in its order."""

_TAG = "tag:yaml.org,2002:"
_KINDS = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_NEARLY_A_NUMBER = re.compile(r"[-+]_[0-9_.]*[0-9][0-9_.]*")  # a text to YAML, which validation takes for one
_LONGEST_SHOWN = 60  # characters

Model = TypeVar("Model", bound=BaseModel)


def load_yaml(path: Path, model: type[Model]) -> tuple[Model, dict[Place, int]]:
    """Read a YAML file into a model, and return it with the line of every key, counted from 1."""
    try:
        text = text_of(path)
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    lines: dict[Place, int] = {}
    written: dict[Place, str] = {}
    data = _parse(path, text, lines, written)
    try:
        found = model.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        mistakes = mistakes_of(
            errors[:MOST_TOLD],
            lambda details: _place(details, lines),
            shows_values=True,
            model_at=lambda place: _models_at(model, place),
            written=written,
        )
        messages = [_message(path, model, lines, mistake) for mistake in mistakes]
        told = [text for _, text in sorted(set(messages))]
        if len(errors) > MOST_TOLD:
            told.append(f"{path}: there are more mistakes; mend these first")
        raise SpecError("\n".join(told)) from None
    if truths := list(_truths_as_numbers(data, found)):
        told = []
        for place in truths:
            shown = written.get(place, "a truth")  # which is not there where it is merged in
            where = f"{path}:{_line_of(place, lines)}: {_dotted(place)}"
            told.append(f"{where}: {shown} does not fit; write a number")
        raise SpecError("\n".join(told))
    return found, lines


def _truths_as_numbers(given: Any, found: Any, place: Place = ()) -> Iterator[Place]:
    """Give the places of truths that validation took for 0 and 1."""
    if isinstance(given, bool):
        alone = found[0] if isinstance(found, tuple) and len(found) == 1 else found  # one may stand alone
        if isinstance(alone, int | float) and not isinstance(alone, bool):
            yield place
    elif isinstance(given, Mapping) and isinstance(found, BaseModel | Mapping):
        for key, value in given.items():
            within = getattr(found, key, None) if isinstance(found, BaseModel) else found.get(key)
            yield from _truths_as_numbers(value, within, (*place, key))
    elif isinstance(given, list) and isinstance(found, list | tuple):
        for index, (value, within) in enumerate(zip(given, found, strict=False)):
            yield from _truths_as_numbers(value, within, (*place, index))


def text_of(path: Path) -> str:
    """Return the text of a spec file; raise `SpecError` where it is too large."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SpecError(f"{path}: has more than {MOST_BYTES >> 10} KiB, which no spec needs; make it smaller")
    return data.decode("utf-8-sig")


def _parse(path: Path, text: str, lines: dict[Place, int], written: dict[Place, str]) -> Any:
    try:
        document = Document(text)
        if document.node is None:
            raise SpecError(f"{path}:1: the file is empty; a spec begins with 'name: {path.stem}'")
        if not isinstance(document.node, yaml.MappingNode):
            raise SpecError(f"{path}:1: a spec is keys with values, such as 'name: {path.stem}'")
        _mark(path, document.node, (), lines, written)
        return document.value()
    except YamlError as error:
        where = ":".join(str(number) for number in (error.line, error.column) if number) or "1"
        raise SpecError(f"{path}:{where}: not YAML: {error}") from None


def _mark(
    path: Path, node: yaml.Node, place: Place, lines: dict[Place, int], written: dict[Place, str]
) -> None:
    """Note the line of every key, and refuse what YAML reads in another way than it was meant."""
    if problem := _misread(node):
        where = f"{_dotted(place)}: " if place else ""
        raise SpecError(f"{path}:{node.start_mark.line + 1}: {where}{problem}")
    if isinstance(node, yaml.ScalarNode) and node.tag != f"{_TAG}str" and node.value:
        written[place] = (
            node.value if len(node.value) <= _LONGEST_SHOWN else f"{node.value[:_LONGEST_SHOWN]}..."
        )
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*place, index)] = item.start_mark.line + 1
            _mark(path, item, (*place, index), lines, written)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):  # often a template: {{ name }}
            where = f"{_dotted(place)}: " if place else ""
            raise SpecError(
                f"{path}:{line}: {where}braces or brackets stand where a key should; put text that begins "
                "with them in quotes"
            )
        if problem := _misread(key):
            where = f"{_dotted(place)}: " if place else ""
            raise SpecError(f"{path}:{line}: {where}the key {problem}")
        if key.tag == "tag:yaml.org,2002:bool":  # YAML 1.1 takes the key `on` for a truth
            key.tag = "tag:yaml.org,2002:str"
        if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
            name, first = _dotted((*place, key.value)), seen[key.value]
            raise SpecError(f"{path}:{line}: {name}: stands twice, first in line {first}; keep one")
        seen[key.value] = line
        lines[(*place, key.value)] = line
        _mark(path, value, (*place, key.value), lines, written)


def _misread(node: yaml.Node) -> str | None:
    """What is wrong with a value that YAML reads in another way than it was meant."""
    kind = node.tag.removeprefix(_TAG)
    if kind == "value" and isinstance(node, yaml.ScalarNode):
        return f"{node.value} has a meaning of its own to YAML; put it in quotes"
    if kind not in _KINDS:
        tag = f"!!{kind}" if node.tag.startswith(_TAG) else node.tag
        return f"the tag {tag} has no place in a spec; write the value without it"
    if kind in ("int", "float") and ":" in node.value:
        return f"{node.value} is a number of base 60 to YAML; put it in quotes if it is a text"
    if kind == "int" and _OCTAL.fullmatch(node.value):
        return (
            f"{node.value} is an octal number to YAML; leave out the 0, or put it in quotes if it is a text"
        )
    plain = isinstance(node, yaml.ScalarNode) and not node.style  # in no quotes
    if kind == "str" and plain and _NEARLY_A_NUMBER.fullmatch(node.value):
        return f"{node.value} begins like a number and is none to YAML; put it in quotes if it is a text"
    return None


def _message(
    path: Path, model: type[BaseModel], lines: dict[Place, int], mistake: Mistake
) -> tuple[int, str]:
    place, text = mistake.place, mistake.text
    key = text.partition(": ")[0]
    if mistake.kind == "value_error" and (*place, key) in lines:  # a check of the whole model names the key
        place, text = (*place, key), text.removeprefix(f"{key}: ")
    line = _line_of(place, lines)
    if mistake.kind == "extra_forbidden":
        known = _keys_of(model, place[:-1])
        near = difflib.get_close_matches(str(place[-1]), known, n=1)
        mend = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}"
        text = f"unknown key; {mend}"
    where = f"{_dotted(place)}: " if place else ""
    return line, f"{path}:{line}: {where}{text}"


def _line_of(place: Place, lines: dict[Place, int]) -> int:
    """The line of a place; of what is merged in from an alias, that of what it is in."""
    return max((lines[place[:depth]] for depth in range(len(place) + 1) if place[:depth] in lines), default=1)


def _place(details: Mapping[str, Any], lines: dict[Place, int]) -> Place:
    """Drop from an error's location what no file holds: the names of kinds of values.

    The last part stays where it is missing, and where it is merged into its mapping from an alias.
    """
    place: Place = ()
    loc = details["loc"]
    for index, part in enumerate(loc):
        kept = index == len(loc) - 1 and details["type"] in ("missing", "extra_forbidden")
        if (*place, part) in lines or kept:
            place = (*place, part)
    return place


def _dotted(place: Place) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _keys_of(model: type[BaseModel], place: Place) -> list[str]:
    """Return the keys that the model at this place knows, in the order that it declares them."""
    models = _models_at(model, place)
    keys = (key for each in models for key, field in each.model_fields.items() if not field.exclude)
    return list(dict.fromkeys(keys))


def _models_at(model: type[BaseModel], place: Place) -> list[type[BaseModel]]:
    """Return the models that may stand at a place."""
    models = [model]
    for part in place:
        if isinstance(part, int):
            continue
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        if not fields and len(models) == 1:
            continue
        models = [inner for field in fields for inner in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for argument in typing.get_args(annotation) for model in _models_in(argument)]
