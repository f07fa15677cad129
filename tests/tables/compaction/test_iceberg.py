"""Compaction of Iceberg tables, in this process: one snapshot that holds the same rows in better files."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.checksum import row_checksum
from hipslake.errors import SpecError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.steps.compact_table.request import CompactTableReport
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.transforms import BucketTransform, parse_transform
from pyiceberg.types import LongType, NestedField, StructType

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import CATALOG, content, request, table_of
from tests.tables.sinking import Lake


def test_small_files_become_few_in_one_replacing_snapshot(lake: Lake) -> None:
    before, snapshots = content(lake), len(table_of(lake).snapshots())
    report = compact(request(lake, target_file_size="1 MiB"))
    table = table_of(lake)
    assert content(lake) == before
    assert ["group-" in path.name for path in lake.live(lake.spec())] == [True]
    assert set(lake.live(lake.spec())) < set(lake.files(lake.spec()))
    assert (report.removed.files, report.added.files, report.bins) == (6, 1, 1)
    assert len(table.snapshots()) == snapshots + 1
    newest = table.current_snapshot()
    assert newest is not None
    assert report.version == str(newest.snapshot_id)
    assert newest.summary is not None
    assert newest.summary.operation.value == "replace"
    assert newest.summary["added-records"] == newest.summary["deleted-records"] == "3000"


@pytest.fixture
def ordered(tmp_path: Path) -> Lake:
    """A sorted table of 4 appends."""
    lake = Lake(tmp_path)
    for night in range(4):
        rows = stars(300, seed=night)
        lake.sink(lake.spec(sort=["bucket[4](id) desc", "name nulls last", "ra desc"]), rows)
    return lake


def test_bin_packing_keeps_the_order_that_the_table_names(ordered: Lake) -> None:
    before = content(ordered)
    compact(request(ordered, target_file_size="1 MiB"))
    (file,) = live_files(table_of(ordered))
    assert file.sort_order_id == table_of(ordered).sort_order().order_id > 0
    bucket = parse_transform("bucket[4]").transform(LongType())
    rows = pq.read_table(file.file_path).to_pylist()
    order = sorted(
        rows, key=lambda row: (-bucket(row["id"]), row["name"] is None, row["name"] or "", -row["ra"])
    )
    assert rows == order
    assert content(ordered) == before


def test_what_is_clustered_names_no_sort_order(ordered: Lake) -> None:
    compact(request(ordered, mode="hilbert", columns=["ra", "dec"]))
    assert {file.sort_order_id for file in live_files(table_of(ordered))} == {None}


def test_a_sort_order_that_cannot_be_made_is_not_claimed(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    with table_of(lake).update_schema() as update:
        update.add_column("at", StructType(NestedField(1, "x", LongType())))
    with table_of(lake).update_sort_order() as order:
        order.asc("at.x", parse_transform("identity"))
    compact(request(lake, target_file_size="1 MiB"))
    assert [file.sort_order_id for file in live_files(table_of(lake))] == [None]
    assert "what is written is not sorted, and says so" in caplog.text


def test_old_snapshots_read_what_they_read_before(lake: Lake) -> None:
    table = table_of(lake)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rows = row_checksum(table.scan().to_arrow())
    compact(request(lake))
    old = table_of(lake).scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    assert row_checksum(old) == rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["zorder", "hilbert"])
def test_clustered_tables_skip_by_their_statistics(lake: Lake, mode: str) -> None:
    before = content(lake)
    report = compact(request(lake, mode=mode, columns=["ra", "dec"], target_file_size="4 KiB"))
    assert content(lake) == before
    assert report.before is not None
    assert report.after is not None
    assert report.after.files == len(live_files(table_of(lake))) == report.added.files
    assert report.before.files_touched == pytest.approx(6, rel=0.05)
    assert report.after.files_touched < 0.5 * report.after.files
    found = table_of(lake).scan(row_filter="ra < 20 and dec < -30")
    assert len(list(found.plan_files())) < 0.5 * report.after.files
    rows = table_of(lake).scan().to_arrow()
    kept = [a < 20 and b < -30 for a, b in zip(rows["ra"].to_pylist(), rows["dec"].to_pylist(), strict=True)]
    assert found.to_arrow().num_rows == sum(kept) > 0


def test_only_what_is_new_is_clustered_again(lake: Lake) -> None:
    by = {"mode": "hilbert", "columns": ["ra", "dec"], "group_size": "30 KiB"}
    first = compact(request(lake, **by))
    assert compact(request(lake, **by)).version == ""
    lake.sink(lake.spec(), stars(500, seed=99))
    again = compact(request(lake, **by))
    assert (again.removed.files, again.files_skipped) == (1, first.added.files)
    full = compact(request(lake, full=True, **by))
    assert full.removed.files == first.added.files + 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by", [{"mode": "binpack"}, {"mode": "hilbert", "columns": ["ra", "dec"]}])
def test_a_compaction_waits_until_enough_files_want_it(lake: Lake, by: dict[str, Any]) -> None:
    waiting = compact(request(lake, min_files=7, **by))
    assert (waiting.version, waiting.files_skipped) == ("", 6)
    assert "nothing to do" in waiting.text
    assert compact(request(lake, min_files=6, **by)).removed.files == 6
    for night in range(2):
        lake.sink(lake.spec(), stars(500, seed=90 + night))
    assert compact(request(lake, min_files=4, **by)).version == ""  # those that are done do not count
    assert compact(request(lake, min_files=4, full=True, **by)).removed.files >= 2


def test_a_column_that_is_renamed_stays_clustered_by(lake: Lake) -> None:
    by = {"mode": "hilbert", "group_size": "30 KiB"}
    first = compact(request(lake, columns=["ra", "dec"], **by))
    with table_of(lake).update_schema() as update:
        update.rename_column("ra", "right_ascension")
    with table_of(lake).update_schema() as update:
        update.add_column("ra", LongType())
    again = compact(request(lake, columns=["right_ascension", "dec"], **by))
    assert (again.version, again.files_skipped) == ("", first.added.files)
    other = compact(request(lake, columns=["ra", "dec"], dry_run=True, **by))  # another column by now
    assert other.removed.files == first.added.files


def test_quality_is_told_by_the_columns_that_files_have_whatever_their_names_were(lake: Lake) -> None:
    first = compact(request(lake, mode="zorder", columns=["ra", "dec"], target_file_size="4 KiB"))
    with table_of(lake).update_schema() as update:
        update.rename_column("ra", "right_ascension")
    columns = ["right_ascension", "dec"]
    again = compact(request(lake, mode="zorder", columns=columns, target_file_size="4 KiB", full=True))
    assert first.after is not None
    assert again.before is not None
    assert again.before.files_touched == pytest.approx(first.after.files_touched, rel=0.2)
    with table_of(lake).update_schema() as update:
        update.add_column("flux", LongType())  # null in all files: no query for a value opens one
    added = compact(request(lake, mode="zorder", columns=["flux"], target_file_size="1 MiB"))
    assert added.before is not None
    assert added.before.files_touched == 0


def test_files_of_an_older_partition_spec_are_counted_where_they_are_left_alone(lake: Lake) -> None:
    with table_of(lake).update_spec() as update:
        update.add_field("id", BucketTransform(2), "id_bucket")
    for night in (7, 8):
        lake.sink(lake.spec(partition=["bucket[2](id)"]), stars(300, seed=night))
    before = content(lake)
    report = compact(request(lake, repartition=False))
    assert (report.files_considered, report.removed.files, report.files_skipped) == (10, 4, 6)
    assert report.text.count("6 files of an older partition spec stay as they are.") == 1
    assert content(lake) == before


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("survey.nothing", "has no table 'survey.nothing'; there are survey.sample"),
        ("nobody.sample", "no table"),
    ],
)
def test_unknown_tables_are_told(lake: Lake, table: str, message: str) -> None:
    iceberg = {"uri": CATALOG.format(root=lake.root)}
    with pytest.raises(SpecError, match=message):
        compact(compacting.request(lake.root, table=table, iceberg=iceberg))


def test_a_night_that_was_compacted_with_others_is_sunk_again(tmp_path: Path) -> None:
    def night(number: int, count: int) -> pa.Table:
        when = dt.datetime(2026, 1, 1) + dt.timedelta(days=number)
        return pa.table({"id": [100 * number + n for n in range(count)], "ts": [when] * count})

    lake, append = Lake(tmp_path), Lake(tmp_path).spec()
    start = [dt.datetime(2026, 1, 1 + n, tzinfo=dt.UTC) for n in range(3)]
    landed = [lake.land(night(number, 3)) for number in range(2)]
    for number in range(2):
        lake.sink(append, uri=landed[number], start=start[number], end=start[number + 1])
    assert compact(request(lake)).removed.files == 2
    assert lake.sink(append, uri=landed[1], start=start[1], end=start[2]).skipped
    for force in (False, True):
        done = lake.sink(append, night(1, 4), start=start[1], end=start[2], force=force)
        assert (done.rows_out, done.rows_updated) == (4, 4 if force else 3)
        assert lake.rows(append)["id"].to_pylist() == [0, 1, 2, 100, 101, 102, 103]
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    over = lake.spec(mode="overwrite-interval", interval="ts", source=source)
    assert lake.sink(over, night(1, 2), start=start[1], end=start[2]).rows_updated == 4
    assert lake.rows(append)["id"].to_pylist() == [0, 1, 2, 100, 101]


def test_a_dry_run_changes_nothing(lake: Lake) -> None:
    snapshots = len(table_of(lake).snapshots())
    report = compact(request(lake, dry_run=True, mode="hilbert", columns=["ra"]))
    assert (report.removed.files, report.version) == (6, "")
    assert report.expected_files > 0
    assert len(table_of(lake).snapshots()) == snapshots


def test_reports_can_be_read_as_json(lake: Lake) -> None:
    asked = request(lake, run="by hand")
    report = compact(asked)
    stored = json.loads(Path(asked.folder.uri_of("reports/compact_table.json")).read_text())
    assert CompactTableReport.model_validate(stored).removed == report.removed
    assert CompactionSpec.model_validate(asked.spec.model_dump(mode="json")) == asked.spec
