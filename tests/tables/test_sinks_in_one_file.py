"""Sinks whose rows lie in files with those of others: each finds its own, whoever rewrote the files."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.sink_order import SinkOutcome
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.sinking import Lake, utc

FIRST = utc("2026-01-01T00:00:00")


def night(
    lake: Lake, number: int, rows: pa.Table, *, spec: TableSpec | None = None, **given: object
) -> SinkOutcome:
    start = FIRST + dt.timedelta(days=number)
    return lake.sink(spec or lake.spec(), rows, start=start, end=start + dt.timedelta(days=1), **given)


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "x": pa.array([0.5 * each for each in ids], pa.float64())}
    )


def ids(lake: Lake) -> list[int]:
    return [int(each) for each in lake.rows(lake.spec())["id"].to_pylist()]


def compacted(lake: Lake, **given: object) -> None:
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True, **given))


def expired(lake: Lake) -> None:
    """All snapshots but the current one expire."""
    table = lake.table(lake.spec())
    current = table.metadata.current_snapshot_id
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("more", [{}, {"mode": "zorder", "columns": ["id"]}])
def test_nights_that_were_compacted_into_one_file_are_replaced_one_by_one(
    lake: Lake, more: dict[str, object]
) -> None:
    for number in range(3):
        night(lake, number, rows(10 * number + 1, 10 * number + 2))
    compacted(lake, **more)
    assert len(lake.live(lake.spec())) == 1
    done = night(lake, 1, rows(13))
    assert ids(lake) == [1, 2, 13, 21, 22]
    assert (done.rows_updated, done.rows_rewritten, done.rows_out) == (2, 4, 1)
    compacted(lake, **more)
    night(lake, 0, rows())
    assert ids(lake) == [13, 21, 22]
    night(lake, 2, rows(21, 24))
    night(lake, 1, rows(14))
    compacted(lake, **more)
    night(lake, 1, rows(15))
    assert ids(lake) == [15, 21, 24]
    assert night(lake, 2, rows(21, 24), force=True).rows_updated == 2
    assert ids(lake) == [15, 21, 24]


def test_rows_that_are_equal_in_several_nights_are_counted(lake: Lake) -> None:
    night(lake, 0, rows(1, 1, 2))
    night(lake, 1, rows(1, 3))
    compacted(lake)
    night(lake, 0, rows(4))
    assert ids(lake) == [1, 3, 4]
    night(lake, 1, rows(5))
    assert ids(lake) == [4, 5]


def test_a_row_that_was_deleted_is_not_taken_out_a_second_time(lake: Lake) -> None:
    """Both nights have the row 1; others delete it before the second comes."""
    night(lake, 0, rows(1, 2))
    lake.table(lake.spec()).delete(EqualTo("id", 1))
    night(lake, 1, rows(1, 3))
    compacted(lake)
    assert ids(lake) == [1, 2, 3]
    night(lake, 0, rows(4))
    assert ids(lake) == [1, 3, 4]


def test_deleted_rows_stay_deleted_and_the_others_are_replaced(lake: Lake) -> None:
    night(lake, 0, rows(1, 2, 3))
    night(lake, 1, rows(11, 12))
    compacted(lake)
    lake.table(lake.spec()).delete("id == 2 or id == 11")
    compacted(lake)
    night(lake, 0, rows(4))
    assert ids(lake) == [4, 12]
    night(lake, 1, rows(11))
    assert ids(lake) == [4, 11]


def test_rows_that_another_engine_has_rewritten_are_found_by_their_values(lake: Lake) -> None:
    night(lake, 0, rows(1, 2))
    night(lake, 1, rows(11))
    table = lake.table(lake.spec())
    table.overwrite(table.scan().to_arrow())
    night(lake, 0, rows(7))
    assert ids(lake) == [7, 11]


def test_rows_that_another_engine_has_changed_are_told(lake: Lake) -> None:
    night(lake, 0, rows(1, 2))
    table = lake.table(lake.spec())
    changed = table.scan().to_arrow()
    changed = changed.set_column(1, changed.schema.field("x"), pc.add(changed["x"], 1.0))
    table.overwrite(changed)
    with pytest.raises(PlanError, match=r"put 2 other rows in the place of 2 of them.* set force"):
        night(lake, 0, rows(7))
    assert ids(lake) == [1, 2]
    night(lake, 0, rows(7), force=True)
    assert ids(lake) == [1, 2, 7]


def test_rows_of_files_are_lost_track_of_when_snapshots_expire_and_that_is_told(lake: Lake) -> None:
    night(lake, 0, rows(1, 2))
    night(lake, 1, rows(11))
    compacted(lake)
    expired(lake)
    with pytest.raises(
        PlanError, match=r"the table does not know from where.*delete them from the table by hand"
    ):
        night(lake, 0, rows(7))
    assert ids(lake) == [1, 2, 11]


def test_rows_are_followed_through_schemas_that_others_change(lake: Lake) -> None:
    night(lake, 0, rows(1, 2))
    night(lake, 1, rows(11, 12))
    compacted(lake)
    with lake.table(lake.spec()).update_schema() as change:
        change.rename_column("x", "y")
        change.add_column("z", LongType())
    compacted(lake)
    night(lake, 0, pa.table({"id": [3], "y": [1.5]}))
    assert lake.rows(lake.spec()).select(["id", "y", "z"]).to_pylist() == [
        {"id": 3, "y": 1.5, "z": None},
        {"id": 11, "y": 5.5, "z": None},
        {"id": 12, "y": 6.0, "z": None},
    ]


def test_rows_of_files_of_an_older_spec_are_taken_out_and_the_others_stay(lake: Lake) -> None:
    spec = lake.spec(partition=["k"])
    night(lake, 0, pa.table({"id": [1, 2], "k": ["a", "b"], "m": [1, 1]}), spec=spec)
    night(lake, 1, pa.table({"id": [3, 4], "k": ["a", "b"], "m": [1, 2]}), spec=spec)
    compacted(lake)
    with lake.table(spec).update_spec() as update:
        update.remove_field("k")
        update.add_identity("m")
    later = lake.spec(partition=["m"])
    night(lake, 0, pa.table({"id": [5], "k": ["a"], "m": [1]}), spec=later)
    assert lake.rows(later).to_pylist() == [
        {"id": 3, "k": "a", "m": 1},
        {"id": 4, "k": "b", "m": 2},
        {"id": 5, "k": "a", "m": 1},
    ]
    assert lake.table(later).scan(row_filter="m == 2").to_arrow()["id"].to_pylist() == [4]


def test_an_upsert_of_another_spec_takes_rows_over_and_the_rest_is_replaced(lake: Lake) -> None:
    night(lake, 0, rows(1, 2, 3))
    upsert = lake.spec(name="other", mode="upsert", key="id")
    lake.sink(upsert, pa.table({"id": [2, 9], "x": [7.0, 8.0]}))
    night(lake, 0, rows(4))
    assert lake.rows(lake.spec()).to_pylist() == [
        {"id": 2, "x": 7.0},
        {"id": 4, "x": 2.0},
        {"id": 9, "x": 8.0},
    ]


@pytest.mark.parametrize("mode", ["upsert", "overwrite-interval"])
def test_a_row_of_another_spec_is_not_taken_for_an_equal_one_that_it_replaced(lake: Lake, mode: str) -> None:
    def at(number: int, *ids: int) -> pa.Table:
        day = (FIRST + dt.timedelta(days=number)).replace(tzinfo=None)
        return rows(*ids).append_column("t", pa.array([day] * len(ids), pa.timestamp("us")))

    night(lake, 0, at(0, 1, 2))
    night(lake, 1, at(1, 3))
    compacted(lake)
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    more = {"key": "id"} if mode == "upsert" else {"interval": "t"}
    other = lake.spec(name="other", mode=mode, source=source, **more)
    night(lake, 0, at(0, 1, 2), spec=other)
    night(lake, 0, at(0, 7))
    assert ids(lake) == [1, 2, 3, 7]
    night(lake, 1, at(1, 8))
    assert ids(lake) == [1, 2, 7, 8]


def every_type(first: int) -> pa.Table:
    nan, now = math.nan, dt.datetime(2026, 1, 1)
    return pa.table(
        {
            "id": pa.array([first, first, first, None], pa.int64()),
            "f": pa.array([nan, -0.0, 0.0, None], pa.float64()),
            "h": pa.array([nan, -math.inf, 1.5, 0.0], pa.float32()),
            "d": pa.array([1, None, -3, 4], pa.int32()).cast(pa.decimal128(20, 2)),
            "b": pa.array([b"", b"\x00", None, b"\xff" * 40], pa.binary()),
            "w": pa.array([b"ab", None, b"cd", b"ab"], pa.binary(2)),
            "s": pa.array(["", "é", None, "x" * 50]),
            "t": pa.array([now, None, now, now], pa.timestamp("us", tz="UTC")),
            "l": pa.array([[1.0, nan, None], [], None, [-0.0]], pa.list_(pa.float64())),
            "r": pa.array([{"a": 1, "b": None}, None, {"a": None, "b": "x"}, {"a": 2, "b": "y"}]),
            "k": pa.array([True, False, None, True]),
        }
    )


def test_rows_of_every_type_are_followed(lake: Lake) -> None:
    night(lake, 0, every_type(1))
    night(lake, 1, every_type(1).slice(0, 2))
    night(lake, 2, every_type(2))
    compacted(lake)
    night(lake, 0, every_type(3))
    left = lake.table(lake.spec()).scan().to_arrow()
    due = pa.concat_tables([every_type(1).slice(0, 2), every_type(2), every_type(3)])
    assert sorted(map(repr, left.to_pylist())) == sorted(map(repr, due.to_pylist()))


Hinder = Callable[[Lake], None]


def test_a_compaction_in_the_middle_of_a_sink_has_it_look_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake.steps.sink import earlier_sink as module

    night(lake, 0, rows(1, 2))
    night(lake, 1, rows(11))
    compacted(lake)
    done: list[bool] = []
    write = module.write_kept

    def overtaken(*given: object) -> object:
        if not done:
            done.append(True)
            compacted(lake, mode="zorder", columns=["id"])
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "write_kept", overtaken)
    night(lake, 0, rows(3))
    assert done
    assert ids(lake) == [3, 11]
