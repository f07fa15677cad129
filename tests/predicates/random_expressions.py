"""Random expressions, each with what numpy makes of it: an oracle that knows nothing of the library.

Values are pairs (values, missing); integers are Python's own, which have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import and_, neg
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 60
BOUND = 2**63

Pair = tuple[np.ndarray, np.ndarray]
Columns = dict[str, Pair]


class ExpectedError(Exception):
    """The expression has no value for some row: integers beyond 64 bits, or divided by zero."""


@dataclass(frozen=True)
class Case:
    """A text, and what it means."""

    text: str
    kind: str  # int, float or bool
    value: Callable[[Columns], Pair]
    is_constant: bool = False


def columns(rng: np.random.Generator) -> tuple[pa.RecordBatch, Columns]:
    """Columns of integers, doubles, floats and truths with nulls, and the same as pairs."""
    floats = np.concatenate([[np.nan, np.inf, -np.inf, 0.0, -0.0], rng.normal(0, 50, ROWS - 5)])
    plain = {
        "a": rng.integers(-20, 20, ROWS),
        "b c": rng.integers(-(2**62), 2**62, ROWS),
        "f": floats,
        "g": rng.normal(0, 3, ROWS).astype(np.float32),
        "t": rng.random(ROWS) < 0.5,
    }
    missing = {name: rng.random(ROWS) < 0.2 for name in plain}
    batch = pa.record_batch({name: pa.array(plain[name], mask=missing[name]) for name in plain})
    pairs = {}
    for name, values in plain.items():
        kind: Any = object if values.dtype.kind == "i" else (float if values.dtype.kind == "f" else bool)
        pairs[name] = (np.array(values.tolist(), kind), missing[name])
    return batch, pairs


def _float(pair: Pair) -> Pair:
    values, missing = pair
    return (np.array([float(each) for each in values]) if values.dtype == object else values), missing


def _by_numpy(function: Callable[..., Any], *pairs: Pair) -> Pair:
    sides = [_float(pair) for pair in pairs]
    missing = np.logical_or.reduce([lost for _, lost in sides])
    with np.errstate(all="ignore"):
        return function(*(values for values, _ in sides)), missing


def _whole(function: Callable[..., Any], *pairs: Pair) -> Pair:
    missing = np.logical_or.reduce([lost for _, lost in pairs])
    found = np.zeros(len(missing), object)
    for row in np.flatnonzero(~missing):
        try:
            found[row] = function(*(values[row] for values, _ in pairs))
        except ZeroDivisionError:
            raise ExpectedError from None
        if not -BOUND <= found[row] < BOUND:
            raise ExpectedError
    return found, missing


_SIGNS = {
    "+": (lambda x, y: x + y, np.add),
    "-": (lambda x, y: x - y, np.subtract),
    "*": (lambda x, y: x * y, np.multiply),
    "//": (lambda x, y: x // y, np.floor_divide),
    "%": (lambda x, y: x % y, np.remainder),
}
_ONE = {
    **{
        name: getattr(np, name)
        for name in ("sqrt", "cbrt", "exp", "log10", "log2", "sin", "cos", "tan", "tanh")
    },
    "ln": np.log,
    "asin": np.arcsin,
    "atan": np.arctan,
    "degrees": np.degrees,
    "radians": np.radians,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sign": np.sign,
    "abs": np.abs,
}
_TWO = {"least": np.minimum, "greatest": np.maximum, "hypot": np.hypot, "atan2": np.arctan2}
_TESTS = {
    "=": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


class Grammar:
    """Makes random expressions."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def of(self, kind: str, depth: int) -> Case:
        return {"int": self.whole, "float": self.real, "bool": self.truth}[kind](depth)

    def _pick(self, options: Any) -> Any:
        options = list(options)
        return options[self.rng.integers(len(options))]

    def whole(self, depth: int) -> Case:
        if depth == 0 or self.rng.random() < 0.15:
            if self.rng.random() < 0.6:
                return _column(self._pick(["a", "b c"]), "int")
            number = int(self.rng.integers(-9, 9))
            return _constant(str(number), number, "int")
        x, y = self.whole(depth - 1), self.whole(depth - 1)
        choice = self._pick(["sign", "sign", "sign", "abs", "minus", "least", "bits", *_COMMON])
        if choice == "sign":
            sign = self._pick(_SIGNS)
            return _made(f"({x.text} {sign} {y.text})", "int", partial(_whole, _SIGNS[sign][0]), x, y)
        if choice == "abs":
            return _made(f"abs({x.text})", "int", partial(_whole, abs), x)
        if choice == "minus":
            made = _made(f"- ({x.text})", "int", partial(_whole, neg), x)
            return replace(made, is_constant=x.is_constant)
        if choice == "least":
            return _made(f"least({x.text}, {y.text})", "int", partial(_whole, min), x, y)
        if choice == "bits":
            return _made(f"bit_and({x.text}, {y.text})", "int", partial(_whole, and_), x, y)
        return self._common(choice, x, y, "int", depth)

    def real(self, depth: int) -> Case:
        if depth == 0 or self.rng.random() < 0.15:
            if self.rng.random() < 0.6:
                return _column(self._pick(["f", "g"]), "float")
            number = float(self.rng.normal(0, 10))
            return _constant(repr(number), number, "float")
        x, y = self.real(depth - 1), self.of(self._pick(["int", "float"]), depth - 1)
        choice = self._pick(["sign", "sign", "sign", "over", "power", "one", "one", "sum", "least", *_COMMON])
        if choice == "sign":
            sign = self._pick(_SIGNS)
            return _made(f"({x.text} {sign} {y.text})", "float", partial(_by_numpy, _SIGNS[sign][1]), x, y)
        if choice == "over":
            return _made(f"({y.text} / {x.text})", "float", partial(_by_numpy, np.divide), y, x)
        if choice == "power":
            return _made(f"({x.text}) ** ({y.text})", "float", partial(_by_numpy, np.power), x, y)
        if choice == "one":
            name = self._pick(_ONE)
            return _made(f"{name}({x.text})", "float", partial(_by_numpy, _ONE[name]), x)
        if choice == "sum":
            whole = self.whole(depth - 1)
            return _made(f"({whole.text} + 0.0)", "float", partial(_by_numpy, lambda v: v + 0.0), whole)
        if choice == "least":
            name = self._pick(_TWO)
            return _made(f"{name}({x.text}, {y.text})", "float", partial(_by_numpy, _TWO[name]), x, y)
        return self._common(choice, x, self.real(depth - 1), "float", depth)

    def _common(self, choice: str, x: Case, y: Case, kind: str, depth: int) -> Case:
        if choice == "coalesce":
            return _made(f"coalesce({x.text}, {y.text})", kind, _first, x, y)
        test = self.truth(depth - 1)
        return Case(f"where({test.text}, {x.text}, {y.text})", kind, partial(_where, test, x, y))

    def truth(self, depth: int) -> Case:
        if depth == 0 or self.rng.random() < 0.1:
            return _column("t", "bool")
        choice = self._pick(["test", "test", "null", "nan", "and", "not", "between", "in"])
        if choice in ("and", "not"):
            p, q = self.truth(depth - 1), self.truth(depth - 1)
            if choice == "not":
                return _made(f"not ({p.text})", "bool", lambda pair: (~pair[0], pair[1]), p)
            word = self._pick(["and", "or"])
            return _made(f"(({p.text}) {word} ({q.text}))", "bool", partial(_kleene, word), p, q)
        x = self._varying(self._pick(["int", "float"]), depth - 1)
        if choice == "null":
            return _made(f"({x.text}) is null", "bool", lambda pair: _known(pair[1]), x)
        if choice == "nan":
            x = self._varying("float", depth - 1)
            return _made(
                f"({x.text}) is not nan", "bool", lambda pair: _known(~np.isnan(pair[0]) | pair[1]), x
            )
        if choice == "between":
            low, high = sorted(self.rng.normal(0, 30, 2).tolist())
            within = partial(_compare, lambda v, _: low <= v <= high)
            return _made(f"{x.text} between {low!r} and {high!r}", "bool", within, x, x)
        if choice == "in":
            x = self._varying("int", depth - 1)
            return _made(
                f"({x.text}) in (1, -2, 3)", "bool", partial(_compare, lambda v, _: v in (1, -2, 3)), x, x
            )
        sign, y = self._pick(_TESTS), self.of(self._pick(["int", "float"]), depth - 1)
        return _made(f"({x.text} {sign} {y.text})", "bool", partial(_compare, _TESTS[sign]), x, y)

    def _varying(self, kind: str, depth: int) -> Case:
        """No constant: of these, nothing is asked."""
        while (found := self.of(kind, depth)).is_constant:
            pass
        return found


def _made(text: str, kind: str, function: Callable[..., Pair], *parts: Case) -> Case:
    return Case(text, kind, lambda c: function(*(part.value(c) for part in parts)))


_COMMON = ("where", "coalesce")


def _column(name: str, kind: str) -> Case:
    text = f'"{name}"' if " " in name else name
    return Case(text, kind, lambda c: c[name])


def _constant(text: str, number: float, kind: str) -> Case:
    dtype: Any = object if kind == "int" else float

    def value(columns: Columns) -> Pair:
        rows = len(columns["a"][0])
        return np.array([number] * rows, dtype), np.zeros(rows, bool)

    return Case(text, kind, value, is_constant=True)


def _known(values: np.ndarray) -> Pair:
    return values.astype(bool), np.zeros(len(values), bool)


def _first(x: Pair, y: Pair) -> Pair:
    return np.where(x[1], y[0], x[0]), x[1] & y[1]


def _where(test: Case, x: Case, y: Case, columns: Columns) -> Pair:
    """Each side is of the rows alone that take it."""
    holds, unknown = test.value(columns)
    found = np.zeros(len(holds), object if x.kind == "int" else float)
    missing = unknown.copy()
    for side, mine in ((x, holds & ~unknown), (y, ~holds & ~unknown)):
        found[mine], missing[mine] = side.value(
            {name: (v[mine], lost[mine]) for name, (v, lost) in columns.items()}
        )
    return found, missing


def _kleene(word: str, p: Pair, q: Pair) -> Pair:
    (a, lost_a), (b, lost_b) = p, q
    decisive = word == "or"
    decided = ((a == decisive) & ~lost_a) | ((b == decisive) & ~lost_b)
    return np.where(decided, decisive, not decisive), ~decided & (lost_a | lost_b)


def _compare(test: Callable[[Any, Any], bool], x: Pair, y: Pair) -> Pair:
    """Value by value: Python compares integers and doubles exactly."""
    found = [bool(test(v, w)) for v, w in zip(x[0].tolist(), y[0].tolist(), strict=True)]
    return np.array(found, bool), x[1] | y[1]
