"""Rewrites of Iceberg tables: sizes of files, sort orders, older partitions, bounds, several commits."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import ConflictError, SpecError, StorageError
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from pyiceberg.manifest import DataFile
from pyiceberg.transforms import BucketTransform, MonthTransform

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import content, request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta, delete_rows
from tests.tables.sinking import Lake


def files_of(lake: Lake) -> list[DataFile]:
    return live_files(table_of(lake))


def sizes_of(lake: Lake) -> list[int]:
    return sorted(file.file_size_in_bytes for file in files_of(lake))


def with_target(lake: Lake, size: int) -> None:
    with table_of(lake).transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": str(size)})


def test_files_of_which_no_two_fit_into_one_are_packed(lake: Lake) -> None:
    size = sizes_of(lake)[0]
    target = int(size / 0.55)  # as 6 files of 66 MiB, with a target of 120 MiB
    report = compact(request(lake, target_file_size=f"{target} B"))
    before = content(lake)
    assert (report.removed.files, report.added.files, report.bins) == (6, report.expected_files, 1)
    assert report.added.files in (3, 4)
    assert all(0.6 * target < each < 1.4 * target for each in sizes_of(lake))
    assert compact(request(lake, target_file_size=f"{target} B")).version == ""
    assert content(lake) == before


def test_large_files_are_cut(lake: Lake) -> None:
    before = counted(plain_rows(table_of(lake)))
    compact(request(lake, target_file_size="1 MiB"))
    [whole] = sizes_of(lake)
    report = compact(request(lake, target_file_size=f"{whole // 4} B"))
    assert (report.removed.files, report.added.files) == (1, 4)
    assert all(0.2 * whole < each < 0.35 * whole for each in sizes_of(lake))
    assert counted(plain_rows(table_of(lake))) == before
    assert compact(request(lake, target_file_size=f"{whole // 4} B")).version == ""


def test_the_table_says_how_large_files_should_be(lake: Lake) -> None:
    with_target(lake, 30_000)
    told = {"target_file_size": None}
    report = compact(request(lake, **told))
    assert report.target_bytes == 30_000
    assert report.added.files > 1
    assert compact(request(lake, target_file_size="1 MiB", dry_run=True)).target_bytes == 1 << 20
    with table_of(lake).transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": "large"})
    with pytest.raises(
        SpecError, match=r"write\.target-file-size-bytes is 'large', no whole number from 1 on"
    ):
        compact(request(lake, **told))
    with table_of(lake).transaction() as transaction:
        transaction.remove_properties("write.target-file-size-bytes")
    assert compact(request(lake, dry_run=True, **told)).target_bytes == 128 << 20
    with pytest.raises(SpecError, match="files are to have 134217728 bytes, at least 0 and at most 1048576"):
        compact(request(lake, max_file_size="1 MiB", **told))


@pytest.mark.parametrize("from_table", [True, False])
def test_sorted_files_follow_each_other(tmp_path: Path, from_table: bool) -> None:
    lake = Lake(tmp_path)
    sort = ["name desc", "bucket[4](id)", "ra"]
    for night in range(4):
        lake.sink(lake.spec(sort=sort if from_table else []), stars(800, seed=night))
    before = counted(plain_rows(table_of(lake)))
    by = {"mode": "sort", "target_file_size": "20 KiB"} | ({} if from_table else {"sort": sort})
    report = compact(request(lake, **by))
    assert report.added.files > 3
    assert counted(plain_rows(table_of(lake))) == before
    files = files_of(lake)
    order = {file.sort_order_id for file in files}
    assert order == ({table_of(lake).sort_order().order_id} if from_table else {None})
    bucket = BucketTransform(4).transform(table_of(lake).schema().find_type("id"))

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        name = row["name"]
        return name is None, [-ord(letter) for letter in (name or "")] + [1], bucket(row["id"]), row["ra"]

    found = []
    for file in sorted(files, key=lambda file: file.file_path):
        rows = [key(row) for row in pq.read_table(file.file_path).to_pylist()]
        assert rows == sorted(rows)
        found += rows
    assert found == sorted(found)
    counts = [file.record_count for file in files]
    assert max(counts) < 1.4 * min(counts)
    assert compact(request(lake, **by)).version == ""
    lake.sink(lake.spec(sort=sort if from_table else []), stars(50, seed=9))
    again = compact(request(lake, **by))
    assert again.removed.files == 1  # little beside much


def test_rows_that_are_equal_in_the_sort_order_go_to_several_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows = stars(4000).set_column(1, "ra", pa.array([1.0] * 4000))
    lake.sink(lake.spec(), rows)
    report = compact(request(lake, mode="sort", sort=["ra"], target_file_size="20 KiB"))
    counts = [file.record_count for file in files_of(lake)]
    assert len(counts) == report.expected_files > 2
    assert max(counts) < 1.2 * min(counts)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"table survey\.sample has no sort order .*; name in the spec what to sort by"),
        ({"sort": ["flux"]}, r"sort: table survey\.sample has no column flux; there are dec, id, name, ra"),
        ({"sort": ["day(ra)"]}, r"day\(ra\): column 'ra' is of type double; day is for dates"),
    ],
)
def test_what_cannot_be_sorted_by_is_told(lake: Lake, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        compact(request(lake, mode="sort", **given))


@pytest.fixture
def repartitioned(tmp_path: Path) -> Lake:
    """A table by band, of which the newest rows are by month and bucket."""
    lake = Lake(tmp_path)
    for night in range(3):
        lake.sink(lake.spec(partition=["band"]), dated(600, night))
    with table_of(lake).update_spec() as update:
        update.remove_field("band")
        update.add_field("at", MonthTransform(), "at_month")
        update.add_field("id", BucketTransform(2), "id_bucket")
    lake.sink(lake.spec(partition=["month(at)", "bucket[2](id)"]), dated(300, 7))
    return lake


def dated(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    start = dt.datetime(2026, 1, 30)
    at = [start + dt.timedelta(hours=int(hours)) for hours in random.integers(0, 24 * 60, rows)]
    return pa.table(
        {
            "id": random.permutation(rows) + seed * 10_000,
            "at": pa.array([None if n % 50 == 0 else each for n, each in enumerate(at)], pa.timestamp("us")),
            "band": ["g" if n % 3 else "r" for n in range(rows)],
            "flux": random.normal(size=rows),
        }
    )


@pytest.mark.parametrize(
    "by", [{}, {"mode": "hilbert", "columns": ["flux"]}, {"mode": "sort", "sort": ["at"]}]
)
def test_files_of_older_partitions_are_rewritten_into_the_present_ones(
    repartitioned: Lake, by: dict[str, Any]
) -> None:
    lake = repartitioned
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, **by))
    assert report.files_repartitioned == 6
    assert "6 of the files are of an older partition spec; their rows move." in report.text
    assert counted(plain_rows(table_of(lake))) == before
    table = table_of(lake)
    for file in files_of(lake):
        assert file.spec_id == table.spec().spec_id
        rows = pq.read_table(file.file_path)
        for field, at in zip(table.spec().fields, range(2), strict=True):
            kind = table.schema().find_type(field.source_id)
            transform = field.transform.transform(kind)
            values = rows.column(table.schema().find_column_name(field.source_id))
            stored = [_internal(value) for value in values.to_pylist()]
            assert {transform(value) for value in stored} == {file.partition[at]}
    for _ in range(2):  # small files in one partition are packed, or clustered, by the next run
        compact(request(lake, **by))
    assert compact(request(lake, **by)).version == ""
    assert counted(plain_rows(table_of(lake))) == before
    places = Counter(tuple(file.partition[at] for at in range(2)) for file in files_of(lake))
    assert len(places) == 8
    assert by or set(places.values()) == {1}
    month = dt.datetime(2026, 2, 1)
    [read] = [table_of(lake).scan(f"at >= '{month.isoformat()}'").to_arrow().num_rows]
    assert read == sum(row["at"] is not None and row["at"] >= month for row in plain_rows(table_of(lake)))


def _internal(value: Any) -> Any:
    epoch = dt.datetime(1970, 1, 1)
    return (value - epoch) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value


def test_deletes_of_older_partitions_are_merged_as_their_rows_move(repartitioned: Lake) -> None:
    lake = repartitioned
    table = table_of(lake)
    old = next(file for file in files_of(lake) if file.spec_id != table.spec().spec_id)
    delta = RowDelta(table, old.spec_id)
    delta.positions([(old.file_path, 0), (old.file_path, 5)], [old.partition[0]])
    delta.commit()
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake))
    assert report.rows_deleted == 2
    assert counted(plain_rows(table_of(lake))) == before
    assert counted(table_of(lake).scan().to_arrow().to_pylist()) == before


def test_a_table_without_partitions_any_more_takes_the_rows_of_older_ones(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.sink(lake.spec(partition=["band"]), dated(600, 1))
    with table_of(lake).update_spec() as update:
        update.remove_field("band")
    before = counted(plain_rows(table_of(lake)))
    assert compact(request(lake, target_file_size="1 MiB")).added.files == 1
    assert counted(plain_rows(table_of(lake))) == before


def during(monkeypatch: pytest.MonkeyPatch, others: Any, at: int = 1) -> None:
    """Let something happen before the commit of this number."""
    commit, calls = IcebergRewrite.commit, iter(range(1, 100))

    def second(self: IcebergRewrite, *told: Any) -> Any:
        if next(calls) == at:
            others()
        return commit(self, *told)

    monkeypatch.setattr(IcebergRewrite, "commit", second)


def test_rows_that_are_deleted_in_a_present_partition_end_a_move(
    repartitioned: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = repartitioned
    moved = next(row for row in plain_rows(table_of(lake)) if row["id"] < 30_000 and row["at"] is not None)
    bucket = BucketTransform(2).transform(table_of(lake).schema().find_type("id"))(moved["id"])
    month = (moved["at"].year - 1970) * 12 + moved["at"].month - 1

    def deleted() -> None:
        delta = RowDelta(table_of(lake))
        delta.values(pa.table({"id": pa.array([moved["id"]], pa.int64())}), [month, bucket])
        delta.commit()

    during(monkeypatch, deleted)
    before = counted(plain_rows(table_of(lake)))
    with pytest.raises(ConflictError, match="rows of partitions were deleted by "):
        compact(request(lake))
    assert counted(plain_rows(table_of(lake))) == before
    monkeypatch.undo()
    assert compact(request(lake)).files_repartitioned == 6
    assert counted(plain_rows(table_of(lake))) == before


def test_files_of_older_partitions_stay_if_the_spec_says_so(repartitioned: Lake) -> None:
    report = compact(request(repartitioned, repartition=False))
    assert (report.files_repartitioned, report.removed.files) == (0, 0)
    assert report.text.count("6 files of an older partition spec stay as they are.") == 1


@pytest.fixture
def by_band(tmp_path: Path) -> Lake:
    """A table of two partitions, of 4 files each."""
    lake = Lake(tmp_path)
    for night in range(4):
        lake.sink(lake.spec(partition=["band"]), dated(400, night))
    return lake


@pytest.mark.parametrize("commits", [1, 2])
def test_a_conflict_in_one_group_discards_no_other(
    by_band: Lake, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    lake = by_band
    first = next(file for file in files_of(lake) if file.partition[0] == "g").file_path
    table = table_of(lake)

    def deleted() -> None:
        delta = RowDelta(table.refresh())
        delta.positions([(first, 0)], ["g"])
        delta.commit()

    during(monkeypatch, deleted)
    report = compact(request(lake, max_commits=commits))
    assert (report.bins, report.groups_refused, report.removed.files) == (2, 1, 4)
    assert (report.commits, report.rows_in) == (1, report.rows_out)
    assert any(f"rows of {first} were deleted" in why for why in report.refused)
    assert "1 groups are left as they were, since others have changed their files" in report.text
    assert Counter(file.partition[0] for file in files_of(lake)) == {"g": 4, "r": report.added.files}
    assert len(plain_rows(table_of(lake))) == 1599
    written = {str(path) for path in lake.files(lake.spec()) if "group-" in path.name}
    assert written == {file.file_path for file in files_of(lake) if "group-" in file.file_path}
    monkeypatch.undo()
    assert compact(request(lake)).rows_deleted == 1
    assert len(plain_rows(table_of(lake))) == 1599


def test_files_that_another_has_replaced_discard_no_other_group(
    by_band: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = by_band
    before = counted(plain_rows(table_of(lake)))
    during(monkeypatch, lambda: compact(request(lake, partitions="band = 'r'")))
    report = compact(request(lake))
    assert (report.bins, report.groups_refused) == (2, 1)
    assert any("is gone" in why for why in report.refused)
    assert counted(plain_rows(table_of(lake))) == before
    monkeypatch.undo()
    assert compact(request(lake)).version == ""


def test_groups_are_committed_one_by_one_and_a_retry_goes_on(
    by_band: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = by_band
    before, snapshots = counted(plain_rows(table_of(lake))), len(table_of(lake).snapshots())
    asked = request(lake, run="by hand", max_commits=5, full=True)

    def fails() -> None:
        raise StorageError("the store does not answer")

    during(monkeypatch, fails, at=2)
    with pytest.raises(StorageError):
        compact(asked)
    monkeypatch.undo()
    assert len(table_of(lake).snapshots()) == snapshots + 1
    assert counted(plain_rows(table_of(lake))) == before
    report = compact(asked)
    assert (report.bins, report.removed.files, report.commits) == (1, 4, 1)
    assert len(table_of(lake).snapshots()) == snapshots + 2
    assert counted(plain_rows(table_of(lake))) == before
    again = compact_table_run.run(asked, compacting.ThisProcess(2))
    assert again.version == report.version
    whole = compact(request(lake, max_commits=5, full=True))
    assert (whole.commits, whole.bins) == (2, 2)
    assert counted(plain_rows(table_of(lake))) == before


def test_a_conflict_in_all_groups_ends_the_run(by_band: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = by_band
    before = counted(plain_rows(table_of(lake)))
    during(monkeypatch, lambda: compact(request(lake)))
    with pytest.raises(ConflictError, match="8 files that were read are gone"):
        compact(request(lake))
    assert counted(plain_rows(table_of(lake))) == before


@pytest.mark.parametrize("by", [{}, {"mode": "zorder", "columns": ["ra"], "group_size": "30 KiB"}])
def test_no_more_is_rewritten_than_the_bound(lake: Lake, by: dict[str, Any]) -> None:
    before = counted(plain_rows(table_of(lake)))
    size = max(sizes_of(lake))
    bound = int(2.6 * size)
    asked = by | {"target_file_size": f"{int(size * 0.7)} B", "max_rewrite_size": f"{bound} B"}
    rewritten = []
    for _ in range(20):
        report = compact(request(lake, **asked))
        if not report.version:
            break
        assert 0 < report.removed.total_bytes <= bound
        rewritten.append(report.files_later)
        assert counted(plain_rows(table_of(lake))) == before
    else:
        raise AssertionError("it does not end")
    assert not by or rewritten[0] > 0
    with pytest.raises(SpecError, match="max_rewrite_size is 10 kB, which does not hold two files"):
        compact(request(lake, target_file_size="10 kB", max_rewrite_size="10 kB"))


def test_a_file_that_is_larger_than_the_bound_is_told(lake: Lake) -> None:
    compact(request(lake, target_file_size="1 MiB"))
    [size] = sizes_of(lake)
    report = compact(request(lake, target_file_size="10 kB", max_rewrite_size=f"{size - 1} B"))
    assert (report.version, report.files_later) == ("", 1)
    assert "a single file is larger than that" in report.text


@pytest.mark.parametrize(
    "by", [{}, {"mode": "hilbert", "columns": ["ra", "dec"]}, {"mode": "sort", "sort": ["ra"]}]
)
def test_ten_rounds_under_appends_end_with_the_files_of_a_quiet_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: dict[str, Any]
) -> None:
    busy, quiet = Lake(tmp_path / "busy"), Lake(tmp_path / "quiet")
    nights = [stars(300, seed=night) for night in range(21)]
    for lake in (busy, quiet):
        lake.sink(lake.spec(), nights[0])
    asked = by | {"target_file_size": "20 KiB"}
    for turn in range(10):
        before, meanwhile = nights[1 + 2 * turn : 3 + 2 * turn]
        for lake in (busy, quiet):
            lake.sink(lake.spec(), before)
        during(monkeypatch, lambda rows=meanwhile: busy.sink(busy.spec(), rows))
        compact(request(busy, **asked))
        monkeypatch.undo()
        compact(request(quiet, **asked))
        quiet.sink(quiet.spec(), meanwhile)
    for lake in (busy, quiet):
        compact(request(lake, **asked))
        assert compact(request(lake, **asked)).version == ""
    assert counted(plain_rows(table_of(busy))) == counted(plain_rows(table_of(quiet)))
    assert len(files_of(busy)) == len(files_of(quiet))
    at_once = compact(request(quiet, full=True, **asked)).added.files
    assert len(files_of(busy)) <= 1.5 * at_once


def test_two_upserts_and_a_compaction_at_once(by_band: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = by_band
    spec = lake.spec(partition=["band"], mode="upsert", key="id")
    rows = pa.table({"id": [10_001], "at": pa.nulls(1, pa.timestamp("us")), "band": ["r"], "flux": [0.5]})
    others = [row for row in plain_rows(table_of(lake)) if row["id"] != 10_001]
    during(monkeypatch, lambda: lake.sink(spec, rows))
    report = compact(request(lake))
    assert (report.bins, report.groups_refused) == (2, 1)
    assert counted(plain_rows(table_of(lake))) == counted([*others, *rows.to_pylist()])


def test_position_deletes_of_a_packed_file_are_not_lost(lake: Lake) -> None:
    path = files_of(lake)[0].file_path
    delete_rows(table_of(lake), path, [0, 3, 4])
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, target_file_size="15 kB", full=True))
    assert (report.rows_deleted, report.rows_out) == (3, 2997)
    assert report.added.files > 2
    assert counted(plain_rows(table_of(lake))) == before
