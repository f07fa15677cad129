"""Compactions of Iceberg tables that others come before, and that die: nothing is lost, and nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import ConflictError, StorageError
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.compact_table.rewrite_plan import open_compacted
from hipslake.tables.iceberg import compacted_table, iceberg_rewrite
from hipslake.tables.iceberg.data_files import has_delete_files, live_files
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from pyiceberg.table import Table

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact, stars
from tests.tables.compaction.iceberg import content, request, table_of
from tests.tables.plain_reader import plain_rows
from tests.tables.row_deletes import delete_rows, delete_values
from tests.tables.sinking import Lake


def with_others_first(monkeypatch: pytest.MonkeyPatch, others: Any) -> None:
    """Let something happen between the writing of files and their commit."""
    commit = IcebergRewrite.commit

    def second(self: IcebergRewrite, *told: Any) -> Any:
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


def test_rows_that_another_engine_deletes_meanwhile_by_position_end_the_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, files = table_of(lake), set(lake.live(lake.spec()))
    first = min(files)
    gone = pq.read_table(first)["id"].to_pylist()[:2]
    with_others_first(monkeypatch, lambda: delete_rows(table, str(first), [0, 1]))
    with pytest.raises(ConflictError, match=f"rows of {first} were deleted; run it again"):
        compact(request(lake))
    assert set(lake.live(lake.spec())) == files
    assert not [path for path in lake.files(lake.spec()) if "group-" in path.name]
    assert set(gone).isdisjoint(table_of(lake).scan().to_arrow()["id"].to_pylist())
    before = content(lake)
    assert compact(request(lake)).rows_out == before[0]
    assert content(lake) == before
    assert not has_delete_files(table_of(lake))


@pytest.mark.parametrize("mode", [{}, {"mode": "hilbert", "columns": ["ra", "dec"]}])
def test_rows_that_another_engine_deletes_meanwhile_by_value_stay_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: dict[str, Any]
) -> None:
    table, all_rows = table_of(lake), table_of(lake).scan().to_arrow()
    gone = all_rows["id"].to_pylist()[::7]
    with_others_first(monkeypatch, lambda: delete_values(table, "id", pa.array(gone)))
    report = compact(request(lake, **mode))
    assert report.rows_out == all_rows.num_rows
    left = sorted(set(all_rows["id"].to_pylist()) - set(gone))
    assert sorted(row["id"] for row in plain_rows(table_of(lake))) == left
    assert has_delete_files(table_of(lake))  # what was written is older than the deletes
    assert compact(request(lake, **mode)).rows_out == len(left)
    assert not has_delete_files(table_of(lake))
    assert sorted(table_of(lake).scan().to_arrow()["id"].to_pylist()) == left


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
    again = compact_table_run.run(asked, compacting.ThisProcess(2))
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
        monkeypatch.setattr(compacted_table, "finish", lambda *told: None)
        assert [path for path in lake.files(lake.spec()) if "-left" in path.name]
        monkeypatch.undo()
        compact(asked)
        assert content(lake) == before
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    compact(request(lake, dry_run=True))
    assert not [path for path in lake.files(lake.spec()) if "-left" in path.name]
    assert content(lake) == before


def test_what_a_task_writes_after_its_job_has_failed_is_swept(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, compacted = content(lake), open_compacted(request(lake, run="by hand"))
    with pytest.raises(StorageError, match="another task"), compacted.rewriting() as failed:
        _fail(StorageError("another task failed"))
    rows = table_of(lake).scan().to_arrow().slice(0, 5)
    failed.access.write(rows, repr(()), "group-00000-00000-late", None)
    assert [path for path in lake.files(lake.spec()) if "-late" in path.name]
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    compact(request(lake, dry_run=True))
    assert not [path for path in lake.files(lake.spec()) if "-late" in path.name]
    assert content(lake) == before


@pytest.mark.parametrize("when", ["at the answer", "after it"])
def test_who_is_interrupted_after_the_commit_deletes_nothing_of_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    before, asked = content(lake), request(lake, run="by hand")
    commit, finish = IcebergRewrite.commit, iceberg_rewrite.finish

    def interrupted(self: IcebergRewrite, *told: Any) -> str:
        commit(self, *told)
        raise KeyboardInterrupt

    def cut_off(table: Table, write_id: str, kept: Any, **told: Any) -> None:
        monkeypatch.setattr(iceberg_rewrite, "finish", finish)
        raise StorageError("the store does not answer")

    if when == "after it":
        monkeypatch.setattr(IcebergRewrite, "commit", interrupted)
    else:
        monkeypatch.setattr(iceberg_rewrite, "finish", cut_off)
    with pytest.raises((KeyboardInterrupt, StorageError)):
        compact(asked)
    monkeypatch.undo()
    assert content(lake) == before
    assert compact(asked).text.startswith("An earlier attempt has committed")
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    compact(request(lake, dry_run=True))  # sweeps
    assert content(lake) == before


def _fail(error: Exception) -> None:
    raise error
