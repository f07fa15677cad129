"""Filters as text, as they are typed into a form: `phot_g_mean_mag < 12 and ra_error is not null`.

A small language of its own, read by a recursive descent; nothing of the text is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from hipslake.errors import FilterError
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.filter_tokens import (
    COMPARISONS,
    Token,
    TokenReader,
    no_such_column,
    token_pattern,
)
from hipslake.predicates.predicate_tree import (
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

_TOKEN = token_pattern("[-+]?", r"<=|>=|<>|!=|==|[=<>(),]")


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


class _Parser(TokenReader):
    def __init__(self, text: str, schema: pa.Schema | None) -> None:
        self._schema = schema
        super().__init__(text, _TOKEN, "filter")

    def _refused(self, said: str) -> FilterError:
        return FilterError(said)

    def whole(self) -> Predicate:
        found = self._either()
        if self._next.kind != "end":
            raise self._error("'and', 'or' or the end")
        return found

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
        with self._deeper():
            if self._took("not"):
                return Not(self._condition())
            if self._took("("):
                found = self._either()
                self._need(")")
                return found
            start = self._next
            return self._fitting(self._test(), start)

    def _fitting(self, found: Predicate, start: Token) -> Predicate:
        if self._schema is not None:
            try:
                check_predicate(found, self._schema)
            except UnfitError as error:
                raise self._wrong(f"at {self._stand(start.place)}: {error}") from None
        return found

    def _test(self) -> Predicate:
        column, literal = self._operand()
        sign = self._next.keyword
        if sign in COMPARISONS:
            self._take()
            return self._comparison(column, literal, COMPARISONS[sign])
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
        if token.is_name:
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
            return TextLiteral(token.value)
        if token.keyword in ("true", "false"):
            return TruthLiteral(token.keyword == "true")
        raise self._error("a column, a number or a 'text'", token)

    def _known(self, token: Token) -> str:
        if self._schema is not None and token.name not in self._schema.names:
            raise self._wrong(no_such_column(token.name, self._schema.names))
        return token.name
