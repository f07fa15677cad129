"""What others do to a table between two sinks: rows end right, and nothing is skipped that is not there."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hipslake.errors import SchemaMismatchError
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.expire_snapshots import vacuum_table
from pyiceberg.table import Table

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.sinking import Lake, utc

pytestmark = pytest.mark.sampled(2)

FIRST = utc("2026-01-01T00:00:00")


def night(number: int, *ids: int) -> pa.Table:
    start = dt.datetime(2026, 1, 1) + dt.timedelta(days=number)
    return pa.table({"id": list(ids), "ts": pa.array([start] * len(ids), pa.timestamp("us"))})


def interval(number: int) -> dict[str, dt.datetime]:
    start = FIRST + dt.timedelta(days=number)
    return {"start": start, "end": start + dt.timedelta(days=1)}


def ids(lake: Lake, spec: TableSpec) -> list[int]:
    return [int(number) for number in lake.rows(spec)["id"].to_pylist()]


def rolled_back(table: Table, snapshot_id: int | None) -> None:
    assert snapshot_id is not None
    table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()


def compacted(lake: Lake, **given: object) -> None:
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True, **given))


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite-interval"])
def test_a_night_that_was_rolled_back_is_sunk_again(lake: Lake, mode: str, force: bool) -> None:
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    more = {"append": {}, "upsert": {"key": "id"}, "overwrite-interval": {"interval": "ts"}}[mode]
    spec = lake.spec(mode=mode, source=source, **more)
    landed = [lake.land(night(0, 1, 2)), lake.land(night(1, 3))]
    first = lake.sink(spec, uri=landed[0], **interval(0))
    lake.sink(spec, uri=landed[1], **interval(1))
    rolled_back(lake.table(spec), first.snapshot_id)
    assert ids(lake, spec) == [1, 2]
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    assert not lake.sink(spec, uri=landed[1], force=force, **interval(1)).skipped
    assert ids(lake, spec) == [1, 2, 3]
    assert lake.sink(spec, uri=landed[1], **interval(1)).skipped


def test_after_the_rollback_of_a_replaced_night_the_first_form_of_it_is_known(lake: Lake) -> None:
    spec = lake.spec()
    landed = [lake.land(night(0, 1, 2)), lake.land(night(0, 3))]
    first = lake.sink(spec, uri=landed[0], **interval(0))
    lake.sink(spec, uri=landed[1], **interval(0))
    rolled_back(lake.table(spec), first.snapshot_id)
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    lake.sink(spec, uri=landed[1], **interval(0))
    assert ids(lake, spec) == [3]


@pytest.mark.parametrize("by", ["sink", "compaction", "vacuum"])
def test_what_was_rolled_back_stays_known_as_such_when_its_snapshots_expire(lake: Lake, by: str) -> None:
    spec = lake.spec()
    lake.sink(spec, night(5, 6), **interval(5))
    first = lake.sink(spec, night(0, 1, 2), **interval(0))
    landed = lake.land(night(1, 3))
    gone = lake.sink(spec, uri=landed, **interval(1))
    rolled_back(lake.table(spec), first.snapshot_id)
    if by == "sink":
        lake.sink(spec, night(2, 4), **interval(2))
    elif by == "compaction":
        compacted(lake)
    else:
        lake.sink(lake.spec(name="other"), night(2, 4), **interval(2))
    if by == "vacuum":
        catalog = open_catalog(spec.iceberg, lake.warehouse)
        now = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        vacuum_table(catalog, spec.table, Retention(keep_versions=1, keep_days=0), now=now, dry_run=False)
    else:
        lake.table(spec).maintenance.expire_snapshots().by_id(gone.snapshot_id).commit()
    assert gone.snapshot_id not in {one.snapshot_id for one in lake.table(spec).snapshots()}
    assert not lake.sink(spec, uri=landed, **interval(1)).skipped
    assert 3 in ids(lake, spec)


def test_an_expired_sink_that_stands_is_skipped(lake: Lake) -> None:
    spec = lake.spec()
    landed = lake.land(night(0, 1, 2))
    first = lake.sink(spec, uri=landed, **interval(0))
    lake.sink(spec, night(1, 3), **interval(1))
    lake.table(spec).maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    assert lake.sink(spec, uri=landed, **interval(0)).skipped
    assert ids(lake, spec) == [1, 2, 3]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("by", ["tag", "id"])
def test_a_snapshot_that_is_cut_off_by_expired_ones_is_none_that_was_rolled_back(
    lake: Lake, by: str, version: str
) -> None:
    spec = lake.spec(properties={"format-version": version})
    landed = [lake.land(night(number, number)) for number in range(3)]
    done = [lake.sink(spec, uri=landed[number], **interval(number)) for number in range(3)]
    if by == "tag":
        assert done[0].snapshot_id is not None
        lake.table(spec).manage_snapshots().create_tag(done[0].snapshot_id, "first").commit()
        catalog = open_catalog(spec.iceberg, lake.warehouse)
        now = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        vacuum_table(catalog, spec.table, Retention(keep_versions=1, keep_days=0), now=now, dry_run=False)
    else:
        lake.table(spec).maintenance.expire_snapshots().by_id(done[1].snapshot_id).commit()
    assert done[0].snapshot_id in {one.snapshot_id for one in lake.table(spec).snapshots()}
    for number in range(3):
        assert lake.sink(spec, uri=landed[number], **interval(number)).skipped
    lake.sink(spec, night(3, 3), **interval(3))
    assert lake.sink(spec, uri=landed[0], **interval(0)).skipped
    assert ids(lake, spec) == [0, 1, 2, 3]


def cherry_picked(table: Table, snapshot_id: int | None) -> None:
    """What Spark's `cherrypick_snapshot` does with an append."""
    snapshot = table.snapshot_by_id(snapshot_id or 0)
    assert snapshot is not None
    before = table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
    had = {file.file_path for file in live_files(table, before)} if before is not None else set()
    told = {"source-snapshot-id": str(snapshot_id)}
    with (
        table.transaction() as change,
        change.update_snapshot(snapshot_properties=told).fast_append() as append,
    ):
        for file in live_files(table, snapshot):
            if file.file_path not in had:
                append.append_data_file(file)


@pytest.mark.parametrize("between", [False, True])
def test_a_night_that_was_cherry_picked_is_there_and_is_replaced(lake: Lake, between: bool) -> None:
    spec = lake.spec()
    landed = lake.land(night(1, 3, 4))
    first = lake.sink(spec, night(0, 1, 2), **interval(0))
    second = lake.sink(spec, uri=landed, **interval(1))
    rolled_back(lake.table(spec), first.snapshot_id)
    if between:  # the table is told that it is not there
        lake.sink(spec, night(2, 7), **interval(2))
    cherry_picked(lake.table(spec), second.snapshot_id)
    more = [7] if between else []
    assert ids(lake, spec) == [1, 2, 3, 4, *more]
    assert lake.sink(spec, uri=landed, **interval(1)).skipped
    lake.sink(spec, night(1, 5), **interval(1))
    assert ids(lake, spec) == sorted([1, 2, 5, *more])
    compacted(lake)
    lake.sink(spec, night(1, 6), **interval(1))
    assert ids(lake, spec) == sorted([1, 2, 6, *more])


def test_a_line_that_was_left_and_is_taken_up_again_is_known(lake: Lake) -> None:
    spec = lake.spec()
    landed = [lake.land(night(1, 3)), lake.land(night(1, 4))]
    first = lake.sink(spec, night(0, 1), **interval(0))
    lake.sink(spec, uri=landed[0], **interval(1))
    third = lake.sink(spec, uri=landed[1], **interval(1))
    rolled_back(lake.table(spec), first.snapshot_id)
    lake.sink(spec, night(2, 7), **interval(2))
    assert third.snapshot_id is not None
    lake.table(spec).manage_snapshots().set_current_snapshot(third.snapshot_id).commit()
    assert ids(lake, spec) == [1, 4]
    assert lake.sink(spec, uri=landed[1], **interval(1)).skipped
    assert not lake.sink(spec, uri=landed[0], **interval(1)).skipped
    assert ids(lake, spec) == [1, 3]
    assert not lake.sink(spec, night(2, 7), **interval(2)).skipped
    assert ids(lake, spec) == [1, 3, 7]


def test_a_delete_by_a_filter_is_no_reason_to_sink_again_and_the_rest_is_replaced(lake: Lake) -> None:
    spec = lake.spec()
    landed = lake.land(night(0, 1, 2, 3))
    lake.sink(spec, uri=landed, **interval(0))
    lake.sink(spec, night(1, 7), **interval(1))
    lake.table(spec).delete("id >= 3 and id < 7")
    assert lake.sink(spec, uri=landed, **interval(0)).skipped
    assert ids(lake, spec) == [1, 2, 7]
    lake.sink(spec, night(0, 4), **interval(0))
    assert ids(lake, spec) == [4, 7]


def test_a_branch_that_was_left_is_no_history(lake: Lake) -> None:
    spec = lake.spec()
    landed = lake.land(night(1, 3))
    first = lake.sink(spec, night(0, 1, 2), **interval(0))
    second = lake.sink(spec, uri=landed, **interval(1))
    table = lake.table(spec)
    table.manage_snapshots().create_branch(second.snapshot_id, "kept").commit()
    rolled_back(table.refresh(), first.snapshot_id)
    assert not lake.sink(spec, uri=landed, **interval(1)).skipped
    assert ids(lake, spec) == [1, 2, 3]


@pytest.mark.parametrize("expire", [False, True])
def test_a_version_takes_the_place_of_one_whose_files_were_compacted(lake: Lake, expire: bool) -> None:
    spec = lake.spec()
    lake.sink(spec, night(0, 1, 2), night(1, 3), whole=True)
    before = lake.table(spec).current_snapshot()
    compacted(lake)
    compacted(lake, mode="hilbert", columns=["id"])
    if expire:
        assert before is not None
        lake.table(spec).maintenance.expire_snapshots().by_id(before.snapshot_id).commit()
    done = lake.sink(spec, night(0, 1, 2), night(1, 4), whole=True)
    assert (done.rows_updated, ids(lake, spec)) == (3, [1, 2, 4])
    compacted(lake)
    lake.sink(spec, night(0, 7), whole=True)
    assert ids(lake, spec) == [7]


def test_a_version_takes_the_place_of_the_last_one_after_the_rollback_of_a_compaction(lake: Lake) -> None:
    spec = lake.spec()
    first = lake.sink(spec, night(0, 1, 2), night(1, 3), whole=True)
    compacted(lake)
    rolled_back(lake.table(spec), first.snapshot_id)
    lake.sink(spec, night(0, 7), whole=True)
    assert ids(lake, spec) == [7]


def test_rows_that_another_engine_has_rewritten_are_replaced(lake: Lake) -> None:
    spec = lake.spec()
    lake.sink(spec, night(0, 1, 2), whole=True)
    table = lake.table(spec)
    table.overwrite(table.scan().to_arrow())
    compacted(lake)
    lake.sink(spec, night(0, 7), whole=True)
    assert ids(lake, spec) == [7]


# -- specs and schemas ---------------------------------------------------------------------------------------


def without_night(lake: Lake, version: str) -> None:
    """A table whose partition column another engine has dropped."""
    spec = lake.spec(partition=["night"], properties={"format-version": version})
    lake.sink(spec, pa.table({"id": [1, 2, 3], "night": ["a", "b", "b"]}))
    table = lake.table(spec)
    with table.update_spec() as update:
        update.remove_field("night")
    with table.refresh().update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("night")


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_whose_partition_column_was_dropped_is_sunk_into(lake: Lake, mode: str, version: str) -> None:
    without_night(lake, version)
    given = {"key": "id", "mode": mode} if mode == "upsert" else {}
    spec = lake.spec(name="later", **given)
    lake.sink(spec, pa.table({"id": [4]}), **interval(0))
    assert ids(lake, spec) == [1, 2, 3, 4]
    lake.sink(spec, pa.table({"id": [4, 5]}), **interval(0))  # rewrites the file of that night
    assert ids(lake, spec) == [1, 2, 3, 4, 5]
    lake.sink(spec, pa.table({"id": [6]}), **interval(1))
    compacted(lake)
    assert ids(lake, spec) == [1, 2, 3, 4, 5, 6]


def test_rows_in_files_of_a_spec_whose_column_was_dropped_are_replaced_whole(lake: Lake) -> None:
    without_night(lake, "2")
    spec = lake.spec(name="later", mode="upsert", key="id")
    lake.sink(spec, pa.table({"id": [1, 2, 3]}))
    assert ids(lake, spec) == [1, 2, 3]
    assert len(lake.live(spec)) == 1


def test_a_column_whose_name_has_a_dot_is_added(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1]}))
    done = lake.sink(lake.spec(name="other"), pa.table({"id": [2], "a.b": [5]}))
    assert done.columns_added == ("a.b",)
    assert lake.rows(lake.spec()).to_pylist() == [{"id": 1, "a.b": None}, {"id": 2, "a.b": 5}]


def test_a_dotted_column_that_would_be_a_part_of_another_is_told(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1], "a": [{"b": 1}]}))
    with pytest.raises(SchemaMismatchError, match=r"'a.b' .* a part of a nested column"):
        lake.sink(lake.spec(name="other"), pa.table({"id": [2], "a.b": [5]}))


def test_columns_whose_names_differ_by_case_only_are_told(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1], "ra": [1.0]}))
    with pytest.raises(SchemaMismatchError, match="column 'RA' differs by case only from 'ra' of the table"):
        lake.sink(lake.spec(name="other"), pa.table({"id": [2], "RA": [2.0]}))
    assert lake.table(lake.spec()).schema().column_names == ["id", "ra"]


def test_columns_renamed_added_moved_and_widened_by_others_keep_their_values(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "x": [1.0, 2.0], "y": ["a", "b"]})
    lake.sink(spec, rows)
    with lake.table(spec).update_schema() as change:
        from pyiceberg.types import LongType

        change.update_column("id", LongType())
        change.rename_column("x", "z")
        change.add_column("w", LongType())
        change.move_first("y")
    lake.sink(spec, pa.table({"id": [2, 3], "z": [5.0, 6.0]}))
    assert lake.rows(spec).to_pylist() == [
        {"y": "a", "id": 1, "z": 1.0, "w": None},
        {"y": None, "id": 2, "z": 5.0, "w": None},
        {"y": None, "id": 3, "z": 6.0, "w": None},
    ]
