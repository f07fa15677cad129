"""Words of filters and expressions: a text cut into numbers, texts, names and signs, taken one by one."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hipslake.errors import SpecError
from hipslake.predicates.predicate_tree import KEYWORDS

MAX_LENGTH = 10_000
MAX_DEPTH = 50
COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""The signs of comparisons, and the operator that each is."""
_NAMES_IN_MESSAGE = 20


class Token(NamedTuple):
    """A word of the grammar, a name, a value, or the end."""

    kind: str  # number, text, quoted, word, sign, end
    text: str
    place: int

    @property
    def keyword(self) -> str:
        """What the token means to the grammar: a sign, or a word of it."""
        if self.kind == "word" and self.text.lower() in KEYWORDS:
            return self.text.lower()
        return self.text if self.kind == "sign" else ""

    @property
    def is_name(self) -> bool:
        """Whether it names a column."""
        return self.kind == "quoted" or (self.kind == "word" and not self.keyword)

    @property
    def name(self) -> str:
        """The name that it is, without quotes."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text

    @property
    def value(self) -> str:
        """The text that it stands for, without quotes."""
        return self.text[1:-1].replace("''", "'")


def token_pattern(number: str, signs: str) -> re.Pattern[str]:
    """The pattern of a token, with blanks before it.

    Parameters
    ----------
    number, signs : str
        Patterns of the numbers and signs of a grammar.
    """
    return re.compile(
        rf"""\s*(?:
            (?P<number>{number}(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
          | (?P<text>'(?:[^']|'')*')
          | (?P<quoted>"(?:[^"]|"")+")
          | (?P<word>[^\W\d]\w*)
          | (?P<sign>{signs})
        )""",
        re.VERBOSE,
    )


class TokenReader(ABC):
    """Takes the tokens of a text in turn.

    Parameters
    ----------
    text : str
    pattern : re.Pattern
        Of `token_pattern`.
    what : str
        What the text is, for messages.
    """

    def __init__(self, text: str, pattern: re.Pattern[str], what: str) -> None:
        self._text = text
        if len(text) > MAX_LENGTH:
            raise self._refused(f"the {what} has {len(text)} characters; at most {MAX_LENGTH} are read")
        self._pattern, self._what = pattern, what
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    @abstractmethod
    def _refused(self, said: str) -> SpecError:
        """The error of the text."""

    def _wrong(self, said: str) -> SpecError:
        """The error of something in the text."""
        return self._refused(f"{self._what} {self._text!r}: {said}")

    def _stand(self, place: int) -> str:
        """Where a place of the text is, for messages."""
        return str(place + 1)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Go a level down into the text."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refused(
                f"the {self._what} is nested more than {MAX_DEPTH} deep; write it with fewer parentheses"
            )
        try:
            yield
        finally:
            self._depth -= 1

    def _split(self) -> list[Token]:
        found, place, end = [], 0, len(self._text.rstrip())
        while place < end:
            match = self._pattern.match(self._text, place)
            if match is None:
                place = end - len(self._text[place:end].lstrip())
                raise self._wrong(f"{self._text[place]!r} at {self._stand(place)} has no meaning here")
            kind = str(match.lastgroup)
            found.append(Token(kind, match[kind], match.start(kind)))
            place = match.end()
        return [*found, Token("end", "", end)]

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _took(self, *keywords: str) -> bool:
        """Take some words of the grammar if they come next."""
        coming = [token.keyword for token in self._tokens[self._at : self._at + len(keywords)]]
        if coming != list(keywords):
            return False
        self._at += len(keywords)
        return True

    def _need(self, keyword: str) -> None:
        if not self._took(keyword):
            raise self._error(repr(keyword))

    def _error(self, expected: str, token: Token | None = None) -> SpecError:
        token = token or self._next
        at_end = token.kind == "end"
        found = "the end" if at_end else f"{token.text!r} at {self._stand(token.place)}"
        return self._wrong(f"expected {expected}, found {found}")


def no_such_column(name: str, names: Sequence[str]) -> str:
    """Say that there is no column of a name, and which there are: the nearest, or the first of all."""
    near = difflib.get_close_matches(name, names, n=3)
    listed = sorted(names)
    some = ", ".join(listed[:_NAMES_IN_MESSAGE]) + (", ..." if len(listed) > _NAMES_IN_MESSAGE else "")
    return f"there is no column {name!r}" + (
        f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; the columns are {some}"
    )
