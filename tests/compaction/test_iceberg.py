"""Compaction of Iceberg tables, in this process: one snapshot, and what others do meanwhile."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.checksum import row_checksum
from hipslake.compaction import iceberg_table
from hipslake.compaction.iceberg_table import IcebergRewrite
from hipslake.errors import ConflictError, FilterError, PlanError, SpecError, StorageError
from hipslake.spark import table_compaction
from hipslake.spark.table_compaction_planning import open_compacted, planned
from hipslake.specs.compaction import CompactionSpec
from hipslake.steps.compact_table import CompactTableReport, CompactTableRequest
from hipslake.tables.data_files import live_files
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, parse_transform
from pyiceberg.types import LongType, NestedField, StructType

from tests.compaction import compacting
from tests.compaction.compacting import compact, stars
from tests.tables.row_deletes import delete_rows, delete_values
from tests.tables.sinking import Lake

CATALOG = "sqlite:///{root}/state/iceberg.db"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of 6 appends."""
    lake = Lake(tmp_path)
    for night in range(6):
        lake.sink(lake.spec(), stars(500, seed=night))
    return lake


def request(lake: Lake, **given: Any) -> CompactTableRequest:
    iceberg = {"uri": CATALOG.format(root=lake.root)}
    return compacting.request(lake.root, table="survey.sample", iceberg=iceberg, **given)


def table_of(lake: Lake) -> Table:
    return lake.table(lake.spec())


def content(lake: Lake) -> tuple[int, int]:
    rows = table_of(lake).scan().to_arrow()
    return rows.num_rows, row_checksum(rows)


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


def test_files_of_an_older_partition_spec_are_counted_and_left_alone(lake: Lake) -> None:
    with table_of(lake).update_spec() as update:
        update.add_field("id", BucketTransform(2), "id_bucket")
    for night in (7, 8):
        lake.sink(lake.spec(partition=["bucket[2](id)"]), stars(300, seed=night))
    before = content(lake)
    report = compact(request(lake))
    assert (report.files_considered, report.removed.files, report.files_skipped) == (10, 4, 6)
    assert report.text.count("6 files of an older partition spec stay as they are.") == 1
    assert content(lake) == before


@pytest.fixture
def by_name(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    spec = lake.spec(partition=["name", "bucket[2](id)"])
    for night in range(4):
        rows = stars(300, seed=night)
        names = pa.array(["a" if n % 2 else None for n in range(300)])
        lake.sink(spec, rows.set_column(rows.schema.get_field_index("name"), "name", names))
    return lake


def test_partitions_are_kept_apart_and_chosen_by_a_filter(by_name: Lake) -> None:
    before = content(by_name)
    report = compact(request(by_name, mode="zorder", columns=["ra"], partitions="name = 'a'"))
    assert (report.partitions, report.removed.files, report.added.files) == (2, 8, 2)
    assert content(by_name) == before
    files = live_files(table_of(by_name))
    assert sorted((file.partition[0] or "", file.partition[1]) for file in files) == sorted(
        [("a", 0), ("a", 1)] + [("", 0)] * 4 + [("", 1)] * 4
    )
    nothing = compact(request(by_name, partitions="name = 'b'"))
    assert "no file matches the filter; nothing to do" in nothing.text


DAY = dt.datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("values", "field", "filters"),
    [
        (
            pa.array([Decimal("-1.50"), Decimal("2.00"), Decimal("7.25"), None], pa.decimal128(38, 2)),
            "v",
            {"v < 0": [0], "v in (2, 7.25)": [1, 2], "v between -2 and 2.001": [0, 1], "v is null": [3]},
        ),
        (
            pa.array([dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 2, 1), None]),
            "v",
            {"v >= '2026'": [1, 2], "v = '1969-12-31'": [0], "v > '2026-01-01T12:00'": [2]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(microseconds=1), DAY.replace(year=1960), None]),
            "v",
            {"v > '2026-01-01'": [1], "v <= '2026-01-01T00:00:00'": [0, 2], "v < '1970'": [2]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(hours=1), None, None], pa.timestamp("us", "UTC")),
            "v",
            {"v = '2026-01-01'": [0], "v >= '2026-01-01T03:00:00+02:00'": [1], "v is null": [2, 3]},
        ),
        (
            pa.array([DAY, DAY + dt.timedelta(hours=1), DAY.replace(month=2), DAY.replace(year=1969)]),
            "hour(v)",
            {"v_hour = '2026-01-01T01:00'": [1], "v_hour < '1970'": [3]},
        ),
        (
            pa.array([DAY, DAY.replace(month=2), DAY.replace(year=1969, month=12), None]),
            "month(v)",
            {"v_month = '2026-02'": [1], "v_month < '1970-01-01'": [2], "v_month > '2025'": [0, 1]},
        ),
        (
            pa.array([DAY, DAY.replace(year=1969), None, None]),
            "year(v)",
            {"v_year >= '2026'": [0], "v_year < '1970'": [1]},
        ),
        (pa.array([True, False, None, True]), "v", {"v": [0, 3], "v = false": [1], "not v": [1]}),
        (
            pa.array(["", "it's", "銀", None]),
            "v",
            {"v = 'it''s'": [1], "v > 'z'": [2], "v in ('', '銀')": [0, 2]},
        ),
        (pa.array([b"", b"\xff", b"a", None]), "v", {"v = 'ff'": [1], "v in ('', '61')": [0, 2]}),
        (
            pa.array([1, -(2**63), 2**63 - 1, None], pa.int64()),
            "v",
            {"v < 0": [1], "v > 1.5": [2]},
        ),
        (pa.array([dt.time(1), dt.time(2, 30), None]), "v", {"v < '02:00'": [0], "v = '02:30:00'": [1]}),
    ],
)  # fmt: skip
def test_partitions_of_every_type_are_chosen_by_a_filter(
    tmp_path: Path, values: pa.Array, field: str, filters: dict[str, list[int]]
) -> None:
    lake = Lake(tmp_path)
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": values})
    lake.sink(lake.spec(partition=[field]), rows)
    for text, expected in filters.items():
        asked = request(lake, partitions=text, full=True)
        with closing(open_compacted(asked)) as table:
            chosen = planned(asked, table).considered
        found = {row["id"] for file in chosen for row in pq.read_table(file.path).to_pylist()}
        assert sorted(found) == expected, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v = 3", "column 'v' is of type date32.*; compare it with a 'date', not with 3"),
        ("v = 'yesterday'", "write 'yesterday' as one, such as '2026-11-01'"),
        ("v = true", "compare it with a 'date', not with true"),
        ("v is nan", "no kernel"),
        ("w = 1", "there is no column 'w'"),
    ],
)
def test_partition_filters_of_other_types_are_told(tmp_path: Path, text: str, message: str) -> None:
    lake = Lake(tmp_path)
    lake.sink(lake.spec(partition=["v"]), pa.table({"id": [1], "v": [dt.date(2026, 1, 1)]}))
    with pytest.raises(FilterError, match=message):
        compact(request(lake, partitions=text))


def test_clustering_by_a_partition_column_is_told(by_name: Lake) -> None:
    with pytest.raises(SpecError, match=r"table survey\.sample is partitioned by name"):
        compact(request(by_name, mode="zorder", columns=["ra", "name"]))
    assert compact(request(by_name, mode="zorder", columns=["id"])).added.files == 4  # a bucket has many ids


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


def with_others_first(monkeypatch: pytest.MonkeyPatch, others: Any) -> None:
    """Let something happen between the writing of files and their commit."""
    commit = IcebergRewrite.commit

    def second(self: IcebergRewrite, *told: Any) -> str:
        monkeypatch.setattr(IcebergRewrite, "commit", commit)
        others()
        return commit(self, *told)

    monkeypatch.setattr(IcebergRewrite, "commit", second)


def test_an_append_that_comes_first_survives(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with_others_first(monkeypatch, lambda: lake.sink(lake.spec(), stars(700, seed=50)))
    report = compact(request(lake, target_file_size="1 MiB"))
    rows = lake.rows(lake.spec())
    assert (report.rows_out, rows.num_rows) == (3000, 3700)
    assert rows["id"].to_pylist() == sorted(
        number for seed in range(6) for number in stars(500, seed)["id"].to_pylist()
    ) + sorted(stars(700, 50)["id"].to_pylist())
    assert len(live_files(table_of(lake))) == 2


def test_a_change_of_the_same_files_is_a_conflict_and_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.expressions import LessThan

    with_others_first(monkeypatch, lambda: table_of(lake).delete(LessThan("ra", 100.0)))
    with pytest.raises(ConflictError, match="changed by another writer: 6 files that were read are gone"):
        compact(request(lake))
    table = table_of(lake)
    assert {Path(file.file_path) for file in live_files(table)} <= set(lake.files(lake.spec()))
    assert not [path for path in lake.files(lake.spec()) if "group-" in path.name]
    before = content(lake)
    compact(request(lake))  # as a retry
    assert content(lake) == before


@pytest.mark.parametrize("kind", ["positions", "equal values"])
def test_rows_that_another_engine_deletes_meanwhile_do_not_come_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table, files = table_of(lake), set(lake.live(lake.spec()))
    first = min(files)
    gone = pq.read_table(first)["id"].to_pylist()[:2]

    def delete() -> None:
        if kind == "positions":
            delete_rows(table, str(first), [0, 1])
        else:
            delete_values(table, "id", pa.array(gone))

    with_others_first(monkeypatch, delete)
    with pytest.raises(PlanError, match=r"has delete files, which another engine wrote; a compaction needs"):
        compact(request(lake))
    assert set(lake.live(lake.spec())) == files
    assert not [path for path in lake.files(lake.spec()) if "group-" in path.name]
    snapshot = table_of(lake).current_snapshot()
    assert snapshot is not None
    assert [manifest.content.name for manifest in snapshot.manifests(table.io)].count("DELETES") == 1
    if kind == "positions":  # pyiceberg reads no deletes of values
        assert set(gone).isdisjoint(table_of(lake).scan().to_arrow()["id"].to_pylist())
    with pytest.raises(PlanError, match="has delete files"):
        compact(request(lake))


def test_two_compactions_at_once_do_not_both_stand(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(lake)
    with_others_first(monkeypatch, lambda: compact(request(lake)))
    with pytest.raises(ConflictError, match="are gone"):
        compact(request(lake))
    assert content(lake) == before


def test_a_rerun_after_the_commit_finds_it(lake: Lake) -> None:
    asked = request(lake, run="by hand")
    first = compact(asked)
    snapshots = len(table_of(lake).snapshots())
    again = table_compaction.run(asked, compacting.ThisProcess(2))
    assert again.version == first.version
    assert len(table_of(lake).snapshots()) == snapshots


def test_a_run_that_was_killed_is_swept_and_its_retry_completes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(lake)
    asked = request(lake, run="by hand")
    with open_compacted(asked).rewriting() as killed:
        name = "group-00000-00000-left"
        killed.access.write(table_of(lake).scan().to_arrow().slice(0, 5), repr(()), name, None)
        monkeypatch.setattr(iceberg_table, "finish", lambda *told: None)
        assert [path for path in lake.files(lake.spec()) if "-left" in path.name]
        monkeypatch.undo()
        compact(asked)
        assert content(lake) == before
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    compact(request(lake, dry_run=True))
    assert not [path for path in lake.files(lake.spec()) if "-left" in path.name]
    assert content(lake) == before


@pytest.mark.parametrize("when", ["at the answer", "after it"])
def test_who_is_interrupted_after_the_commit_deletes_nothing_of_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    before, asked = content(lake), request(lake, run="by hand")
    commit, finish = IcebergRewrite.commit, iceberg_table.finish

    def interrupted(self: IcebergRewrite, *told: Any) -> str:
        commit(self, *told)
        raise KeyboardInterrupt

    def cut_off(table: Table, write_id: str, kept: Any, **told: Any) -> None:
        monkeypatch.setattr(iceberg_table, "finish", finish)
        raise StorageError("the store does not answer")

    if when == "after it":
        monkeypatch.setattr(IcebergRewrite, "commit", interrupted)
    else:
        monkeypatch.setattr(iceberg_table, "finish", cut_off)
    with pytest.raises((KeyboardInterrupt, StorageError)):
        compact(asked)
    monkeypatch.undo()
    assert content(lake) == before
    assert compact(asked).text.startswith("An earlier attempt has committed")
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    compact(request(lake, dry_run=True))  # sweeps
    assert content(lake) == before


def test_a_night_that_was_compacted_with_others_is_sunk_again_by_its_interval_only(tmp_path: Path) -> None:
    def night(number: int, count: int) -> pa.Table:
        when = DAY + dt.timedelta(days=number)
        return pa.table({"id": [100 * number + n for n in range(count)], "ts": [when] * count})

    lake, append = Lake(tmp_path), Lake(tmp_path).spec()
    start = [dt.datetime(2026, 1, 1 + n, tzinfo=dt.UTC) for n in range(3)]
    landed = [lake.land(night(number, 3)) for number in range(2)]
    for number in range(2):
        lake.sink(append, uri=landed[number], start=start[number], end=start[number + 1])
    assert compact(request(lake)).removed.files == 2
    assert lake.sink(append, uri=landed[1], start=start[1], end=start[2]).skipped
    for force in (False, True):
        with pytest.raises(PlanError, match="its 3 rows lie in files with others by now"):
            lake.sink(append, night(1, 2), start=start[1], end=start[2], force=force)
    assert lake.rows(append)["id"].to_pylist() == [0, 1, 2, 100, 101, 102]
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    over = lake.spec(mode="overwrite-interval", interval="ts", source=source)
    assert lake.sink(over, night(1, 2), start=start[1], end=start[2]).rows_updated == 3
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
