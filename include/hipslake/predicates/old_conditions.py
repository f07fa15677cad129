"""The old form of conditions of cubes: `9.0 <= mag < 12.0 and HIP in [1, 2]`.

Read as an expression of Python and never run: bare names or `C("...")` for columns; numbers, texts between
quotes, `True`, `False`, `date("2026-11-21")` and `datetime("2026-11-21T03:30:00+00:00")` for values.
"""

from __future__ import annotations

import ast
import datetime
import io
import operator
import tokenize
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hipslake.errors import ConditionError
from hipslake.predicates.conditions import C, Condition, Conjunction

_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Condition]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NULLS = {"null", "Null", "NULL", "None"}
_TRUTHS = {"true": True, "false": False}
_TIMES = {"date": datetime.date.fromisoformat, "datetime": datetime.datetime.fromisoformat}
_HOW = "write conditions such as ok = true, mag < 12, HIP in (1, 2) or HIP is not null, joined by 'and'"


def parse_old_conditions(text: str) -> Conjunction:
    """Parse a text in the old form into a conjunction.

    Raises
    ------
    ConditionError
        It is something else; the message quotes the part that is not understood.

    Examples
    --------
    >>> print(parse_old_conditions('9.0 <= mag < 12.0 and (C("B-V") > 0.5) & HIP.isin([1, 2])'))
    mag >= 9.0 and mag < 12.0 and "B-V" > 0.5 and HIP in (1, 2)
    """
    try:
        enclosed = f"({text}\n)"  # so that it may have several lines
        tree = ast.parse(enclosed, mode="eval")
        _check_texts(enclosed)
        return Conjunction(tuple(_conditions(tree.body)))
    except (SyntaxError, ValueError) as error:
        raise ConditionError(f"{text!r} cannot be read ({error.args[0]}); {_HOW}") from None
    except (RecursionError, MemoryError):
        raise ConditionError(
            f"{text[:40]!r}... is nested too deep; write it with fewer parentheses and signs"
        ) from None


def _check_texts(source: str) -> None:
    """Refuse two texts side by side: Python joins them, and in a filter it is one with a quote, `'it''s'`."""
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    kinds = [kind for kind in kinds if kind not in (tokenize.NL, tokenize.COMMENT)]
    if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
        raise ValueError("two texts stand side by side")


def _conditions(node: ast.expr) -> list[Condition]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [each for part in node.values for each in _conditions(part)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        return [*_conditions(node.left), *_conditions(node.right)]
    if isinstance(node, ast.Compare):
        return _compared(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return [_called(node, node.func)]
    if isinstance(node, ast.BoolOp) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        raise ConditionError(
            f"{ast.unparse(node)!r}: a query has one conjunction; use 'in [...]' for several values of a "
            "column, or query twice"
        )
    raise ConditionError(f"{ast.unparse(node)!r} is no condition; {_HOW}")


def _compared(node: ast.Compare) -> list[Condition]:
    """The conditions of a comparison, which may be a chain: `9.0 <= mag < 12.0`."""
    if _is_column(node.left) and len(node.ops) == 1:
        return [_condition(node, _column(node.left), node.ops[0], node.comparators[0])]
    operators = [_OPERATORS[type(each)] for each in node.ops if type(each) in _OPERATORS]
    middle = node.comparators[0]
    if not _is_column(middle) or _is_column(node.left) or not len(operators) == len(node.ops) <= 2:
        raise ConditionError(
            f"{ast.unparse(node)!r} compares no column with a value; put each condition in parentheses where "
            f"they are joined by &, and {_HOW}"
        )
    name = _column(middle)
    found = [operators[0](_value(node.left), C(name))]  # Python turns it: `9 < C("mag")` is `C("mag") > 9`
    if len(operators) == 2:
        found.append(operators[1](C(name), _value(node.comparators[1])))
    return found


def _condition(node: ast.Compare, name: str, how: ast.cmpop, right: ast.expr) -> Condition:
    if isinstance(how, ast.Is | ast.IsNot):
        if ast.unparse(right) not in _NULLS:
            raise ConditionError(f"{ast.unparse(node)!r}: a column is null or not null; use == for values")
        return C(name).is_null() if isinstance(how, ast.Is) else C(name).not_null()
    if isinstance(how, ast.In):
        return C(name).isin(_values(right))
    if type(how) not in _OPERATORS:
        raise ConditionError(f"{ast.unparse(node)!r} is no condition; {_HOW}")
    return _OPERATORS[type(how)](C(name), _value(right))


def _called(node: ast.Call, method: ast.Attribute) -> Condition:
    """One of the methods of `C`."""
    if _is_column(method.value):
        column, name = C(_column(method.value)), method.attr
        if name == "isin" and len(node.args) == 1 and not node.keywords:
            return column.isin(_values(node.args[0]))
        if name in ("is_null", "not_null") and not node.args and not node.keywords:
            return column.is_null() if name == "is_null" else column.not_null()
        given = {each.arg: each.value for each in node.keywords}
        if name == "in_interval" and len(node.args) <= 2 and set(given) <= {"start", "stop"}:
            bounds = dict(zip(("start", "stop"), map(_value, node.args), strict=False))
            if not bounds.keys() & given.keys():
                return column.in_interval(**bounds, **{str(key): _value(each) for key, each in given.items()})
    raise ConditionError(f"{ast.unparse(node)!r} is no condition; {_HOW}")


def _is_column(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id not in _NULLS and node.id.lower() not in _TRUTHS
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C"


def _column(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    assert isinstance(node, ast.Call), "it is a column"
    match node.args:
        case [ast.Constant(value=str() as name)] if name and not node.keywords:
            return name
    raise ConditionError(f'{ast.unparse(node)!r} names no column; write C("name")')


def _values(node: ast.expr) -> list[Any]:
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        raise ConditionError(f"{ast.unparse(node)!r} is no list of values; write [1, 2]")
    return [_value(each) for each in node.elts]


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id.lower() in _TRUTHS:
        return _TRUTHS[node.id.lower()]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TIMES:
        match node.args:
            case [ast.Constant(value=str() as text)]:
                try:
                    return _TIMES[node.func.id](text)
                except ValueError as error:
                    raise ConditionError(f"{ast.unparse(node)!r}: {error}") from None
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ConditionError(
            f"{ast.unparse(node)!r} is no value; write a number, a text between quotes, True, False, "
            'date("...") or datetime("...")'
        ) from None
