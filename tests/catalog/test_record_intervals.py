"""Intervals of validity by records, held against a dict into which nights are put in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.records.record_intervals import settle_intervals, starts_of, with_intervals
from hipslake.catalog.records.record_rows import key_of
from hypothesis import given

from tests.catalog.test_winners import NIGHTS, ORDER_TYPES, Model, Put, table_of

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
Interval = tuple[Any, Any]


def instant(order_type: str | None, record: Put, interval: int) -> Any:
    """What a record is ordered by, as Arrow gives it back."""
    if order_type is None:
        return FIRST + timedelta(days=interval)
    of, value = ORDER_TYPES[order_type]
    return pa.scalar(value(record.order), of).as_py()


def expected(model: Model, ordinals: dict[int, int], order_type: str | None) -> dict[int, Interval]:
    """By `_row`, from when to when each row of the catalog is that of its key."""
    of_keys: dict[int, list[tuple[Any, int | None]]] = {}
    for interval, (_, records) in model.nights.items():
        for number, record in enumerate(records):
            row = None if record.delete else (ordinals[interval] << 40) + number
            of_keys.setdefault(record.key, []).append((instant(order_type, record, interval), row))
    found = {}
    for its in of_keys.values():
        its.sort(key=lambda each: each[0])
        ends = [*(at for at, _ in its[1:]), None]
        found |= {row: (at, end) for (at, row), end in zip(its, ends, strict=True) if row is not None}
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order_type", [None, *ORDER_TYPES])
@pytest.mark.parametrize("kind", ["int64", "two"])
@given(nights=NIGHTS)
def test_nights_in_any_order_come_to_the_intervals_that_a_dict_holds(
    nights: list[tuple[int, list[Put]]], kind: str, order_type: str | None
) -> None:
    model = Model(order_type is not None)
    tables: dict[int, pa.Table] = {}  # by ordinal
    ordinals: dict[int, int] = {}  # by interval
    ends: dict[int, Any] = {}  # by `_row` of rows in leaves
    for write, (interval, records) in enumerate(nights):
        before = dict(model.nights)
        model.nights[interval] = (write, records)
        if model.has_tie():
            model.nights = before
            continue
        ordinal = ordinals.setdefault(interval, len(ordinals))
        starts = {at: FIRST + timedelta(days=of) for of, at in ordinals.items()}
        ranks = {at: of for of, at in ordinals.items()}
        night = table_of(kind, order_type, records, ordinal, write)
        wanted = pa.concat_tables([night, tables.get(ordinal, night)])
        standing = pa.concat_tables([night.schema.empty_table(), *tables.values()])
        codes, given_codes = key_of(night.schema).ranks(standing, wanted)
        standing = standing.filter(pa.array(np.isin(codes, given_codes)))
        settled = settle_intervals(standing, night, ordinal=ordinal, ranks=ranks, starts=starts)
        for row in settled.goes["_row"].to_pylist():
            del ends[row]
        ends |= {(ordinal << 40) + number: None for number, record in enumerate(records) if not record.delete}
        for table in (settled.closes, settled.closed):
            changed = dict(zip(table["_row"].to_pylist(), table["_end"].to_pylist(), strict=True))
            assert changed.keys() <= ends.keys()
            assert all(ends[row] != end for row, end in changed.items())
            ends |= changed
        tables[ordinal] = night
        wished = expected(model, ordinals, order_type)
        assert ends == {row: end for row, (_, end) in wished.items()}
        found = with_intervals(pa.concat_tables(list(tables.values())), ranks, starts)
        columns = (found[name].to_pylist() for name in ("_row", "_begin", "_end"))
        assert {row: (begin, end) for row, begin, end in zip(*columns, strict=True)} == wished


def test_zeros_of_both_signs_are_one_instant() -> None:
    """Which of them a night brings does not show in the rows of others."""
    tables = []
    for ordinal, order in enumerate([-1.0, -0.0]):
        keys = {"id": pa.array([1]), "_row": [ordinal << 40], "_healpix_29": [5], "_delete": [False]}
        table = pa.table({**keys, "_order": [order]})
        tables.append(table)
    night = settle_intervals(tables[0], tables[1], ordinal=1, ranks={}, starts={})
    assert str(night.closes["_end"][0].as_py()) == "0.0"
    found = with_intervals(pa.concat_tables(tables), {}, {})
    assert [str(each) for each in found["_begin"].to_pylist()] == ["-1.0", "0.0"]


def test_starts_are_those_of_keys() -> None:
    assert starts_of({0: "2026-01-01", 4: "2026-01-02T03:00:00+03:00", 5: None}) == {
        0: FIRST,
        4: FIRST + timedelta(days=1),
    }
