"""Filters as text, as they are typed into a form: `phot_g_mean_mag < 12 and ra_error is not null`.

A small language of its own, read by a recursive descent; nothing of the text is ever evaluated as code.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.filter_values import Number, Value, comparable
from hipslake.errors import FilterError
from hipslake.membership import is_one_of

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
_COMPARISONS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_KEYWORDS = {"and", "or", "not", "is", "in", "between", "null", "nan", "true", "false"}
_NAMES_IN_MESSAGE = 20


def parse_filter(text: str, schema: pa.Schema) -> pc.Expression:
    """The expression that a text stands for.

    Comparisons (`=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`) of columns with numbers, `'texts'`, `true`, `false`
    and columns; dates and times are texts: `'2026-11'`, `'2026-11-01'`, `'2026-11-01T21:30:00Z'`;
    `between A and B` (both included), `in (A, B, ...)`, `is null`, `is nan`, each with `not`;
    joined by `and`, `or`, `not` and parentheses. A column of booleans is a condition by itself. Words are of
    any case; names of columns are as they are, in double quotes if they are no plain word: `"B-V" > 0.5`.
    In quotes, a quote is written twice. As in SQL, a comparison with null is never met.

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
    >>> print(parse_filter("mag < 12 and name is not null", schema))
    ((mag < 12) and invert(is_null(name, ...)))
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        parser = _Parser(text, schema)
        found = parser.whole()
        parser.compared.empty_table().filter(found)  # tells of columns that cannot be compared
        return found
    except (pa.ArrowException, OverflowError) as error:  # columns of different types, huge numbers
        raise FilterError(f"filter {text!r}: {''.join(str(error).splitlines()[:1])}") from error


class _Token(NamedTuple):
    kind: str  # number, text, quoted, word, sign, end
    text: str
    place: int

    @property
    def keyword(self) -> str:
        """What the token means to the grammar: a sign, or a word of it."""
        if self.kind == "word" and self.text.lower() in _KEYWORDS:
            return self.text.lower()
        return self.text if self.kind == "sign" else ""


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0
        self._columns: dict[str, None] = {}

    @property
    def compared(self) -> pa.Schema:
        """The columns that the text names."""
        return pa.schema([self._schema.field(name) for name in self._columns])

    def whole(self) -> pc.Expression:
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

    def _either(self) -> pc.Expression:
        found = self._both()
        while self._took("or"):
            found = found | self._both()
        return found

    def _both(self) -> pc.Expression:
        found = self._condition()
        while self._took("and"):
            found = found & self._condition()
        return found

    def _condition(self) -> pc.Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FilterError(
                f"the filter is nested more than {_MAX_DEPTH} deep; write it with fewer parentheses"
            )
        try:
            if self._took("not"):
                return ~self._condition()
            if self._took("("):
                found = self._either()
                self._need(")")
                return found
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> pc.Expression:
        start = self._next
        column, value = self._operand()
        sign = self._next.keyword
        if sign in _COMPARISONS:
            self._take()
            other, other_value = self._operand()
            if column is None and other is None:
                raise self._error("a column on one side of each comparison", self._tokens[self._at - 1])
            if column is not None and other is not None:
                return _COMPARISONS[sign](pc.field(column), pc.field(other))
            if column is None:
                assert other is not None, "one of both is a column"
                subject, (value,) = self._comparable(other, [value], start)
                return _COMPARISONS[sign](_scalar(value), subject)
            subject, (value,) = self._comparable(column, [other_value], start)
            return _COMPARISONS[sign](subject, _scalar(value))
        if column is None:
            raise self._error("a comparison")
        subject = pc.field(column)
        if self._took("is", "not", "null"):
            return ~subject.is_null()
        if self._took("is", "null"):
            return subject.is_null()
        if self._took("is", "not", "nan"):
            return ~subject.is_nan()
        if self._took("is", "nan"):
            return subject.is_nan()
        if self._next.keyword == "is":
            self._take()
            raise self._error("null, nan, not null or not nan")
        turned = self._took("not")
        if self._took("in"):
            subject, values = self._comparable(column, self._values(), start)
            found = is_one_of(subject, _array(values))
        elif self._took("between"):
            low = self._literal()
            self._need("and")
            subject, (low, high) = self._comparable(column, [low, self._literal()], start)
            found = (subject >= _scalar(low)) & (subject <= _scalar(high))
        elif turned:
            raise self._error("'in' or 'between'")
        else:
            return self._truth(subject)
        return ~found if turned else found

    def _comparable(self, column: str, values: list[Value], start: _Token) -> tuple[pc.Expression, list[Any]]:
        try:
            return comparable(column, self._schema.field(column).type, values)
        except ValueError as error:
            raise FilterError(f"filter {self._text!r}: at {start.place + 1}: {error}") from None

    def _truth(self, column: pc.Expression) -> pc.Expression:
        name = self._tokens[self._at - 1]
        if not pa.types.is_boolean(self._schema.field(_name(name)).type):
            raise self._error("a comparison, 'is', 'in' or 'between'")
        return column

    def _operand(self) -> tuple[str | None, Any]:
        """The name of a column, or None and a value."""
        token = self._next
        if token.kind == "quoted" or (token.kind == "word" and not token.keyword):
            self._take()
            name = self._known(token)
            self._columns[name] = None
            return name, None
        return None, self._literal()

    def _values(self) -> list[Value]:
        self._need("(")
        found = [self._literal()]
        while self._took(","):
            found.append(self._literal())
        self._need(")")
        return found

    def _literal(self) -> Value:
        token = self._take()
        if token.kind == "number":
            return Number(token.text)
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.keyword in ("true", "false"):
            return token.keyword == "true"
        raise self._error("a column, a number or a 'text'", token)

    def _known(self, token: _Token) -> str:
        name = _name(token)
        if name in self._schema.names:
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


def _scalar(value: Any) -> pc.Expression:
    return pc.scalar(value)


def _array(values: list[Any]) -> pa.Array:
    """Values of one type, of which some may be Arrow's scalars and say which."""
    typed = next((value.type for value in values if isinstance(value, pa.Scalar)), None)
    return pa.array([value.as_py() if isinstance(value, pa.Scalar) else value for value in values], typed)


def _name(token: _Token) -> str:
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text
