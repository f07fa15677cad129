"""Expressions as text, as specs have them: `where(flux > 0, 25 - 2.5 * log10(flux), null)`.

Their conditions are those of filters. A small language of its own, read by a recursive descent: nothing of
the text is ever evaluated as code, and there is nothing in it but columns, constants, and the functions that
are listed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable

from hipslake.errors import ExpressionError
from hipslake.predicates.derived_values import DerivedValue, stand_of
from hipslake.predicates.expression_functions import FUNCTIONS
from hipslake.predicates.expression_tree import (
    Chained,
    ColumnValue,
    ConditionTruth,
    Constant,
    ConvertedValue,
    Expression,
    FunctionCall,
    Negated,
    RaisedPower,
    ValueChoice,
)
from hipslake.predicates.filter_tokens import COMPARISONS, Token, TokenReader, token_pattern
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
from hipslake.predicates.type_names import arrow_type, check_type_name

_TOKEN = token_pattern("", r"<=|>=|<>|!=|==|\*\*|//|[-+*/%=<>(),]")
_SUMS, _PRODUCTS = ("+", "-"), ("*", "/", "//", "%")
_OF_GRAMMAR = ("where", "cast", "pi")
_OPERAND = "a column, a number, a 'text' or a function"


def parse_expression(text: str) -> DerivedValue:
    """Parse a text into an expression; every name may be a column.

    Numbers, `'texts'`, `true`, `false`, `null` and `nan`; columns as filters have them, `"B-V"` in double
    quotes; `+ - * / // % **` and parentheses; conditions as those of
    `hipslake.predicates.filter_text.parse_filter`, with expressions in the place of columns;
    `where(condition, a, b)`, `cast(x, int16)`, `pi()` and `FUNCTIONS`.

    Raises
    ------
    ExpressionError
        The text is not understood, with line and column where, and what would be right.

    Examples
    --------
    >>> import pyarrow as pa
    >>> mag = parse_expression("25 - 2.5 * log10(flux)")
    >>> mag.values(pa.record_batch({"flux": [100.0, None, 0.0]})).to_pylist()
    [20.0, None, inf]
    """
    return DerivedValue(text, _ExpressionReader(text).whole())


_Computed = tuple[tuple[str, Expression], ...]


def _merged(*several: _Computed) -> _Computed:
    """Computed operands of several conditions, each once: one name is one text, and so one value."""
    return tuple({name: part for computed in several for name, part in computed}.items())


class _ExpressionReader(TokenReader):
    def __init__(self, text: str) -> None:
        super().__init__(text, _TOKEN, "expression")

    def _refused(self, said: str) -> ExpressionError:
        return ExpressionError(said)

    def _wrong(self, said: str) -> ExpressionError:
        return ExpressionError(said)

    def _stand(self, place: int) -> str:
        return stand_of(self._text, place)

    def whole(self) -> Expression:
        found = self._either()
        if self._next.kind != "end":
            raise self._error("an operator or the end")
        return found

    def _either(self) -> Expression:
        with self._deeper():
            return self._joined("or", self._both, Or)

    def _both(self) -> Expression:
        return self._joined("and", self._turned, And)

    def _joined(self, word: str, part: Callable[[], Expression], kind: type[And | Or]) -> Expression:
        start = self._next
        parts = [part()]
        while self._took(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        conditions = [self._condition(each) for each in parts]
        computed = _merged(*(each.computed for each in conditions))
        return ConditionTruth(start.place, kind(tuple(each.predicate for each in conditions)), computed)

    def _turned(self) -> Expression:
        start = self._next
        if not self._took("not"):
            return self._comparison()
        with self._deeper():
            found = self._condition(self._turned())
        return ConditionTruth(start.place, Not(found.predicate), found.computed)

    def _condition(self, node: Expression) -> ConditionTruth:
        """A node as a condition: a column of booleans is one by itself."""
        if isinstance(node, ConditionTruth):
            return node
        if isinstance(node, ColumnValue):
            return ConditionTruth(node.place, IsTrue(node.name), ())
        if isinstance(node, Constant):
            raise self._wrong(f"expected a condition, found a constant at {self._stand(node.place)}")
        name = self._name_of(node, self._tokens[self._at - 1])
        return ConditionTruth(node.place, IsTrue(name), ((name, node),))

    def _comparison(self) -> Expression:
        start = self._next
        left = self._chain(_SUMS, self._product)
        end = self._tokens[self._at - 1]
        sign = self._next.keyword
        if sign in COMPARISONS:
            self._take()
            right = self._chain(_SUMS, self._product)
            return self._compared(start, COMPARISONS[sign], (left, end), (right, self._tokens[self._at - 1]))
        if sign not in ("is", "not", "in", "between"):
            return left
        tested, computed = self._tested(left, end)
        if self._took("is"):
            turned, word = self._took("not"), self._next
            if word.keyword not in ("null", "nan"):
                raise self._error("null, nan, not null or not nan")
            self._take()
            test = IsNull(tested) if word.keyword == "null" else IsNan(tested)
            return ConditionTruth(start.place, Not(test) if turned else test, computed)
        turned = self._took("not")
        if self._took("in"):
            found = ConditionTruth(start.place, InList(tested, self._literals()), computed)
        elif self._took("between"):
            found = self._between(start, (left, end))
        else:
            raise self._error("'in' or 'between'")
        return ConditionTruth(start.place, Not(found.predicate), found.computed) if turned else found

    def _between(self, start: Token, tested: tuple[Expression, Token]) -> ConditionTruth:
        low = self._chain(_SUMS, self._product)
        above = self._compared(start, ">=", tested, (low, self._tokens[self._at - 1]))
        self._need("and")
        high = self._chain(_SUMS, self._product)
        below = self._compared(start, "<=", tested, (high, self._tokens[self._at - 1]))
        computed = _merged(above.computed, below.computed)
        return ConditionTruth(start.place, And((above.predicate, below.predicate)), computed)

    def _compared(
        self, start: Token, operator: str, left: tuple[Expression, Token], right: tuple[Expression, Token]
    ) -> ConditionTruth:
        """Two sides compared; each with the last token of its text."""
        sides = [side.literal if isinstance(side, Constant) else None for side, _ in (left, right)]
        constant = [isinstance(side, Constant) for side, _ in (left, right)]
        for is_constant, literal, (side, _) in zip(constant, sides, (left, right), strict=True):
            if is_constant and (literal is None or str(literal) == "nan"):
                raise self._wrong(
                    f"nothing equals {'null' if literal is None else 'nan'}, at {self._stand(side.place)}; "
                    f"write 'is {'null' if literal is None else 'nan'}'"
                )
        if all(constant):
            raise self._wrong(
                f"expected a column on one side of the comparison at {self._stand(start.place)}, found none"
            )
        found: Predicate
        if sides[1] is not None:
            name, computed = self._tested(*left)
            found = Compare(name, operator, sides[1])
        elif sides[0] is not None:
            name, computed = self._tested(*right)
            found = Compare(name, TURNED[operator], sides[0])
        else:
            (one, ones), (other, others) = self._tested(*left), self._tested(*right)
            found, computed = CompareColumns(one, operator, other), _merged(ones, others)
        return ConditionTruth(start.place, found, computed)

    def _tested(self, node: Expression, end: Token) -> tuple[str, _Computed]:
        """The name under which a predicate knows an operand, and what it stands for if it is no column."""
        if isinstance(node, ColumnValue):
            return node.name, ()
        if isinstance(node, Constant):
            raise self._wrong(f"expected a column, found a constant at {self._stand(node.place)}")
        name = self._name_of(node, end)
        return name, ((name, node),)

    def _name_of(self, node: Expression, end: Token) -> str:
        """What a computed operand is called, in messages too: its text, which no two operands share."""
        text = self._text[node.place : end.place + len(end.text)]
        while text.endswith(")") and text.count(")") > text.count("("):  # of parentheses around all of it
            text = text[:-1].rstrip()
        return f"({text})"

    def _literals(self) -> tuple[Literal, ...]:
        self._need("(")
        found = [self._literal()]
        while self._took(","):
            found.append(self._literal())
        self._need(")")
        return tuple(found)

    def _literal(self) -> Literal:
        start, node = self._next, self._unary()
        if isinstance(node, Constant) and node.literal is not None and str(node.literal) != "nan":
            return node.literal
        raise self._error("a number or a 'text'", start)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        start, first = self._next, part()
        rest: list[tuple[str, int, Expression]] = []
        while self._next.keyword in signs:
            sign = self._take()
            rest.append((sign.text, sign.place, part()))
        return Chained(start.place, first, tuple(rest)) if rest else first

    def _product(self) -> Expression:
        return self._chain(_PRODUCTS, self._unary)

    def _unary(self) -> Expression:
        sign = self._next
        if not (self._took("-") or self._took("+")):
            return self._power()
        with self._deeper():
            of = self._unary()
        if isinstance(of, Constant) and isinstance(of.literal, NumberLiteral) and of.literal.text != "nan":
            text = of.literal.text
            if sign.text == "-":
                text = text[1:] if text.startswith("-") else f"-{text}"
            return Constant(sign.place, NumberLiteral(text))
        return Negated(sign.place, of) if sign.text == "-" else of

    def _power(self) -> Expression:
        start, base = self._next, self._atom()
        if not self._took("**"):
            return base
        with self._deeper():
            return RaisedPower(start.place, base, self._unary())

    def _atom(self) -> Expression:
        token = self._take()
        if token.is_name:
            return (
                self._call(token)
                if token.kind == "word" and self._took("(")
                else ColumnValue(token.place, token.name)
            )
        if token.kind == "number":
            if not math.isfinite(float(token.text)):
                raise self._error("a number that a double holds", token)
            return Constant(token.place, NumberLiteral(token.text))
        if token.kind == "text":
            return Constant(token.place, TextLiteral(token.value))
        if token.keyword in ("true", "false"):
            return Constant(token.place, TruthLiteral(token.keyword == "true"))
        if token.keyword in ("null", "nan"):
            return Constant(token.place, None if token.keyword == "null" else NumberLiteral("nan"))
        if token.keyword == "(":
            found = self._either()
            self._need(")")
            return found
        raise self._error(_OPERAND, token)

    def _call(self, token: Token) -> Expression:
        name = token.text.lower()
        if name == "cast":
            return self._cast(token)
        function = FUNCTIONS.get(name)
        if function is None and name not in _OF_GRAMMAR:
            known = sorted([*FUNCTIONS, *_OF_GRAMMAR])
            near = difflib.get_close_matches(name, known, n=3)
            mend = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise self._wrong(f"there is no function {token.text!r}, at {self._stand(token.place)}; {mend}")
        arguments = [] if self._took(")") else self._arguments()
        least, most = (0, 0) if name == "pi" else (3, 3)
        if function is not None:
            least, most = function.least, function.most
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self._wrong(
                f"{name} takes {wanted} values, and has {len(arguments)} at {self._stand(token.place)}"
            )
        if name == "pi":
            return Constant(token.place, NumberLiteral(repr(math.pi)))
        if function is None:
            return ValueChoice(token.place, *arguments)
        return FunctionCall(token.place, function, tuple(arguments))

    def _arguments(self) -> list[Expression]:
        found = [self._either()]
        while self._took(","):
            found.append(self._either())
        self._need(")")
        return found

    def _cast(self, token: Token) -> Expression:
        of = self._either()
        self._need(",")
        named = self._take()
        if named.kind not in ("word", "text"):
            raise self._error("a type, such as float64 or 'timestamp[us]'", named)
        text = named.value if named.kind == "text" else named.text
        self._need(")")
        try:
            return ConvertedValue(token.place, of, arrow_type(check_type_name(text)))
        except ValueError as error:
            raise self._wrong(f"at {self._stand(named.place)}: {error}") from None
