"""What a type of random columns is, and a column of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from tests.predicates.reference import Literal


@dataclass(frozen=True)
class Kind:
    """A type of columns.

    Attributes
    ----------
    arrow : pyarrow.DataType
    family : str
        Columns of one family are compared with each other; of "nested" it is only asked for null.
    draw : callable
        Some values, as stored: what `array` takes.
    array : callable
        Stored values, null among them, as Arrow has them.
    value : callable
        A stored value, as the reference has it.
    literal : callable or None
        A literal near to the stored value that is given, or far from all.
    """

    arrow: pa.DataType
    family: str
    draw: Callable[[Random], list[Any]]
    array: Callable[[list[Any]], pa.Array]
    value: Callable[[Any], Any]
    literal: Callable[[Random, Any], Literal] | None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    pool: list[Any]
    stored: list[Any]

    @property
    def array(self) -> pa.Array:
        return self.kind.array(self.stored)

    @property
    def values(self) -> list[Any]:
        return [None if each is None else self.kind.value(each) for each in self.stored]

    def literal(self, random: Random) -> Literal:
        assert self.kind.literal is not None
        return self.kind.literal(random, random.choice(self.pool))


def random_column(random: Random, name: str, kind: Kind, rows: int) -> Column:
    """Values from a pool of a few, so that a predicate meets some; nulls in stretches, or anywhere."""
    pool = kind.draw(random)
    pool = random.sample(pool, min(len(pool), random.randint(1, 7)))
    nulls = random.choice((0.0, 0.0, 0.15, 0.15, 0.5, 1.0 if random.random() < 0.1 else 0.3))
    stored = [None if random.random() < nulls else random.choice(pool) for _ in range(rows)]
    if random.random() < 0.3:  # row groups of one value, beside some that are all null
        start = random.randrange(rows)
        stored[start : start + 12] = [random.choice((None, pool[0]))] * len(stored[start : start + 12])
    return Column(name, kind, pool, stored)
