"""Compactions while other processes write: what does not conflict is committed, and small files go."""

from __future__ import annotations

from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.table.snapshots import Operation, Snapshot

from tests.system import forked
from tests.system.compactions import append_until, band_rows, night_rows, upsert_until
from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request, table_of
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake
from tests.trust.waiting import until


def stopped(process: BaseProcess, stop: Path) -> int:
    """Have a writer end, and return what it says."""
    stop.touch()
    process.join(60)
    assert process.exitcode == 0
    return int(stop.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("mode", [{}, {"mode": "hilbert", "columns": ["id", "x"]}])
def test_ten_rounds_under_constant_appends_end_with_the_files_of_a_quiet_table(
    tmp_path: Path, mode: dict[str, object]
) -> None:
    busy, quiet, stop = Lake(tmp_path / "busy"), Lake(tmp_path / "quiet"), tmp_path / "stop"
    asked = mode | {"target_file_size": "10 KiB"}
    busy.sink(busy.spec(name="first"), night_rows(10_000))
    process = forked.start(append_until, str(busy.root), str(stop))
    meanwhile = newest = 0
    for _ in range(10):
        newest = appended_after(busy, newest)
        before = len(table_of(busy).snapshots())
        report = compact(request(busy, **asked))
        meanwhile += len(table_of(busy).snapshots()) - before - bool(report.version)
        assert report.groups_refused == 0
    nights = stopped(process, stop)
    assert meanwhile > 3
    quiet.sink(quiet.spec(name="first"), night_rows(10_000))
    for night in range(nights):
        quiet.sink(quiet.spec(name=f"night_{night}"), night_rows(night))
    for lake in (busy, quiet):
        runs = [compact(request(lake, **asked)).version for _ in range(4)]
        assert runs[-1] == ""  # files of this size are a third of footers, and become smaller together
        assert left(lake) == []
    assert counted(plain_rows(table_of(busy))) == counted(plain_rows(table_of(quiet)))
    files = [len(live_files(table_of(lake))) for lake in (busy, quiet)]
    assert files[0] <= 1.25 * files[1] + 1, files


@pytest.mark.slow
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_partitions_that_others_do_not_change_are_committed(tmp_path: Path, write: str) -> None:
    lake, stop = Lake(tmp_path), tmp_path / "stop"
    for part in range(4):
        lake.sink(lake.spec(name=f"r_{part}", partition=["band"]), band_rows("r", 25 * part, 25, 0))
    process = forked.start(upsert_until, str(lake.root), str(stop), write)
    refused = 0
    for turn in range(10):
        for part in range(3):
            first = 1000 + 100 * turn + 10 * part
            lake.sink(lake.spec(name=f"g_{first}", partition=["band"]), band_rows("g", first, 10, turn))
        report = compact(request(lake, max_commits=1 + turn % 2))
        refused += report.groups_refused
        assert Counter(file.partition[0] for file in live_files(table_of(lake)))["g"] == 1
    value = stopped(process, stop)
    assert refused > 0
    assert value > 3
    compact(request(lake))
    assert Counter(file.partition[0] for file in live_files(table_of(lake))) == {"g": 1, "r": 1}
    found = table_of(lake).scan().to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [*range(100), *sorted(n for n in range(1000, 2000) if n % 100 < 30)]
    newest = {n: last(n, value) for n in range(100)}
    assert found["value"].to_pylist()[:100] == [newest[n] for n in range(100)]
    assert left(lake) == []


def appended_after(lake: Lake, number: int) -> int:
    """Wait for 3 more snapshots that append, and return how many there are."""
    found: list[Snapshot] = []

    def more() -> bool:
        every = table_of(lake).snapshots()
        found[:] = [one for one in every if one.summary and one.summary.operation is Operation.APPEND]
        return len(found) >= number + 3

    until(more, seconds=120, what="three nights more", pause=0.1)
    return len(found)


def left(lake: Lake) -> list[str]:
    """Files that nothing names, but for metadata that dropped off the table's log."""
    return [path for path in orphans(table_of(lake)) if not path.endswith(".metadata.json")]


def last(number: int, value: int) -> int:
    """The newest value that brought a row of band r: each brings 98 to 100 rows."""
    return next(each for each in range(value, -1, -1) if number < 100 - each % 3)
