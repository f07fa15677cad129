"""A random table, and random predicates on it, through every door; each is held against the reference."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.predicates.catalog_doors import DOORS
from tests.predicates.cube_doors import CUBE_DOORS, CUBE_KINDS, build_randomly
from tests.predicates.ingested_catalogs import INGESTED_KINDS, ingest_randomly
from tests.predicates.plain_doors import PLAIN_DOORS
from tests.predicates.random_columns import ALL_KINDS
from tests.predicates.random_predicates import random_table
from tests.predicates.stored_catalogs import publish_randomly
from tests.predicates.table_doors import replaces_an_interval, sink_randomly

PAIRS = 50
"""(Table, predicate) pairs of one table."""
_MOST_ROWS = 45


def hold_catalog(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """A catalog, by all that filters its rows.

    Raises
    ------
    DifferenceError
        Other rows than the reference's.
    """
    stored = publish_randomly(random, folder, random_table(random, random.randint(15, _MOST_ROWS)))
    for door in random.choices(list(DOORS), list(DOORS.values()), k=pairs):
        door(random, stored, folder)


def hold_ingested(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """A catalog that the steps of an ingest have made, with indices, or in two nights."""
    table = random_table(random, random.randint(15, _MOST_ROWS), INGESTED_KINDS)
    stored = ingest_randomly(random, folder, table)
    for door in random.choices(list(DOORS), list(DOORS.values()), k=pairs):
        door(random, stored, folder)


def hold_cube(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """A cube, by its queries and removals."""
    table = random_table(random, random.randint(15, _MOST_ROWS), CUBE_KINDS)
    stored = build_randomly(random, folder, table)
    for door in random.choices(list(CUBE_DOORS), list(CUBE_DOORS.values()), k=pairs):
        door(random, stored, folder)


def hold_table(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """A table in memory, of every type that Arrow compares."""
    table = random_table(random, random.randint(15, _MOST_ROWS), ALL_KINDS)
    for door in random.choices(list(PLAIN_DOORS), list(PLAIN_DOORS.values()), k=pairs):
        door(random, table, folder)


def hold_sunk(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """An Iceberg table, by the intervals that sinks replace one after the other."""
    sunk = sink_randomly(random, folder)
    for _ in range(pairs):
        replaces_an_interval(random, sunk)


def hold_everywhere(random: Random, folder: Path, pairs: int = PAIRS) -> None:
    """One of the five."""
    ways = (hold_catalog, hold_ingested, hold_cube, hold_table, hold_sunk)
    (hold,) = random.choices(ways, (20, 3, 10, 10, 1))
    hold(random, folder, pairs)
