"""Predicates on tables in memory, and on what is known of a table: no catalog, so every type, and fast."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
from hipslake.predicates.evaluation import passing as kept_by
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.pruning import KnownValues, may_pass, surely_passes
from hipslake.steps.sink.sink_try import Interval
from hipslake.tables.file_pruning import in_interval

from tests.predicates.catalog_doors import DifferenceError, hold
from tests.predicates.random_predicates import RandomTable, random_predicate
from tests.predicates.reference import compared, passing, without_nan


def filters_a_table(random: Random, table: RandomTable, folder: Path) -> None:
    """The rows that are kept of a table in memory, with NaN as it is, or as null."""
    node = random_predicate(random, table)
    arrow = table.arrow.append_column("id", pa.array(range(len(table.rows))))
    predicate = parse_filter(node.text(), arrow.schema)
    again = parse_filter(str(predicate), arrow.schema)
    nan_is_null = random.random() < 0.3 and " nan" not in node.text()
    rows = [without_nan(row) for row in table.rows] if nan_is_null else table.rows
    for each in (predicate, again):  # a predicate says itself in the language that it is read from
        found = kept_by(each, arrow, nan_is_null=nan_is_null)
        hold(f"table, nan_is_null={nan_is_null}", node.text(), found["id"].to_pylist(), passing(node, rows))


def skips_by_bounds(random: Random, table: RandomTable, folder: Path) -> None:
    """What is known of some rows never hides one that passes, and is never sure of one that does not."""
    node = random_predicate(random, table)
    start = random.randrange(len(table.rows))
    part = range(start, min(len(table.rows), start + random.choice((1, 2, 5, 20))))
    nan_is_null = random.random() < 0.3 and " nan" not in node.text()
    known = {}
    for column in table.columns:
        stored = [column.stored[at] for at in part]
        values = [value for value in stored if value is not None and value == value]
        nulls = stored.count(None)
        if column.kind.family == "nested" or pa.types.is_decimal(column.kind.arrow) or random.random() < 0.15:
            continue
        if column.kind.arrow == pa.date64():
            values = [value * 86_400_000 for value in values]
        told = (min(values), max(values)) if values and random.random() < 0.85 else (None, None)
        known[column.name] = KnownValues(*told, random.choice((nulls, nulls, None)), len(part))
    schema = table.arrow.schema
    predicate = parse_filter(node.text(), schema)
    rows = [without_nan(table.rows[at]) if nan_is_null else table.rows[at] for at in part]
    passed = len(passing(node, rows))
    told_of = {name: known[name] for name in node.columns() if name in known}
    if passed and not may_pass(predicate, known, schema, nan_is_null=nan_is_null):
        raise DifferenceError(f"skipped, nan_is_null={nan_is_null}: {node} by {told_of}; {passed} rows pass")
    if passed < len(rows) and surely_passes(predicate, known, schema, nan_is_null=nan_is_null):
        raise DifferenceError(
            f"sure, nan_is_null={nan_is_null}: {node} by {told_of}; {passed} of {len(rows)} pass"
        )


def holds_an_interval(random: Random, table: RandomTable, folder: Path) -> None:
    """The rows of an interval, which a sink replaces: times of [start, end), in UTC."""
    columns = [
        column
        for column in table.columns
        if pa.types.is_timestamp(column.kind.arrow) or column.kind.arrow == pa.date32()
    ]
    if not columns:
        skips_by_bounds(random, table, folder)
        return
    column = random.choice(columns)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    near = [
        value // 1000
        for value in column.values
        if value is not None and abs(value) < 6 * 10**19 and value % 1000 == 0
    ]
    micros = sorted(random.choice([*near, 1762041600000000, 0]) + random.choice((0, 1)) for _ in range(2))
    start, end = (epoch + datetime.timedelta(microseconds=each) for each in micros)
    given_end = None if random.random() < 0.2 else end
    batch = table.arrow.to_batches()[0]
    mask = Interval(column.name, start, given_end).holds(batch).to_pylist()
    found = [number for number, inside in enumerate(mask) if inside]
    expected = []
    for number, value in enumerate(column.values):
        after = compared(value, ">=", micros[0] * 1000)
        before = True if given_end is None else compared(value, "<", micros[1] * 1000)
        if after is True and before is True:
            expected.append(number)
    hold("interval", in_interval(column.name, start, given_end), found, expected)


PLAIN_DOORS: dict[Callable[[Random, RandomTable, Path], None], int] = {
    filters_a_table: 5,
    skips_by_bounds: 4,
    holds_an_interval: 1,
}
"""The ways, and how often each is taken."""
