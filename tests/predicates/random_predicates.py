"""Random predicates on random tables, in every form in which users give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.predicates.column_kinds import Column, random_column
from tests.predicates.random_columns import KINDS
from tests.predicates.reference import (
    Between,
    Compares,
    ComparesColumns,
    Flag,
    IsIn,
    IsNotANumber,
    IsNothing,
    Joined,
    Node,
    Opposite,
    Row,
    named,
)

SIGNS = ("=", "!=", "<", "<=", ">", ">=", "==", "<>")
_NAMES = ("x", "y", "B-V", "flag_2", "Mag", "and", "a b", "ä", "n", "w", 'q"t', "u", "v", "is")
_TRIES = 4


@dataclass(frozen=True)
class RandomTable:
    """A table, as Arrow has it and as the reference does."""

    columns: tuple[Column, ...]
    rows: list[Row]

    @property
    def arrow(self) -> pa.Table:
        return pa.table({column.name: column.array for column in self.columns})

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def random_table(random: Random, rows: int, kinds: Sequence[Any] = KINDS) -> RandomTable:
    """Some columns, of which at least two are of one family."""
    chosen = [random.choice(kinds) for _ in range(random.randint(3, 7))]
    alike = [kind for kind in kinds if kind.family == chosen[0].family]
    chosen.append(random.choice(alike))
    names = random.sample(_NAMES, len(chosen))
    columns = tuple(random_column(random, name, kind, rows) for name, kind in zip(names, chosen, strict=True))
    values = [column.values for column in columns]
    return RandomTable(columns, [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])


def random_predicate(random: Random, table: RandomTable, columns: Sequence[Column] | None = None) -> Node:
    """A predicate; mostly one that is true for some of the rows and not for all."""
    found = _predicate(random, columns or table.columns, random.choice((0, 0, 1, 1, 2, 3)))
    for _ in range(_TRIES):
        passed = sum(found.truth(row) is True for row in table.rows)
        if 0 < passed < len(table.rows):
            break
        found = _predicate(random, columns or table.columns, random.choice((0, 1, 1, 2)))
    return found


def _predicate(random: Random, columns: Sequence[Column], depth: int) -> Node:
    if depth and random.random() < 0.85:
        if random.random() < 0.3:
            return Opposite(_predicate(random, columns, depth - 1))
        parts = tuple(_predicate(random, columns, depth - 1) for _ in range(random.choice((2, 2, 2, 3))))
        return Joined(random.choice(("and", "or")), parts)
    return _test(random, random.choice(columns), columns)


def _test(random: Random, column: Column, columns: Sequence[Column]) -> Node:
    kind = column.kind
    name = column.name
    pick = random.random()
    if kind.literal is None or pick < 0.12:
        return IsNothing(name, random.random() < 0.5)
    if pick < 0.24 and pa.types.is_floating(kind.arrow):
        return IsNotANumber(name, random.random() < 0.5)
    if pick < 0.3 and kind.family == "boolean":
        return Flag(name)
    others = [other for other in columns if other.kind.family == kind.family and other is not column]
    if pick < 0.42 and others:
        return ComparesColumns(name, random.choice(SIGNS), random.choice(others).name)
    if pick < 0.56:
        literals = tuple(column.literal(random) for _ in range(random.randint(1, 4)))
        return IsIn(name, literals, random.random() < 0.45)
    if pick < 0.68 and kind.family != "boolean":
        return Between(name, column.literal(random), column.literal(random), random.random() < 0.4)
    return Compares(name, random.choice(SIGNS), column.literal(random), random.random() < 0.1)


def as_lists(node: Node) -> list[list[tuple[str, str, Any]]] | None:
    """The predicate as lists in disjunctive normal form, if it is one already."""
    alternatives = node.parts if isinstance(node, Joined) and node.word == "or" else (node,)
    found = []
    for each in alternatives:
        parts = each.parts if isinstance(each, Joined) and each.word == "and" else (each,)
        tests = [_as_test(part) for part in parts]
        if any(test is None for test in tests):
            return None
        found.append([test for test in tests if test is not None])
    return found


def _as_test(node: Node) -> tuple[str, str, Any] | None:
    if isinstance(node, Compares) and node.sign != "<>":
        return (node.column, node.sign, node.literal.given)
    if isinstance(node, IsIn):
        return (node.column, "not in" if node.negated else "in", [each.given for each in node.literals])
    return None


def as_expression(node: Node, table: RandomTable) -> pc.Expression | None:
    """The predicate as an expression of Arrow's, where Arrow's own rules are those of the reference."""
    if isinstance(node, Joined):
        parts = [as_expression(part, table) for part in node.parts]
        if any(part is None for part in parts):
            return None
        found = parts[0]
        for part in parts[1:]:
            found = found & part if node.word == "and" else found | part  # type: ignore[operator]
        return found
    if isinstance(node, Opposite):
        inner = as_expression(node.part, table)
        return None if inner is None else ~inner
    if isinstance(node, IsNothing):
        found = pc.field(node.column).is_null()
        return ~found if node.negated else found
    if not isinstance(node, Compares) or node.turned:
        return None
    arrow = table.column(node.column).kind.arrow
    if arrow not in (pa.int64(), pa.float64(), pa.string(), pa.bool_()):
        return None
    if arrow == pa.int64() and not (isinstance(node.literal.given, int) and abs(node.literal.given) < 2**63):
        return None
    field, value = pc.field(node.column), pa.scalar(node.literal.given, arrow)
    return {
        "=": field == value,
        "==": field == value,
        "!=": field != value,
        "<>": field != value,
        "<": field < value,
        "<=": field <= value,
        ">": field > value,
        ">=": field >= value,
    }[node.sign]


def respelt(random: Random, text: str) -> str:
    """The same text, sometimes with more white space."""
    return f"  {text} " if random.random() < 0.05 else text


__all__ = [
    "RandomTable",
    "as_expression",
    "as_lists",
    "named",
    "random_predicate",
    "random_table",
    "respelt",
]
