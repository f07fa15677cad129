"""Sinks into tables with delete files of others: deleted rows neither count nor come back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.data_files import has_delete_files

from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.row_deletes import RowDelta
from tests.tables.sinking import Lake, utc
from tests.tables.test_commit import Interrupted
from tests.tables.test_delete_files import committed, ids, places, rows


def upsert(lake: Lake, **given: Any) -> TableSpec:
    return lake.spec(**{"mode": "upsert", "key": ["id"], **given})


def key(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.mark.parametrize("partition", [[], ["band"]])
def test_an_upsert_finds_rows_that_are_there_and_no_others(lake: Lake, partition: list[str]) -> None:
    spec = upsert(lake, partition=partition)
    lake.sink(spec, rows(1, 2, 3, 4, 5, 6))
    table, at = lake.table(spec), places(lake)
    place = ["g"] if partition else []
    committed(
        table, lambda delta: delta.values(key(1, 2), place), lambda delta: delta.positions([at[3]], place)
    )
    outcome = lake.sink(upsert(lake, name="second", partition=partition), rows(2, 3, 4, band="new"))
    assert (outcome.rows_updated, outcome.rows_rewritten, outcome.rows_out) == (1, 2, 3)
    assert ids(lake) == [2, 3, 4, 5, 6]
    # What was written again is newer than the deletes, and of rows that went nothing is left.
    assert sorted(lake.rows(spec)["id"].to_pylist()) == [2, 3, 4, 5, 6]
    committed(table, lambda delta: delta.values(key(2, 5), place))
    assert ids(lake) == ([2, 3, 4, 6] if partition else [3, 4, 6])
    outcome = lake.sink(upsert(lake, name="third", partition=partition), rows(6, 3, 4, band="g"))
    assert ids(lake) == ([2, 3, 4, 6] if partition else [3, 4, 6])
    assert outcome.rows_updated == 3


@pytest.mark.parametrize("kind", ["positions", "values"])
def test_rows_that_others_delete_while_an_upsert_runs_stay_deleted(lake: Lake, kind: str) -> None:
    spec = upsert(lake)
    lake.sink(spec, rows(*range(10)))
    at = places(lake)

    def delete() -> None:
        delta = RowDelta(lake.table(spec))
        _ = delta.positions([at[0], at[1]]) if kind == "positions" else delta.values(key(0, 1))
        delta.commit()

    other = Lake(lake.root / "other", Interrupted(delete))
    other.warehouse = lake.warehouse
    outcome = other.sink(lake.spec(name="other", mode="upsert", key="id"), rows(8, 9, 10, 11, band="i"))
    assert ids(lake) == list(range(2, 12))
    assert outcome.rows_rewritten == 6


def test_an_interval_is_replaced_with_what_is_left_of_it(lake: Lake) -> None:
    day = dt.timedelta(days=1)
    first = utc("2026-01-01T00:00:00")

    def night(number: int, *ids: int) -> pa.Table:
        times = pa.array([(first + number * day).replace(tzinfo=None)] * len(ids), pa.timestamp("us"))
        return rows(*ids).append_column("t", times)

    lake.sink(lake.spec(name="both"), pa.concat_tables([night(0, 1, 2, 3), night(1, 4, 5, 6)]))
    lake.sink(lake.spec(name="alone"), night(0, 7, 8))
    table, at = lake.table(lake.spec()), places(lake)
    committed(table, lambda delta: delta.values(key(1, 4, 7)), lambda delta: delta.positions([at[5]]))
    over = lake.spec(
        name="over",
        mode="overwrite-interval",
        interval="t",
        source={"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}},
    )
    outcome = lake.sink(over, night(0, 1, 9), start=first, end=first + day)
    assert ids(lake) == [1, 6, 9]
    assert (outcome.rows_updated, outcome.rows_out) == (3, 2)
    committed(table, lambda delta: delta.values(key(1, 9)))
    outcome = lake.sink(over, night(0), start=first, end=first + day)
    assert (ids(lake), outcome.rows_updated) == ([6], 0)


def test_what_an_append_brought_is_not_told_from_what_others_deleted(lake: Lake) -> None:
    def night(*ids: int) -> None:
        start = utc("2026-01-01T00:00:00")
        lake.sink(lake.spec(), rows(*ids), start=start, end=start + dt.timedelta(days=1))

    night(1, 2, 3)
    at = places(lake)
    committed(lake.table(lake.spec()), lambda delta: delta.positions([at[1]]))
    lake.sink(lake.spec(name="more"), rows(50))
    with pytest.raises(PlanError, match="has delete files, and it cannot be told"):
        night(1, 2, 4)
    lake.sink(upsert(lake, name="up"), rows(2, band="x"))  # this takes the deleted row away for good
    assert ids(lake) == [2, 3, 50]
    assert not has_delete_files(lake.table(lake.spec()))  # no file needs them any more
    with pytest.raises(PlanError, match=r"were deleted by delete files, which snapshot \d+ has merged"):
        night(1, 2, 4)
    assert ids(lake) == [2, 3, 50]


def test_what_an_append_brought_is_not_told_after_a_compaction_has_merged_deletes(lake: Lake) -> None:
    def night(*ids: int) -> None:
        start = utc("2026-01-01T00:00:00")
        lake.sink(lake.spec(), rows(*ids), start=start, end=start + dt.timedelta(days=1))

    night(1, 2, 3)
    at = places(lake)
    delta = RowDelta(lake.table(lake.spec()))  # others change a row: the old one goes, another one comes
    delta.positions([at[1]])
    delta.data(rows(1, band="changed"))
    delta.commit()
    compact(request(lake))
    assert not has_delete_files(lake.table(lake.spec()))
    with pytest.raises(PlanError, match="has merged, so it cannot be told which of its rows are deleted"):
        night(1, 2, 4)
    assert ids(lake) == [1, 2, 3]
    lake.sink(upsert(lake, name="up"), rows(1, 4))
    assert ids(lake) == [1, 2, 3, 4]
