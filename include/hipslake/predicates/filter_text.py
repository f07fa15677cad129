"""Filters as text, as they are typed into a form: `phot_g_mean_mag < 12 and ra_error is not null`.

A small language of its own, read by a recursive descent; nothing of the text is ever evaluated as code.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from hipslake.errors import FilterError
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.predicate_tree import (
    KEYWORDS,
    TURNED,
    And,
    Compare,
    CompareColumns,
    InList,
    IsNan,
    IsNull,
    IsTrue,
    Literal,
    Not,
    NumberLiteral,
    Or,
    Predicate,
    TextLiteral,
    TruthLiteral,
)

MAX_LENGTH = 10_000
_MAX_DEPTH = 50
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NAMES_IN_MESSAGE = 20


def parse_filter(text: str, schema: pa.Schema) -> Predicate:
    """Parse a text into a predicate.

    Comparisons (`=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`) of columns with numbers, `'texts'`, `true`, `false`
    and columns; dates and times are texts: `'2026-11'`, `'2026-11-01'`, `'2026-11-01T21:30:00Z'`;
    `between A and B` (both included), `in (A, B, ...)`, `is null`, `is nan`, each with `not`;
    joined by `and`, `or`, `not` and parentheses. A column of booleans is a condition by itself. Words are of
    any case; names of columns are as they are, in double quotes if they are no plain word: `"B-V" > 0.5`.
    In quotes, a quote is written twice. As in SQL, a comparison with null is never met, nor is its negation.

    Parameters
    ----------
    text : str
    schema : pyarrow.Schema
        The columns that there are.

    Raises
    ------
    FilterError
        The text is not understood, with the place where, or names a column that there is not.

    Examples
    --------
    >>> schema = pa.schema([("mag", pa.float32()), ("name", pa.string())])
    >>> print(parse_filter("12 > mag AND name is not null", schema))
    mag < 12 and name is not null
    """
    return _Parser(text, schema).whole()


def read_filter(text: str) -> Predicate:
    """The predicate of a text whose columns are not known yet; every name may be one.

    Raises
    ------
    FilterError
        The text is not understood, with the place where.
    """
    return _Parser(text, None).whole()


class _Token(NamedTuple):
    kind: str  # number, text, quoted, word, sign, end
    text: str
    place: int

    @property
    def keyword(self) -> str:
        """What the token means to the grammar: a sign, or a word of it."""
        if self.kind == "word" and self.text.lower() in KEYWORDS:
            return self.text.lower()
        return self.text if self.kind == "sign" else ""


class _Parser:
    def __init__(self, text: str, schema: pa.Schema | None) -> None:
        if len(text) > MAX_LENGTH:
            raise FilterError(f"the filter has {len(text)} characters; at most {MAX_LENGTH} are read")
        self._text, self._schema = text, schema
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._either()
        if self._next.kind != "end":
            raise self._error("'and', 'or' or the end")
        return found

    def _split(self) -> list[_Token]:
        found, place, end = [], 0, len(self._text.rstrip())
        while place < end:
            match = _TOKEN.match(self._text, place)
            if match is None:
                place = end - len(self._text[place:end].lstrip())
                raise FilterError(
                    f"filter {self._text!r}: {self._text[place]!r} at {place + 1} has no meaning here"
                )
            kind = str(match.lastgroup)
            found.append(_Token(kind, match[kind], match.start(kind)))
            place = match.end()
        return [*found, _Token("end", "", end)]

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
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

    def _either(self) -> Predicate:
        return self._joined("or", self._both, Or)

    def _both(self) -> Predicate:
        return self._joined("and", self._condition, And)

    def _joined(self, word: str, part: Callable[[], Predicate], kind: type[And | Or]) -> Predicate:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _condition(self) -> Predicate:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FilterError(
                f"the filter is nested more than {_MAX_DEPTH} deep; write it with fewer parentheses"
            )
        try:
            if self._took("not"):
                return Not(self._condition())
            if self._took("("):
                found = self._either()
                self._need(")")
                return found
            start = self._next
            return self._fitting(self._test(), start)
        finally:
            self._depth -= 1

    def _fitting(self, found: Predicate, start: _Token) -> Predicate:
        if self._schema is not None:
            try:
                check_predicate(found, self._schema)
            except UnfitError as error:
                raise FilterError(f"filter {self._text!r}: at {start.place + 1}: {error}") from None
        return found

    def _test(self) -> Predicate:
        column, literal = self._operand()
        sign = self._next.keyword
        if sign in _OPERATORS:
            self._take()
            return self._comparison(column, literal, _OPERATORS[sign])
        if column is None:
            raise self._error("a comparison")
        for test, words in ((IsNull, "null"), (IsNan, "nan")):
            if self._took("is", "not", words):
                return Not(test(column))
            if self._took("is", words):
                return test(column)
        if self._next.keyword == "is":
            self._take()
            raise self._error("null, nan, not null or not nan")
        turned = self._took("not")
        found: Predicate
        if self._took("in"):
            found = InList(column, tuple(self._literals()))
        elif self._took("between"):
            low = self._literal()
            self._need("and")
            found = And((Compare(column, ">=", low), Compare(column, "<=", self._literal())))
        elif turned:
            raise self._error("'in' or 'between'")
        else:
            return self._truth(column)
        return Not(found) if turned else found

    def _comparison(self, column: str | None, literal: Literal | None, operator: str) -> Predicate:
        other, other_literal = self._operand()
        if column is not None and other is not None:
            return CompareColumns(column, operator, other)
        if column is not None and other_literal is not None:
            return Compare(column, operator, other_literal)
        if other is not None and literal is not None:
            return Compare(other, TURNED[operator], literal)
        raise self._error("a column on one side of each comparison", self._tokens[self._at - 1])

    def _truth(self, column: str) -> Predicate:
        if self._schema is not None:
            try:
                check_predicate(IsTrue(column), self._schema)
            except UnfitError:
                raise self._error("a comparison, 'is', 'in' or 'between'") from None
        return IsTrue(column)

    def _operand(self) -> tuple[str | None, Literal | None]:
        """The name of a column, or a literal."""
        token = self._next
        if token.kind == "quoted" or (token.kind == "word" and not token.keyword):
            self._take()
            return self._known(token), None
        return None, self._literal()

    def _literals(self) -> list[Literal]:
        self._need("(")
        found = [self._literal()]
        while self._took(","):
            found.append(self._literal())
        self._need(")")
        return found

    def _literal(self) -> Literal:
        token = self._take()
        if token.kind == "number":
            return NumberLiteral(token.text)
        if token.kind == "text":
            return TextLiteral(token.text[1:-1].replace("''", "'"))
        if token.keyword in ("true", "false"):
            return TruthLiteral(token.keyword == "true")
        raise self._error("a column, a number or a 'text'", token)

    def _known(self, token: _Token) -> str:
        name = token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text
        if self._schema is None or name in self._schema.names:
            return name
        near = difflib.get_close_matches(name, self._schema.names, n=3)
        names = sorted(self._schema.names)
        listed = ", ".join(names[:_NAMES_IN_MESSAGE]) + (", ..." if len(names) > _NAMES_IN_MESSAGE else "")
        raise FilterError(
            f"filter {self._text!r}: there is no column {name!r}"
            + (f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; the columns are {listed}")
        )

    def _error(self, expected: str, token: _Token | None = None) -> FilterError:
        token = token or self._next
        found = f"{token.text!r} at {token.place + 1}" if token.kind != "end" else "the end"
        return FilterError(f"filter {self._text!r}: expected {expected}, found {found}")
