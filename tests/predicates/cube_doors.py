"""Every way in which the rows of a cube are filtered, held against the reference; NaN is null in a cube."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hipslake import C, Cube
from hipslake.cube.store.operations import build, extend
from hipslake.cube.store.removal import files_of_partitions
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

from tests.predicates.catalog_doors import hold
from tests.predicates.column_kinds import Column, random_column
from tests.predicates.random_columns import KINDS
from tests.predicates.random_predicates import RandomTable, random_predicate
from tests.predicates.reference import (
    Between,
    Compares,
    ComparesColumns,
    IsIn,
    IsNotANumber,
    IsNothing,
    Joined,
    Literal,
    Node,
    Opposite,
    passing,
    without_nan,
)

CUBE_KINDS = tuple(kind for kind in KINDS if not pa.types.is_float16(kind.arrow))
_SIMPLE = ("int8", "int32", "int64", "string", "bool")
PARTITION_KINDS = tuple(kind for kind in KINDS if str(kind.arrow) in _SIMPLE)


@dataclass(frozen=True)
class StoredCube:
    """A random table as a cube: some columns are those of the seed, and the others of a second dataset."""

    table: RandomTable  # as the cube has it: without NaN
    cube: Cube
    partition: Column


def build_randomly(random: Random, root: Path, table: RandomTable) -> StoredCube:
    """Build a cube of a table; its dimension is the number of the row, its partitions a further column."""
    rows = len(table.rows)
    partition = random_column(random, "part", random.choice(PARTITION_KINDS), rows)
    known = [value for value in partition.pool if value is not None][:3]
    partition = Column("part", partition.kind, known, [random.choice(known) for _ in range(rows)])
    key = pa.table({"part": partition.array, "cell": pa.array(range(rows), pa.int64())})
    names = [column.name for column in table.columns]
    some = set(random.sample(names, random.randint(0, len(names) - 1)))
    seed, more = key, key
    for column in table.columns:
        if column.name in some:
            seed = seed.append_column(column.name, column.array)
        else:
            more = more.append_column(column.name, column.array)
    place = Storage.at(root / "cube")
    indexed = [
        column.name
        for column in table.columns
        if str(column.kind.arrow) in _SIMPLE and None not in column.stored and random.random() < 0.7
    ]
    roles = CubeColumns(
        dimension_columns=("cell",), partition_columns=("part",), index_columns=tuple(indexed)
    )
    build(place, "cube", roles, {"seed": seed})
    extend(place, {"more": more}, partition_columns={"more": ["part"]})
    plain = RandomTable((*table.columns, partition), [])
    values = partition.values
    for number, row in enumerate(table.rows):
        plain.rows.append(without_nan(row | {"part": values[number]}))
    return StoredCube(plain, Cube.open(place.uri()), partition)


def conjunction(random: Random, table: RandomTable, columns: tuple[Column, ...]) -> list[Node]:
    """Conditions on one column each, without `is nan`."""
    found: list[Node] = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        column = random.choice(columns)
        node = random_predicate(random, table, [column])
        while _asks_for_nan(node):
            node = random_predicate(random, table, [column])
        found.append(node)
    return found


def _asks_for_nan(node: Node) -> bool:
    if isinstance(node, Joined):
        return any(map(_asks_for_nan, node.parts))
    return _asks_for_nan(node.part) if isinstance(node, Opposite) else isinstance(node, IsNotANumber)


def queries(random: Random, stored: StoredCube, folder: Path) -> None:
    """A query by text, or by objects of Python."""
    nodes = conjunction(random, stored.table, stored.table.columns)
    whole = nodes[0] if len(nodes) == 1 else Joined("and", tuple(nodes))
    objects = [condition_of(node, stored.table) for node in nodes]
    conditions: Any = as_filter_only(whole.text())
    if random.random() < 0.7 and all(each is not None for each in objects):
        conditions = objects
    old = [in_old_form(node, stored.table) for node in nodes]
    if random.random() < 0.2 and all(each is not None for each in old):
        conditions = random.choice((" and ", " & ")).join(f"({each})" for each in old)
    columns = random.choice(([], None, [random.choice(stored.table.columns[:-1]).name]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the old form
        found = stored.cube.query(columns=columns, conditions=conditions)
    told = [str(each) for each in objects] if conditions is objects else conditions
    hold("query", told, found["cell"].to_pylist(), passing(whole, stored.table.rows))


def removes(random: Random, stored: StoredCube, folder: Path) -> None:
    """Which partitions a removal takes."""
    (node, *_) = conjunction(random, stored.table, (stored.partition,))
    condition = condition_of(node, stored.table)
    given = condition if condition is not None and random.random() < 0.5 else as_filter_only(node.text())
    files = files_of_partitions(stored.cube.storage, stored.cube.metadata, given)
    rows = stored.table.rows
    partitions = list(dict.fromkeys(stored.partition.stored))
    first = {value: stored.partition.stored.index(value) for value in partitions}
    expected = [str(value) for value in partitions if node.truth(rows[first[value]]) is True]
    for name, table in files.items():
        found = table["part"].cast(stored.partition.kind.arrow)
        values = [value for value in partitions if stored.partition.kind.array([value])[0] in found]
        hold(f"removal from {name}", given, map(str, values), expected)


def as_filter_only(text: str) -> str:
    """A text that is no expression of Python: `'it''s'` is another text there, so both would be refused."""
    return text.replace(" == ", " = ").replace(" != ", " <> ").replace(" in (", " IN (")


def condition_of(node: Node, table: RandomTable) -> Any:
    """A condition as an object of Python, if there is a form for it."""
    if isinstance(node, IsNothing):
        return C(node.column).not_null() if node.negated else C(node.column).is_null()
    if isinstance(node, ComparesColumns | Opposite | Joined) or not hasattr(node, "column"):
        return None
    arrow = table.column(node.column).kind.arrow
    column = C(node.column)
    if isinstance(node, Compares):
        fits, value = _python(node.literal, arrow)
        if not fits:
            return None
        return {
            "=": lambda: column == value,
            "==": lambda: column == value,
            "!=": lambda: column != value,
            "<>": lambda: column != value,
            "<": lambda: column < value,
            "<=": lambda: column <= value,
            ">": lambda: column > value,
            ">=": lambda: column >= value,
        }[node.sign]()
    if isinstance(node, IsIn) and not node.negated:
        values = [_python(literal, arrow) for literal in node.literals]
        return column.isin([value for _, value in values]) if all(fits for fits, _ in values) else None
    if isinstance(node, Between) and not node.negated:
        (low, start), (high, stop) = _python(node.low, arrow), _python(node.high, arrow)
        return [column >= start, column <= stop] if low and high else None
    return None


def in_old_form(node: Node, table: RandomTable) -> str | None:
    """A condition as cubes were asked before they took filters, if there is a form for it."""
    if isinstance(node, IsNothing):
        return f"C({node.column!r}).{'not' if node.negated else 'is'}_null()"
    if isinstance(node, Compares):
        literals, text = (node.literal,), "C({column!r}) {sign} {0}"
    elif isinstance(node, IsIn) and not node.negated:
        literals, text = node.literals, "C({column!r}).isin([{all}])"
    else:
        return None
    arrow = table.column(node.column).kind.arrow
    values = [_python(literal, arrow) for literal in literals]
    if not all(fits and not isinstance(value, bytes) for fits, value in values):
        return None
    written = [
        f"{type(value).__name__}({value.isoformat()!r})" if isinstance(value, datetime.date) else repr(value)
        for _, value in values
    ]
    sign = {"=": "==", "<>": "!="}.get(getattr(node, "sign", ""), getattr(node, "sign", ""))
    return text.format(*written, column=node.column, sign=sign, all=", ".join(written))


def _python(literal: Literal, arrow: pa.DataType) -> tuple[bool, Any]:
    """Whether there is a Python value of the column's type, and it."""
    given = literal.given
    if pa.types.is_boolean(arrow) or pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return given is not None, given
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return True, given
    if pa.types.is_integer(arrow):
        low, high = (-(2 ** (arrow.bit_width - 1)), 2 ** (arrow.bit_width - 1) - 1)
        if str(arrow).startswith("u"):
            low, high = 0, high - low
        return isinstance(given, int) and low <= given <= high, given
    if pa.types.is_floating(arrow):
        return True, float(given)
    if pa.types.is_date(arrow):
        return len(given) == len("2026-11-01"), datetime.date.fromisoformat(f"{given}-01-01"[:10])
    if pa.types.is_timestamp(arrow) and literal.value % 1000 == 0 and "T" in given:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=literal.value // 1000)
        return True, moment if arrow.tz is None else moment.replace(tzinfo=datetime.UTC)
    return False, None


CUBE_DOORS: dict[Callable[[Random, StoredCube, Path], None], int] = {queries: 10, removes: 1}
"""The ways, and how often each is taken."""
