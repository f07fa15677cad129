"""Manifests that are merged: the same files, in few and ordered lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import SpecError
from hipslake.tables.iceberg import snapshot_producers
from hipslake.tables.iceberg.data_files import has_delete_files, live_files
from pyiceberg.table import Table

from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import delete_rows
from tests.tables.sinking import Lake, utc

NOT_MERGED = {"commit.manifest-merge.enabled": "false"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of 12 commits, each of which has a manifest of its own."""
    lake = Lake(tmp_path)
    for night in range(12):
        lake.sink(lake.spec(partition=["bucket[3](id)"], properties=NOT_MERGED), stars(60, seed=night))
    return lake


def manifests(table: Table) -> list[Any]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return list(snapshot.manifests(table.io))


def merged(lake: Lake, **given: Any) -> Any:
    return compact(request(lake, manifests=True, min_files=1000, delete_file_threshold=None, **given))


def described(table: Table) -> list[tuple[Any, ...]]:
    return sorted(
        (
            entry.data_file.file_path,
            entry.sequence_number,
            entry.file_sequence_number,
            entry.snapshot_id,
            entry.data_file.record_count,
            entry.data_file.spec_id,
            str(entry.data_file.lower_bounds),
        )
        for manifest in manifests(table)
        for entry in manifest.fetch_manifest_entry(table.io)
    )


def test_small_manifests_become_one_with_the_same_entries(lake: Lake) -> None:
    table = table_of(lake)
    before, files, rows = manifests(table), described(table), counted(plain_rows(table))
    dry = merged(lake, dry_run=True)
    assert (dry.manifests_before, dry.manifests_after, dry.version) == (12, 1, "")
    assert len(manifests(table_of(lake))) == 12
    report = merged(lake)
    assert (report.manifests_before, report.manifests_after) == (len(before), 1)
    now = table_of(lake)
    assert (described(now), counted(plain_rows(now))) == (files, rows)
    assert counted(now.scan().to_arrow().to_pylist()) == rows
    newest = now.current_snapshot()
    assert newest is not None
    assert str(newest.snapshot_id) == report.version
    assert newest.summary is not None
    assert newest.summary.operation.value == "replace"
    old = table.current_snapshot()
    assert old is not None
    assert old.summary is not None
    kept = ("total-records", "total-data-files", "total-files-size")
    assert [newest.summary[name] for name in kept] == [old.summary[name] for name in kept]
    assert merged(lake).version == ""
    assert len(now.snapshots()) == len(table.snapshots()) + 1


def test_large_manifests_are_cut_by_partition(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    merged(lake)
    [whole] = manifests(table_of(lake))
    with table_of(lake).transaction() as transaction:
        size = whole.manifest_length // 3
        transaction.set_properties({"commit.manifest.target-size-bytes": str(size)})
    rows = counted(plain_rows(table_of(lake)))
    assert merged(lake).version == ""  # of so few entries
    monkeypatch.setattr(snapshot_producers, "LEAST_ENTRIES", 1)
    report = merged(lake)
    table = table_of(lake)
    assert report.manifests_after == len(manifests(table)) == 3
    places = [
        {entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(table.io)}
        for manifest in manifests(table)
    ]
    assert sorted(map(sorted, places)) == [[0], [1], [2]]
    assert counted(plain_rows(table)) == rows


def test_delete_manifests_stay_apart_and_still_apply(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for night in range(4):
        lake.sink(lake.spec(properties=NOT_MERGED), stars(60, seed=night))
    for file in live_files(table_of(lake)):
        delete_rows(table_of(lake), file.file_path, [1, 2])
    rows = counted(plain_rows(table_of(lake)))
    assert rows.total() == 232
    report = merged(lake)
    assert (report.manifests_before, report.manifests_after) == (8, 2)
    assert counted(plain_rows(table_of(lake))) == rows
    assert counted(table_of(lake).scan().to_arrow().to_pylist()) == rows
    assert compact(request(lake, manifests=True)).rows_deleted == 8
    assert not has_delete_files(table_of(lake))
    assert counted(plain_rows(table_of(lake))) == rows


def test_sinks_are_known_after_their_manifests_were_merged(lake: Lake) -> None:
    spec = lake.spec(partition=["bucket[3](id)"], properties=NOT_MERGED)
    night = {"start": utc("2026-01-01T00:00:00"), "end": utc("2026-01-02T00:00:00")}
    landed = lake.land(stars(60, seed=20))
    lake.sink(spec, uri=landed, **night)
    merged(lake)
    assert lake.sink(spec, uri=landed, **night).skipped
    others = counted([row for row in plain_rows(table_of(lake)) if row["id"] < 20_000_000])
    replaced = lake.sink(spec, stars(50, seed=21), **night)
    assert (replaced.rows_out, replaced.rows_updated) == (50, 60)
    assert counted(plain_rows(table_of(lake))) == others + counted(
        table_of(lake).scan("id >= 21000000").to_arrow().to_pylist()
    )
    assert table_of(lake).scan().to_arrow().num_rows == 12 * 60 + 50


def test_files_are_packed_before_their_manifests(lake: Lake) -> None:
    rows = counted(plain_rows(table_of(lake)))
    report = compact(request(lake, manifests=True, target_file_size="1 MiB"))
    assert (report.removed.files, report.added.files) == (36, 3)
    assert report.manifests_after <= 2
    assert counted(plain_rows(table_of(lake))) == rows


def test_a_size_that_is_none_is_told(lake: Lake) -> None:
    with table_of(lake).transaction() as transaction:
        transaction.set_properties({"commit.manifest.target-size-bytes": "8 MB"})
    with pytest.raises(SpecError, match=r"commit\.manifest\.target-size-bytes is '8 MB', no number of bytes"):
        merged(lake)
