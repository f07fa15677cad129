"""Compaction of tables with delete files: what is written again has no deleted rows, and no deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.tables.iceberg.data_files import has_delete_files
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite

from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta
from tests.tables.sinking import Lake
from tests.tables.test_delete_files import committed, made, places, rows


def key(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.mark.parametrize("mode", [{}, {"mode": "hilbert", "columns": ["id"]}])
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_deletes_are_merged_and_go(lake: Lake, mode: dict[str, object], partition: list[str]) -> None:
    place = ["g"] if partition else []
    table = made(lake, rows(*range(20)), rows(*range(20, 30)), rows(50, 51, band="r"), partition=partition)
    at = places(lake)
    delta = RowDelta(table.refresh())
    path = delta.data(rows(3, 4, 60), place)
    delta.values(key(3, 4, 21), place)
    delta.positions([at[7], at[25], (path, 0)], place)
    delta.commit()
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, **mode))
    assert (report.rows_deleted, report.rows_in) == (6, report.rows_out)
    assert "have delete files; rows that these take are left out" in report.text
    now = table_of(lake)
    assert counted(plain_rows(now)) == before == counted(now.scan().to_arrow().to_pylist())
    assert not has_delete_files(now)
    told = now.current_snapshot().summary  # type: ignore[union-attr]
    assert (told["total-delete-files"], told["total-records"]) == ("0", str(before.total()))  # type: ignore[index]
    assert compact(request(lake, **mode)).version == ""


@pytest.mark.parametrize("mode", [{}, {"mode": "hilbert", "columns": ["id"]}])
def test_a_partition_without_rows_has_no_file_any_more(lake: Lake, mode: dict[str, object]) -> None:
    table = made(lake, rows(1, 2, 3), rows(4, 5), rows(6, band="r"), partition=["band"])
    committed(table, lambda delta: delta.values(key(1, 2, 3, 4, 5), ["g"]))
    compact(request(lake, partitions="band = 'g'", **mode))
    assert [row["id"] for row in plain_rows(table_of(lake))] == [6]
    assert len(lake.live(lake.spec())) == 1
    assert not has_delete_files(table_of(lake))
    committed(table, lambda delta: delta.values(key(6), ["r"]))
    compact(request(lake, full=True, **mode))
    assert lake.live(lake.spec()) == []
    assert table_of(lake).scan().to_arrow().num_rows == 0


def test_the_spec_says_how_many_delete_files_are_too_many(lake: Lake) -> None:
    table = made(lake, rows(1, 2, 3), rows(11, 12, 13))
    for number in (1, 2):
        committed(table, lambda delta, number=number: delta.values(key(number)))
    small = {"min_file_size": "1 B"}
    assert compact(request(lake, delete_file_threshold=3, **small)).version == ""
    assert compact(request(lake, delete_file_threshold=None, **small)).version == ""
    report = compact(request(lake, delete_file_threshold=2, min_files=9, **small))
    assert (report.removed.files, report.rows_deleted, report.rows_out) == (1, 2, 1)  # bounds tell
    assert not has_delete_files(table_of(lake))
    assert sorted(row["id"] for row in plain_rows(table_of(lake))) == [3, 11, 12, 13]


def test_a_group_that_is_clustered_is_left_alone_but_for_files_with_deletes(lake: Lake) -> None:
    made(lake, rows(*range(2000)), rows(*range(2000, 4000)))
    clustered = {"mode": "hilbert", "columns": ["id"], "group_size": "1 KiB", "target_file_size": "4 KiB"}
    compact(request(lake, **clustered))
    files = len(lake.live(lake.spec()))
    assert files > 1
    assert compact(request(lake, **clustered)).version == ""
    committed(table_of(lake), lambda delta: delta.values(key(5)))
    report = compact(request(lake, **clustered))
    assert (report.removed.files, report.rows_deleted) == (1, 1)
    assert not has_delete_files(table_of(lake))
    assert sorted(row["id"] for row in plain_rows(table_of(lake))) == [n for n in range(4000) if n != 5]


def test_deletes_that_a_file_needs_stay(lake: Lake) -> None:
    table = made(lake, rows(1, 2), rows(3, 4), partition=["band"])
    lake.sink(lake.spec(name="r", partition=["band"]), rows(1, 5, band="r"))
    at = places(lake)
    committed(table, lambda delta: delta.positions([at[2], at[3]], ["g"]))
    with table.refresh().update_spec() as update:
        update.remove_field("band")
    committed(table, lambda delta: delta.values(key(1)))  # everywhere
    committed(table, lambda delta: delta.data(rows(7, 8)))
    committed(table, lambda delta: delta.values(key(7)))
    expected = counted(plain_rows(table_of(lake)))
    compact(
        request(lake, repartition=False)
    )  # files of the older partition spec stay as they are, and so do their deletes
    assert counted(plain_rows(table_of(lake))) == expected
    left = files_of_snapshot(table_of(lake)).deletes
    assert sorted(each.by_position for each in left) == [False, True]
    assert len(plain_rows(table_of(lake))) == 3
    compact(request(lake))
    assert counted(plain_rows(table_of(lake))) == expected
    assert not has_delete_files(table_of(lake))


def test_position_deletes_of_one_file_go_when_it_does_though_others_have_some(lake: Lake) -> None:
    table = made(lake, rows(1, 2), rows(3, 4), rows(5, 6))
    at = places(lake)
    one, two, _ = sorted({path for path, _ in at.values()})
    committed(table, lambda delta: delta.positions([(one, 0)]))
    committed(table, lambda delta: delta.positions([(one, 1), (two, 0)]))
    small = {"min_file_size": "1 B", "delete_file_threshold": 2}
    report = compact(request(lake, **small))
    assert (report.removed.files, report.added.files, report.rows_deleted) == (1, 0, 2)
    assert len(files_of_snapshot(table_of(lake)).deletes) == 1
    assert len(plain_rows(table_of(lake))) == 3
    compact(request(lake))
    assert not has_delete_files(table_of(lake))
    assert len(plain_rows(table_of(lake))) == 3


def test_only_files_that_deletes_name_are_written_again(lake: Lake) -> None:
    table = made(lake, *(rows(2 * number, 2 * number + 1) for number in range(5)))
    paths = sorted({path for path, _ in places(lake).values()})
    committed(table, lambda delta: delta.positions([(paths[0], 0), (paths[-1], 1)]))  # bounds hold all five
    before = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, min_file_size="1 B"))
    assert (report.removed.files, report.rows_deleted, report.rows_out) == (2, 2, 2)
    assert not has_delete_files(table_of(lake))
    assert counted(plain_rows(table_of(lake))) == before


def test_deletes_that_come_meanwhile_discard_only_groups_whose_files_they_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, *(rows(2 * number, 2 * number + 1) for number in range(12)))
    at = places(lake)
    paths = sorted({path for path, _ in at.values()})
    gone = {number for number, place in at.items() if place in ((paths[0], 0), (paths[-1], 1))}
    largest = max(Path(path).stat().st_size for path in paths)
    sizes = {"target_file_size": f"{largest} B", "max_file_size": f"{largest} B"}
    commit = IcebergRewrite.commit

    def second(rewrite: IcebergRewrite, *told: Any) -> Any:
        monkeypatch.undo()
        committed(table.refresh(), lambda delta: delta.positions([(paths[0], 0), (paths[-1], 1)]))
        return commit(rewrite, *told)

    monkeypatch.setattr(IcebergRewrite, "commit", second)
    report = compact(request(lake, full=True, group_size="1 B", **sizes))
    assert report.bins >= 6
    assert 1 <= report.groups_refused <= 2
    assert sorted(row["id"] for row in plain_rows(table_of(lake))) == sorted(set(range(24)) - gone)


def test_deletes_that_no_file_needs_go_though_nothing_is_rewritten(lake: Lake) -> None:
    table = made(lake, rows(1, 2, 3))
    committed(table, lambda delta: delta.positions([(f"{table.location()}/data/gone.parquet", 0)]))
    committed(table, lambda delta: delta.data(rows(9)))
    assert compact(request(lake, delete_file_threshold=None, min_files=9)).version == ""
    told = compact(request(lake, min_files=9, dry_run=True))
    assert (told.version, "1 delete files would go that no data file needs" in told.text) == ("", True)
    assert has_delete_files(table_of(lake))
    report = compact(request(lake, min_files=9))
    assert (report.commits, report.removed.files, report.rows_in) == (1, 0, 0)
    assert str(table_of(lake).current_snapshot().snapshot_id) == report.version  # type: ignore[union-attr]
    assert not has_delete_files(table_of(lake))
    assert sorted(row["id"] for row in plain_rows(table_of(lake))) == [1, 2, 3, 9]
    assert compact(request(lake, min_files=9)).version == ""


def test_files_are_as_many_as_the_rows_that_stay_ask_for(lake: Lake) -> None:
    table = made(lake, rows(*range(30_000)))
    [path] = {path for path, _ in places(lake).values()}
    size = Path(path).stat().st_size
    committed(table, lambda delta: delta.positions([(path, at) for at in range(30_000) if at % 3]))
    report = compact(request(lake, target_file_size=f"{size // 3} B"))
    assert (report.expected_files, report.added.files, report.rows_out) == (1, 1, 10_000)
    assert 0.5 * size / 3 < report.added.total_bytes < 1.5 * size / 3
