"""Rewrites of Iceberg tables while others write: groups of files are committed and refused one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import ConflictError, StorageError
from hipslake.steps.compact_table import run as compact_table_run

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import dated, during, files_of, request, table_of
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


@pytest.mark.sampled(3)
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
