"""Conditions written as text, in specs and forms: `HIP is not null and 9.0 <= mag < 12.0`.

The text is what the conditions print as, and also what a user writes in Python, `(C("ok") == True) &
C("HIP").isin([1, 2])`. It is read as an expression and never run.
"""

from __future__ import annotations

import ast
import datetime
from typing import Any

from hipslake.cube.conditions import C, Comparison, Condition, Conjunction
from hipslake.errors import ConditionError

MAX_LENGTH = 10_000
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NULLS = {"null", "Null", "NULL", "None"}
_TRUTHS = {"true": True, "false": False}
_TIMES = {"date": datetime.date.fromisoformat, "datetime": datetime.datetime.fromisoformat}
_HOW = "write conditions such as ok == True, mag < 12.0, HIP in [1, 2] or HIP is not null, joined by 'and'"


def parse_conditions(text: str) -> Conjunction:
    """The conjunction that a text stands for.

    A column is a bare name, or `C("...")` where its name is no word. Values are numbers, texts between
    quotes, `True`, `False`, `date("2026-11-21")` and `datetime("2026-11-21T03:30:00+00:00")`.

    Parameters
    ----------
    text : str
        With nothing in it, there are no conditions.

    Raises
    ------
    ConditionError
        It is something else; the message quotes the part that is not understood.

    Examples
    --------
    >>> print(parse_conditions('9.0 <= mag < 12.0 and (C("B-V") > 0.5) & HIP.isin([1, 2])'))
    (mag >= 9.0) & (mag < 12.0) & (B-V > 0.5) & (HIP in [1, 2])
    >>> print(parse_conditions("HIP is not null"))
    (HIP is not null)
    """
    if not text.strip():
        return Conjunction()
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"the conditions have {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        tree = ast.parse(f"({text}\n)", mode="eval")  # so that it may have several lines
        return Conjunction(tuple(_conditions(tree.body)))
    except (SyntaxError, ValueError) as error:
        raise ConditionError(f"{text!r} cannot be read ({error.args[0]}); {_HOW}") from None
    except (RecursionError, MemoryError):
        raise ConditionError(
            f"{text[:40]!r}... is nested too deep; write it with fewer parentheses and signs"
        ) from None


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
    operators = [_OPERATORS.get(type(each)) for each in node.ops]
    middle = node.comparators[0]
    if not _is_column(middle) or len(operators) > 2 or None in operators or _is_column(node.left):
        raise ConditionError(
            f"{ast.unparse(node)!r} compares no column with a value; put each condition in parentheses where "
            f"they are joined by &, and {_HOW}"
        )
    name = _column(middle)
    found: list[Condition] = [Comparison(name, _TURNED[str(operators[0])], _value(node.left))]
    if len(operators) == 2:
        found.append(Comparison(name, str(operators[1]), _value(node.comparators[1])))
    return found


def _condition(node: ast.Compare, name: str, operator: ast.cmpop, right: ast.expr) -> Condition:
    if isinstance(operator, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Name) and right.id in _NULLS) and not _is_none(right):
            raise ConditionError(f"{ast.unparse(node)!r}: a column is null or not null; use == for values")
        return C(name).is_null() if isinstance(operator, ast.Is) else C(name).not_null()
    if isinstance(operator, ast.In):
        return C(name).isin(_values(right))
    if type(operator) not in _OPERATORS:
        raise ConditionError(f"{ast.unparse(node)!r} is no condition; {_HOW}")
    return Comparison(name, _OPERATORS[type(operator)], _value(right))


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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
