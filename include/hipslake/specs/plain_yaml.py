"""Untrusted YAML: plain values only, in a number bounded by the size of the file.

PyYAML's safe loader makes no objects of a tag's choice, but it stumbles over tags that do not fit their
value, over texts that are nested a thousand times, and over aliases of aliases, which can stand for more than
any memory holds.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_NODES = 1_000_000
MOST_DEPTH = 60
MOST_CHARACTERS = 8 << 20
MOST_DIGITS = 400
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# What PyYAML raises where a tag does not fit its value, besides its own errors: `!!int ""`, `!!bool x`.
_STUMBLES = (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)


class YamlError(ValueError):
    """A text is no YAML that is read here; `line` and `column` are counted from 1, and 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


# Of libyaml where PyYAML has it: some ten times as fast, and as exact about lines.
SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PlainLoader(SafeLoader):  # type: ignore[misc, valid-type]
    """Makes plain values, also of nodes with unknown tags: a mapping, a list or a text."""


class Document:
    """A YAML text: its nodes, with their line numbers, and its value.

    Parameters
    ----------
    text : str
    loader : type
        `SafeLoader` refuses unknown tags; `PlainLoader` does not look at them.

    Raises
    ------
    YamlError
        The text is none, is nested too deep, holds half characters or a number of very many digits, or its
        aliases stand for too much or for themselves.
    """

    def __init__(self, text: str, loader: type[yaml.SafeLoader] = SafeLoader) -> None:
        if len(text) > MOST_CHARACTERS:
            raise YamlError(f"it has more than {MOST_CHARACTERS >> 20} million characters")
        try:
            _check_depth(text, loader)
            self._loader = loader(text)
            self.node: yaml.Node | None = self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            raise _marked(error) from None
        except (yaml.YAMLError, UnicodeError) as error:
            raise YamlError(" ".join(str(error).split())) from None
        if self.node is not None:
            _check_size(self.node)

    def value(self) -> Any:
        """Return the value of the document.

        Raises
        ------
        YamlError
            A value is none of its tag.
        """
        if self.node is None:
            return None
        try:
            return self._loader.construct_document(self.node)
        except yaml.MarkedYAMLError as error:
            raise _marked(error) from None
        except _STUMBLES as error:  # e.g. a date that no calendar has
            raise YamlError(f"a value cannot be read: {error}") from None


def _check_depth(text: str, loader: type[yaml.SafeLoader]) -> None:
    """Refuse a deep text before it is read by recursion, which in libyaml has no limit but the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                mark = event.start_mark
                raise YamlError(f"it is nested more than {MOST_DEPTH} deep", mark.line + 1 if mark else 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_size(root: yaml.Node) -> None:
    """Raise `YamlError` if the document would be too large with all aliases expanded, without doing so."""
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    above: set[int] = set()
    todo: list[tuple[yaml.Node, str, bool]] = [(root, "", False)]
    while todo:
        node, place, done = todo.pop()
        _check_scalar(node)
        children = _children(node)
        if done:
            above.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child, _ in children)
            heights[id(node)] = 1 + max((heights[id(child)] for child, _ in children), default=0)
        elif id(node) in above:
            line = node.start_mark.line + 1
            raise YamlError(f"{place.removeprefix('.')}: stands for something that it is a part of", line)
        elif id(node) not in sizes:
            above.add(id(node))
            todo.append((node, place, True))
            todo += [(child, place + part, False) for child, part in children]
    if heights[id(root)] > MOST_DEPTH:
        raise YamlError(f"it is nested more than {MOST_DEPTH} deep")
    if sizes[id(root)] > MOST_NODES:
        raise YamlError(f"its aliases stand for more than {MOST_NODES} values")


def _check_scalar(node: yaml.Node) -> None:
    r"""Refuse `"\ud800"`, half a character, which no file and no message can hold, and endless numbers.

    YAML's numbers of base 60 (`1:59:59`) take time that grows with the square of their digits.
    """
    if not isinstance(node, yaml.ScalarNode):
        return
    line = node.start_mark.line + 1
    try:
        node.value.encode()
    except UnicodeEncodeError:
        raise YamlError("a text holds half a character", line) from None
    if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
        raise YamlError(f"a number has more than {MOST_DIGITS} digits", line)


def _children(node: yaml.Node) -> list[tuple[yaml.Node, str]]:
    """What a node consists of, each with its place in it."""
    if isinstance(node, yaml.MappingNode):
        values = [(value, f".{key.value}" if isinstance(key.value, str) else "") for key, value in node.value]
        return [*((key, "") for key, _ in node.value), *values]
    return (
        [(item, f"[{at}]") for at, item in enumerate(node.value)]
        if isinstance(node, yaml.SequenceNode)
        else []
    )


def _marked(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    message = str(error.problem or error.context)
    if "Unicode character escape" in message:  # what libyaml says of half a character
        message = "a text holds half a character"
    return YamlError(message, mark.line + 1, mark.column + 1) if mark else YamlError(message)


def _untagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode), "there is no other node"
    return loader.construct_scalar(node)


PlainLoader.add_multi_constructor("", _untagged)
