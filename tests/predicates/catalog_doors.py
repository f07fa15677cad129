"""Every way in which the rows of a catalog are filtered, each held against the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.leaf_rows import read_leaf
from hipslake.catalog.selection import select
from hipslake.cube.store.dataset_sources import CatalogSource as RowsOfCatalog
from hipslake.cube.store.offers import Offer
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.cube_spec import CubeColumns
from hipslake.tables.order import CatalogRows
from hipslake.tables.rows import rows_of

from tests.predicates.random_predicates import as_expression, as_lists, random_predicate, respelt
from tests.predicates.reference import Node, passing
from tests.predicates.stored_catalogs import CENTER, RADIUS_ARCSEC, StoredTable

Door = Callable[[Random, StoredTable, Path], None]


class DifferenceError(AssertionError):
    """A predicate that keeps other rows than the reference says."""


def given(random: Random, node: Node, stored: StoredTable) -> Any:
    """A predicate in one of the forms that users may give."""
    pick = random.random()
    if pick < 0.2:
        lists = as_lists(node)
        if lists is not None:
            return lists
    elif pick < 0.35:
        expression = as_expression(node, stored.table)
        if expression is not None:
            return expression
    return respelt(random, node.text())


def hold(door: str, filters: Any, found: Iterable[Any], expected: Iterable[Any], more: Any = "") -> None:
    """Compare multisets of rows."""
    got, wanted = sorted(found), sorted(expected)
    if got != wanted:
        lacking = [row for row in wanted if row not in got][:5]
        extra = [row for row in got if row not in wanted][:5]
        raise DifferenceError(
            f"{door} {more}: {filters!s}\n  "
            f"{len(got)} rows for {len(wanted)}; lacking {lacking}, not to be {extra}"
        )


def _predicate(random: Random, stored: StoredTable) -> tuple[Node, list[int]]:
    node = random_predicate(random, stored.table)
    return node, passing(node, stored.table.rows)


def reads(random: Random, stored: StoredTable, folder: Path) -> None:
    """Some columns, all of them, or none but the row's number."""
    node, expected = _predicate(random, stored)
    filters = given(random, node, stored)
    names = [column.name for column in stored.table.columns]
    columns = random.choice((["id"], ["id"], None, ["id", *random.sample(names, 2)]))
    found = stored.catalog.read(columns, filters=filters)
    hold("read", filters, found["id"].to_pylist(), expected)


def reads_leaves(random: Random, stored: StoredTable, folder: Path) -> None:
    """Leaf file by leaf file, as `read` does in threads; with several groups, those of a group."""
    group = random.choice(list(stored.groups))
    columns = [column for column in stored.table.columns if column.name in stored.groups[group]]
    if not columns:
        return
    node = random_predicate(random, stored.table, columns)
    filters = given(random, node, stored)
    metadata = stored.catalog.metadata
    key = "_row" if len(stored.groups) > 1 else "id"
    selection = select(metadata, [key], filters, group)
    found = []
    for path in stored.paths[group]:
        names, schema = selection.columns[group], metadata.schema_of(group)
        leaf = read_leaf(stored.catalog.storage, path, schema, names, selection.filter, None)
        found += leaf[key].to_pylist()
    hold("leaves", filters, found, passing(node, stored.table.rows))


def reads_tables(random: Random, stored: StoredTable, folder: Path) -> None:
    """Leaf by leaf."""
    node, expected = _predicate(random, stored)
    filters = given(random, node, stored)
    tables = stored.catalog.tables(["id"], filters=filters)
    hold("tables", filters, [row for table in tables for row in table["id"].to_pylist()], expected)


def reads_a_region(random: Random, stored: StoredTable, folder: Path) -> None:
    """In a cone."""
    node, expected = _predicate(random, stored)
    filters = given(random, node, stored)
    center = (CENTER[0] + random.randint(-3, 3), CENTER[1] + random.randint(-3, 3))
    degrees = random.choice((1, 2, 3, 10))
    region = f"cone {center[0]} {center[1]} {degrees}deg"
    found = stored.catalog.read(["id"], filters=filters, region=region)
    inside = stored.within(center, degrees * 3600)
    hold(region, filters, found["id"].to_pylist(), inside & set(expected))


def reads_pixels(random: Random, stored: StoredTable, folder: Path) -> None:
    """In some of the leaves: what these hold is read without a filter."""
    node, expected = _predicate(random, stored)
    filters = given(random, node, stored)
    tree = stored.catalog.pixels
    at = random.randrange(len(tree))
    pixels = [(int(tree.order[at]), int(tree.npix[at]))]
    inside = stored.catalog.read(["id"], pixels=pixels)["id"].to_pylist()
    found = stored.catalog.read(["id"], filters=filters, pixels=pixels)
    hold(f"pixel {pixels}", filters, found["id"].to_pylist(), set(inside) & set(expected))


def reads_a_group(random: Random, stored: StoredTable, folder: Path) -> None:
    """One column group, by its own columns; a row is known by its number in the catalog."""
    group = random.choice(list(stored.groups))
    columns = [column for column in stored.table.columns if column.name in stored.groups[group]]
    if not columns:
        return
    node = random_predicate(random, stored.table, columns)
    filters = given(random, node, stored)
    key = "_row" if len(stored.groups) > 1 else "id"
    found = stored.catalog.read([key], filters=filters, group=group)
    hold(f"group {group}", filters, found[key].to_pylist(), passing(node, stored.table.rows))


def joins(random: Random, stored: StoredTable, folder: Path) -> None:
    """Each row with itself: it stays where both sides pass."""
    (left, here), (right, there) = _predicate(random, stored), _predicate(random, stored)
    filters, others = given(random, left, stored), given(random, right, stored)
    how = random.choice(("inner", "left", "anti"))
    found = stored.catalog.join(
        stored.catalog,
        on="id",
        how=how,
        columns=["id"],
        other_columns=["ra"],
        filters=filters,
        other_filters=others,
    )
    expected = {"inner": set(here) & set(there), "left": set(here), "anti": set(here) - set(there)}[how]
    hold(f"{how} join", f"{filters} | {others}", found["id"].to_pylist(), expected)
    if how == "left":
        partners = found.filter(found["ra"].is_valid())["id"].to_pylist()
        hold("partners of a left join", f"{filters} | {others}", partners, set(here) & set(there))


def nests_time_series(random: Random, stored: StoredTable, folder: Path) -> None:
    """Each row as an object, and as its own source."""
    (left, here), (right, there) = _predicate(random, stored), _predicate(random, stored)
    filters, others = given(random, left, stored), given(random, right, stored)
    keep = random.random() < 0.5
    found = stored.catalog.time_series(
        stored.catalog,
        on="id",
        time="ra",
        columns=["id"],
        source_columns=["ra"],
        filters=filters,
        source_filters=others,
        keep_empty=keep,
    )
    told = f"{filters} | {others}"
    expected = set(here) if keep else set(here) & set(there)
    hold("objects of a time series", told, found["id"].to_pylist(), expected)


def matches(random: Random, stored: StoredTable, folder: Path) -> None:
    """All pairs near to each other, over the borders of leaves too; the right side needs a margin."""
    if not stored.catalog.metadata.margins:
        reads(random, stored, folder)
        return
    (left, here), (right, there) = _predicate(random, stored), _predicate(random, stored)
    group_columns = stored.groups["main"]
    if not right.columns() <= group_columns:
        columns = [column for column in stored.table.columns if column.name in group_columns]
        if not columns:
            return
        right = random_predicate(random, stored.table, columns)
        there = passing(right, stored.table.rows)
    filters, others = given(random, left, stored), given(random, right, stored)
    found = stored.catalog.crossmatch(
        stored.catalog,
        radius_arcsec=RADIUS_ARCSEC,
        neighbours="all",
        columns=["id"],
        other_columns=["id"],
        suffixes=("", "_b"),
        filters=filters,
        other_filters=others,
    )
    pairs = zip(found["id"].to_pylist(), found["id_b"].to_pylist(), strict=True)
    expected = [
        (one, other) for one in here for other in there if stored.separation(one, other) <= RADIUS_ARCSEC
    ]
    hold("crossmatch", f"{filters} | {others}", pairs, expected)


def exports(random: Random, stored: StoredTable, folder: Path) -> None:
    """To a file."""
    node, expected = _predicate(random, stored)
    filters = given(random, node, stored)
    path = folder / "out.parquet"
    stored.catalog.export(path, columns=["id"], filters=filters, overwrite=True)
    hold("export", filters, pq.read_table(path)["id"].to_pylist(), expected)


def sinks(random: Random, stored: StoredTable, folder: Path) -> None:
    """The rows that a sink takes of a catalog."""
    node, expected = _predicate(random, stored)
    order = CatalogRows(
        uri=stored.catalog.uri, version=stored.catalog.version, content="", filters=node.text()
    )
    rows = rows_of(order, ThisProcess(1))
    batches = [batch for task in range(rows.tasks) for batch in rows.read(task, ["id"])]
    hold("sink", node, [row for batch in batches for row in batch["id"].to_pylist()], expected)


def fills_a_cube(random: Random, stored: StoredTable, folder: Path) -> None:
    """The rows that a dataset of a cube takes of a catalog; NaN is NaN there, as in the catalog."""
    node, expected = _predicate(random, stored)
    roles = CubeColumns(dimension_columns=("id",), partition_columns=("part",))
    source = RowsOfCatalog.of(stored.catalog.uri)
    taken = Offer(roles, "seed", source, (), pa.schema([("id", pa.int64())]), {"id": "id"}, node.text())
    tables = [table for part in range(source.parts) for table in taken.rows(part)]
    hold("source of a cube", node, [row for table in tables for row in table["id"].to_pylist()], expected)


def finds(random: Random, stored: StoredTable, folder: Path) -> None:
    """Rows by the values of an indexed column."""
    if not stored.indexed:
        reads(random, stored, folder)
        return
    name = random.choice(stored.indexed)
    if name == "id":
        values: list[Any] = [random.randrange(-3, len(stored.table.rows) + 3) for _ in range(4)]
        expected = [number for number in range(len(stored.table.rows)) if number in values]
    else:
        column = stored.table.column(name)
        values = random.sample(column.pool, min(len(column.pool), 2))
        expected = [number for number, value in enumerate(column.stored) if value in values]
    found = stored.catalog.find(name, values, columns=["id"])
    hold(f"find {name}", values, found["id"].to_pylist(), expected)


DOORS: dict[Door, int] = {
    reads_leaves: 300,
    reads: 40,
    reads_tables: 10,
    reads_a_region: 10,
    reads_pixels: 5,
    reads_a_group: 5,
    joins: 5,
    nests_time_series: 4,
    matches: 4,
    exports: 3,
    sinks: 5,
    fills_a_cube: 5,
    finds: 5,
}
"""The ways, and how often each is taken."""
