"""Files of rows that are kept: who may use them, what becomes of them, and what if they cannot be kept."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import BadRowsError, EmptySourceError, PlanError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import histogram_tasks, sorted_rows
from hipslake.steps.ingest.histogram_tasks import CountTask
from hipslake.steps.ingest.request import (
    HistogramReport,
)
from hipslake.steps.ingest.rows_to_merge import RowsToMerge
from hipslake.steps.ingest.sorted_rows import SortedRows
from hipslake.steps.ingest.write_tasks import WriteTask
from hipslake.steps.run import RunFolder, Window
from hipslake.steps.tables import read_table
from hipslake.storage.write_out import ScratchFile

from tests.steps.in_process import (
    count,
    freeze,
    ingest,
    make_plan,
    start,
    write_source,
    write_spec,
)
from tests.steps.kept_rows import counted, kept_files, kept_run, land, many_kinds, row_starts, written


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunFolder], None]:
    """Takes a run, of which no source file may be read any more."""

    def refuse(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("the source is read")

    return lambda folder: monkeypatch.setattr("hipslake.steps.ingest.split_rows.read_splits", refuse)


def test_the_source_is_read_once(tmp_path: Path, unread: Callable[[RunFolder], None]) -> None:
    folder = kept_run(tmp_path)
    unread(folder)
    assert sum(file[3] for file in written(folder)) == 3000


@pytest.mark.parametrize(
    "missing",
    [
        "a file",
        "all files",
        "half a file",
        "the list",
        "half the list",
        "the boot",
    ],
)
def test_rows_that_are_gone_are_read_again(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept_run(tmp_path)
    expected = written(folder)
    counted(folder, keep=True, split_bytes=20_000)
    arrows = sorted(path for path in kept_files(folder) if path.suffix == ".arrow")
    if missing == "a file":
        arrows[3].unlink()
    elif missing == "half a file":
        os.truncate(arrows[5], arrows[5].stat().st_size // 2)
    elif missing == "all files":
        shutil.rmtree(Path(folder.uri, RunFolder.SORTED))
    elif missing == "the list":
        Path(folder.uri, RunFolder.SORTED_FILES).unlink()
    elif missing == "half the list":
        os.truncate(Path(folder.uri, RunFolder.SORTED_FILES), 300)
    else:
        boots = tmp_path / "boot_id"
        boots.write_text("another")
        monkeypatch.setattr(sorted_rows, "_BOOT", boots)
    assert written(folder) == expected
    assert not kept_files(folder)


def test_leaves_are_written_again_from_the_source(tmp_path: Path) -> None:
    """Who clears the write task of a run that has ended finds no rows kept."""
    folder = kept_run(tmp_path)
    assert written(folder) == written(folder)


def test_a_write_that_fails_half_way_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept_run(tmp_path)
    expected = [file[:4] for file in written(folder)]
    counted(folder, keep=True, split_bytes=20_000)
    with monkeypatch.context() as broken:
        whole = WriteTask.merge

        def failing(self: WriteTask, target: int) -> Iterator[pa.RecordBatch]:
            if target == 3:
                raise OSError("the disk is gone")
            yield from whole(self, target)

        broken.setattr(WriteTask, "merge", failing)
        with pytest.raises(OSError, match="the disk is gone"):
            written(folder)
        assert not kept_files(folder)
    assert [file[:4] for file in written(folder)] == expected


def test_rows_without_a_place_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The write step tells of them, which reads the source for it: nothing is kept."""
    caplog.set_level("INFO")
    found = []
    for keep in (True, False):
        place = tmp_path / str(keep)
        table = many_kinds(900, 1)
        bad = table["dec"].to_numpy().copy()
        bad[[5, 400, 899]] = [91.0, np.nan, -100]
        table = table.set_column(2, "dec", pa.array(bad))
        more = "bad_rows: {policy: quarantine, max_fraction: 0.5}"
        source = land(place / "landing", table, 3)
        spec = write_spec(place / "stars.yaml", source, more=more)
        folder = start(place / "warehouse", spec)
        freeze(folder)
        caplog.clear()
        report = counted(folder, keep=keep)
        told = "The write step reads the files again: 3 rows have no place on the sky."
        assert (told in caplog.messages) is keep
        assert not report.keeps_rows
        assert report.rows_rejected == 3
        assert not kept_files(folder)
        make_plan(folder)
        found.append(written(folder))
        catalog = place / "warehouse" / "catalogs" / "stars"
        rejects = [pq.read_table(path) for path in catalog.glob("*/_rejects/*.parquet")]
        assert sum(part.num_rows for part in rejects) == 3
    assert found[0] == found[1]


def test_a_disk_with_little_room_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_source(tmp_path / "landing")
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    size = sum(path.stat().st_size for path in (tmp_path / "landing").iterdir())
    usage = shutil.disk_usage(tmp_path)
    for free, keeps in ((3 * size - 1, False), (4 * size, True)):
        monkeypatch.setattr(sorted_rows.shutil, "disk_usage", lambda _: usage._replace(free=free))  # noqa: B023
        caplog.clear()
        assert counted(folder, keep=True).keeps_rows is keeps
        assert (f"needs {3 * size} free bytes" in caplog.text) is not keeps


@pytest.mark.parametrize(
    "more",
    ["mode: append", "newest: {key: [id], order: mag}", "mode: upsert\nkey: [id]"],
)
def test_runs_that_choose_among_rows_keep_none(more: str, tmp_path: Path) -> None:
    write_source(tmp_path / "landing" / "night=2026-11-20")
    source = f"{tmp_path}/landing/night={{{{ night }}}}/*.parquet"
    night: dict[str, Any] = {"window": Window(start=datetime(2026, 11, 20, tzinfo=UTC), origin="params")}
    if more.startswith("newest"):
        source, night = f"{tmp_path}/landing/*/*.parquet", {}
    folder = start(tmp_path / "warehouse", write_spec(tmp_path / "stars.yaml", source, more=more), **night)
    freeze(folder)
    assert not count(folder).keeps_rows
    assert not kept_files(folder)


def test_a_source_without_rows_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    pq.write_table(many_kinds(10, 1).slice(0, 0), tmp_path / "landing" / "a.parquet")
    folder = start(
        tmp_path / "warehouse", write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    )
    freeze(folder)
    with pytest.raises(EmptySourceError):
        count(folder)
    assert not [path for path in kept_files(folder) if path.suffix == ".arrow"]


def test_attempts_side_by_side_leave_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second attempt at every task, as a cluster may begin, has files of its own."""
    whole = CountTask.__call__

    def twice(self: CountTask, task: int) -> Iterator[pa.RecordBatch]:
        if self.sorted_rows is not None:
            list(whole(self, task))
        yield from whole(self, task)

    monkeypatch.setattr(CountTask, "__call__", twice)
    folder = kept_run(tmp_path)
    files = read_table(folder.storage, RunFolder.SORTED_FILES)
    assert 2 * files.num_rows == sum(path.suffix == ".arrow" for path in kept_files(folder))
    assert sum(file[3] for file in written(folder)) == 3000
    assert not kept_files(folder)


def test_an_attempt_that_fails_says_nothing_of_its_files(tmp_path: Path) -> None:
    folder = kept_run(tmp_path)
    spec = FrozenRun.of(folder).spec
    keeping = SortedRows.of(folder.storage, spec, folder.schema(), source_bytes=1, at_once=1)
    assert keeping is not None
    with pytest.raises(RuntimeError, match="killed"), keeping.keeping(0, 0):
        raise RuntimeError("killed")
    assert not folder.storage.is_file(keeping.record_path(0))
    assert not keeping.store(1)


def test_files_go_when_nothing_is_to_be_read_of_them(tmp_path: Path) -> None:
    """After each task, there is what a task that is left overlaps with, and no more."""
    folder = kept_run(tmp_path)
    kept = RowsToMerge.claimed(folder.storage, row_starts(folder))
    assert kept is not None
    places = kept.files.to_pylist()
    edges = np.linspace(0, 12 << 58, 38).astype(np.int64).tolist()
    stretches = [("main", first, last) for first, last in pairwise(edges)]
    ended = kept.freeing(stretches)
    left = set(range(len(stretches)))
    for task in np.random.default_rng(3).permutation(len(stretches)).tolist():
        ended(task)
        left.remove(task)
        for place in places:
            needed = any(
                place["start"] < stretches[at][2] and place["stop"] > stretches[at][1] for at in left
            )
            assert Path(folder.uri, kept.path, place["name"]).exists() is needed


def test_rows_of_runs_that_nobody_goes_on_with_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, young = kept_run(tmp_path / "old"), kept_run(tmp_path / "young")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "3600")
    for folder, age in ((old, 3700.0), (young, 3500.0)):
        (attempt,) = Path(folder.uri, RunFolder.SORTED).iterdir()
        os.utime(attempt, (time.time() - age,) * 2)
        spec = Path(folder.uri).parents[3] / "stars.yaml"
        start(Path(folder.uri).parents[2], spec, run_id="next")
    assert not kept_files(old)
    assert kept_files(young)


def test_an_ingest_leaves_no_rows_behind(tmp_path: Path) -> None:
    write_source(tmp_path / "landing")
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = start(tmp_path / "warehouse", spec)
    ingest(folder)
    assert folder.read(RunFolder.report_path("histogram"), HistogramReport).keeps_rows
    assert not kept_files(folder)


def test_rows_that_a_task_cannot_keep_are_kept_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full half-way: the step goes on, and frees what it had taken."""
    whole, calls = ScratchFile.write, []

    def full(self: ScratchFile, content: Any) -> int:
        calls.append(len(memoryview(content)))
        if sum(calls) > 30_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(self, content)

    monkeypatch.setattr(ScratchFile, "write", full)
    write_source(tmp_path / "landing")
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    report = counted(folder, keep=True, split_bytes=10_000)
    assert len(calls) > 5
    assert not report.keeps_rows
    assert report.rows_out == 3000
    assert not kept_files(folder)
    make_plan(folder)
    assert sum(file[3] for file in written(folder)) == 3000


def test_a_disk_that_fills_up_meanwhile_ends_the_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By others, say: what the leaf files will need stays free."""
    write_source(tmp_path / "landing")
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    size = sum(path.stat().st_size for path in (tmp_path / "landing").iterdir())
    usage, free = shutil.disk_usage(tmp_path), iter([100 * size] * 3)
    monkeypatch.setattr(
        sorted_rows.shutil, "disk_usage", lambda _: usage._replace(free=next(free, size + 100))
    )
    assert not counted(folder, keep=True, split_bytes=10_000).keeps_rows
    assert not kept_files(folder)


def test_after_a_row_without_a_place_no_task_keeps_any(tmp_path: Path) -> None:
    """And reads no more columns than it needs to count."""
    table = many_kinds(3000, 1)
    dec = table["dec"].to_numpy().copy()
    dec[0] = 91.0
    source = land(tmp_path / "landing", table.set_column(2, "dec", pa.array(dec)), 30)
    spec = write_spec(tmp_path / "stars.yaml", source, more="bad_rows: {policy: quarantine}")
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    read: list[list[str] | None] = []
    whole = histogram_tasks.chunks

    def noting(*given: Any, **named: Any) -> Any:
        read.append(given[4])
        return whole(*given, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(histogram_tasks, "chunks", noting)
        assert not counted(folder, keep=True, cores=1).keeps_rows
    assert read[0] is None
    assert len(read) > 3
    assert all(columns == ["ra", "dec"] for columns in read[1:])


@pytest.mark.parametrize("failing", ["bad rows", "plan"])
def test_a_run_that_fails_leaves_no_rows(failing: str, tmp_path: Path) -> None:
    table = many_kinds(400, 1)
    if failing == "bad rows":
        table = table.set_column(2, "dec", pa.array(np.full(400, 91.0)))
    spec = write_spec(
        tmp_path / "stars.yaml", land(tmp_path / "landing", table, 3), threshold="5 rows"
    )  # of which more are at one place
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    if failing == "bad rows":
        with pytest.raises(BadRowsError):
            counted(folder, keep=True)
    else:
        assert counted(folder, keep=True).keeps_rows
        with pytest.raises(PlanError):
            make_plan(folder)
    assert not kept_files(folder)


def test_dictionaries_are_not_kept_once_for_each_stretch(tmp_path: Path) -> None:
    rows = 20_000
    table = many_kinds(rows, 1).select(["id", "ra", "dec"])
    words = pa.array([f"a text of some length, number {n}" for n in range(rows)]).dictionary_encode()
    folder = start(
        tmp_path / "warehouse",
        write_spec(
            tmp_path / "stars.yaml",
            land(tmp_path / "landing", table.append_column("word", words), 1),
            threshold="5000 rows",
        ),
    )
    freeze(folder)
    assert counted(folder, keep=True, split_bytes=1 << 30).keeps_rows
    kept = sum(path.stat().st_size for path in kept_files(folder))
    assert kept < 3 * rows * (4 * 8 + 40)
