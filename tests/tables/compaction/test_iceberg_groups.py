"""Rewrites of Iceberg tables while others write: groups of files are committed and refused one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite

from tests.tables.compaction.compacting import before_commit, compact
from tests.tables.compaction.iceberg import dated, files_of, request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.row_deletes import RowDelta
from tests.tables.sinking import Lake


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

    before_commit(monkeypatch, IcebergRewrite, deleted)
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
    before_commit(monkeypatch, IcebergRewrite, lambda: compact(request(lake, partitions="band = 'r'")))
    report = compact(request(lake))
    assert (report.bins, report.groups_refused) == (2, 1)
    assert any("is gone" in why for why in report.refused)
    assert counted(plain_rows(table_of(lake))) == before
    monkeypatch.undo()
    assert compact(request(lake)).version == ""


def test_two_upserts_and_a_compaction_at_once(by_band: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = by_band
    spec = lake.spec(partition=["band"], mode="upsert", key="id")
    rows = pa.table({"id": [10_001], "at": pa.nulls(1, pa.timestamp("us")), "band": ["r"], "flux": [0.5]})
    others = [row for row in plain_rows(table_of(lake)) if row["id"] != 10_001]
    before_commit(monkeypatch, IcebergRewrite, lambda: lake.sink(spec, rows))
    report = compact(request(lake))
    assert (report.bins, report.groups_refused) == (2, 1)
    assert counted(plain_rows(table_of(lake))) == counted([*others, *rows.to_pylist()])
