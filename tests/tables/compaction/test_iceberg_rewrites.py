"""Rewrites of Iceberg tables: sizes of files, sort orders, bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import SpecError
from pyiceberg.transforms import BucketTransform

from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import content, files_of, request, sizes_of, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import delete_rows
from tests.tables.sinking import Lake


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


def test_position_deletes_of_a_packed_file_are_not_lost(lake: Lake) -> None:
    path = files_of(lake)[0].file_path
    delete_rows(table_of(lake), path, [0, 3, 4])
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, target_file_size="15 kB", full=True))
    assert (report.rows_deleted, report.rows_out) == (3, 2997)
    assert report.added.files > 2
    assert counted(plain_rows(table_of(lake))) == before
