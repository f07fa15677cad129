"""Rewrites of Delta tables: sizes of files, sort orders, bounds, several commits, and orphans."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import SpecError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.table_spec import DEFAULT_FILE_SIZE
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.delta.delta_compaction import DeltaRewrite
from hipslake.tables.opening import open_table
from hipslake.tables.protocol import TableVacuumOutcome
from pydantic import ValidationError

from tests.tables.compaction.compacting import before_commit, compact, stars
from tests.tables.compaction.compacting import request as request_in
from tests.tables.delta.delta_lake import DeltaLake, plain_delta_rows, plain_log
from tests.tables.plain_reader import counted
from tests.tables.test_sink_modes import interval

NAME = "survey.sample"


def request(delta: DeltaLake, **given: Any) -> Any:
    return request_in(delta.root, table=NAME, format="delta", **given)


def location(delta: DeltaLake) -> Path:
    return delta.location(delta.spec())


def content(delta: DeltaLake) -> Any:
    return counted(plain_delta_rows(location(delta)))


def sizes(delta: DeltaLake) -> list[int]:
    return sorted(told["size"] for told in plain_log(location(delta)).values())


@pytest.fixture
def lake(delta: DeltaLake) -> DeltaLake:
    """A table of 6 files."""
    for night in range(6):
        delta.sink(delta.spec(), stars(500, seed=night), **interval(night + 1))
    return delta


@pytest.fixture
def by_band(delta: DeltaLake) -> DeltaLake:
    """A table of two partitions, of 4 files each."""
    for night in range(4):
        rows = stars(400, seed=night)
        rows = rows.append_column("band", [["g" if n % 3 else "r" for n in range(400)]])
        delta.sink(delta.spec(partition=["band"]), rows, **interval(night + 1))
    return delta


def bands(delta: DeltaLake) -> Counter[str]:
    return Counter(told["partitionValues"]["band"] for told in plain_log(location(delta)).values())


def test_files_are_packed_and_cut_to_the_size_that_the_table_asks_for(delta: DeltaLake) -> None:
    spec = delta.spec(properties={"delta.targetFileSize": "30kb"})
    for night in range(6):
        delta.sink(spec, stars(500, seed=night), **interval(night + 1))
    before = content(delta)
    report = compact(request(delta, target_file_size=None))
    assert (report.target_bytes, report.removed.files) == (30 << 10, 6)
    assert report.added.files == report.expected_files > 1
    assert content(delta) == before
    assert compact(request(delta, target_file_size=None)).version == ""
    compact(request(delta, target_file_size="1 MiB"))
    [whole] = sizes(delta)
    cut = compact(request(delta, target_file_size=f"{whole // 4} B"))
    assert (cut.removed.files, cut.added.files) == (1, 4)
    assert all(0.2 * whole < each < 0.35 * whole for each in sizes(delta))
    assert content(delta) == before


@pytest.mark.parametrize(
    ("told", "size"), [("1000000", 10**6), ("104857600", 100 << 20), ("64mb", 64 << 20), ("2 G", 2 << 30)]
)
def test_sizes_of_files_are_read_as_other_engines_write_them(delta: DeltaLake, told: str, size: int) -> None:
    delta.sink(delta.spec(properties={"delta.targetFileSize": told}), stars(10))
    assert compact(request(delta, target_file_size=None, dry_run=True)).target_bytes == size


def test_sinks_write_files_of_the_size_that_the_table_asks_for(delta: DeltaLake) -> None:
    spec = delta.spec(properties={"delta.targetFileSize": "20kb"})
    assert delta.sink(spec, stars(3000)).files_added > 2
    assert max(sizes(delta)) < 30 << 10
    assert delta.sink(delta.spec(name="more", target_file_size="1 GiB"), stars(3000, seed=1)).files_added == 1


@pytest.mark.parametrize("told", ["large", "0", "-5", "1.5mb"])
def test_a_size_that_makes_no_sense_is_told(delta: DeltaLake, told: str) -> None:
    spec = delta.spec(properties={"delta.targetFileSize": told})
    delta.sink(spec.model_copy(update={"target_file_size": DEFAULT_FILE_SIZE}), stars(10))
    message = r"its property delta\.targetFileSize is '.*', no size of files"
    with pytest.raises(SpecError, match=message):
        compact(request(delta, target_file_size=None))
    with pytest.raises(SpecError, match=message):
        delta.sink(delta.spec(name="more"), stars(10, seed=1))
    assert compact(request(delta, dry_run=True)).target_bytes == 40 << 10  # the spec's


def test_sorted_files_follow_each_other(lake: DeltaLake) -> None:
    before = content(lake)
    by = {"mode": "sort", "sort": ["name desc", "ra"], "target_file_size": "20 KiB"}
    report = compact(request(lake, **by))
    assert report.added.files > 3
    assert content(lake) == before

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        name = row["name"]
        return name is None, [-ord(letter) for letter in (name or "")] + [1], row["ra"]

    found = []
    for path in sorted(plain_log(location(lake))):
        part = [key(row) for row in pq.ParquetFile(location(lake) / path).read().to_pylist()]
        assert part == sorted(part)
        found += part
    assert found == sorted(found)
    assert compact(request(lake, **by)).version == ""
    lake.sink(lake.spec(), stars(50, seed=9), **interval(9))
    assert compact(request(lake, **by)).removed.files == 1  # little beside much


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "sort"}, "sort: a Delta table has no sort order of its own"),
        ({"manifests": True}, "manifests: a Delta table has none"),
    ],
)
def test_what_a_delta_table_has_not_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CompactionSpec.model_validate(
            {"name": "a", "type": "compaction", "format": "delta", "table": NAME} | given
        )


def test_columns_that_are_clustered_by_have_bounds_wherever_they_stand(delta: DeltaLake) -> None:
    rows = stars(2000)
    for number in range(40):
        rows = rows.add_column(0, f"c{number}", pa.array([number] * 2000))
    delta.sink(delta.spec(), rows)
    compact(request(delta, mode="hilbert", columns=["ra", "dec"], target_file_size="20 KiB"))
    stats = [json.loads(told["stats"]) for told in plain_log(location(delta)).values()]
    assert len(stats) > 2
    assert all({"ra", "dec"} <= each["minValues"].keys() for each in stats)


@pytest.mark.parametrize("commits", [1, 2])
def test_a_conflict_in_one_group_discards_no_other(
    by_band: DeltaLake, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    lake = by_band
    upsert = lake.spec(name="upsert", mode="upsert", key="id", partition=["band"])
    first = next(row for row in plain_delta_rows(location(lake)) if row["band"] == "g")
    changed = pa.Table.from_pylist([first | {"ra": -1.0}])
    before_commit(monkeypatch, DeltaRewrite, lambda: lake.sink(upsert, changed))
    wanted = content(lake) - counted([first]) + counted([first | {"ra": -1.0}])
    report = compact(request(lake, max_commits=commits))
    assert (report.bins, report.groups_refused, report.removed.files) == (2, 1, 4)
    assert (report.commits, report.rows_in) == (1, report.rows_out)
    assert "1 groups are left as they were, since others have changed their files" in report.text
    assert content(lake) == wanted
    assert bands(lake)["r"] == report.added.files
    assert bands(lake)["g"] >= 4
    written = {path.name for path in location(lake).rglob("group-*.parquet")}
    assert written == {path.rpartition("/")[2] for path in plain_log(location(lake)) if "group-" in path}
    monkeypatch.undo()
    compact(request(lake))
    assert content(lake) == wanted


@pytest.mark.parametrize("by", [{}, {"mode": "zorder", "columns": ["ra"], "group_size": "30 KiB"}])
def test_no_more_is_rewritten_than_the_bound(lake: DeltaLake, by: dict[str, Any]) -> None:
    before, size = content(lake), max(sizes(lake))
    bound = int(2.6 * size)
    asked = by | {"target_file_size": f"{int(size * 0.7)} B", "max_rewrite_size": f"{bound} B"}
    for _ in range(20):
        report = compact(request(lake, **asked))
        if not report.version:
            break
        assert 0 < report.removed.total_bytes <= bound
        assert content(lake) == before
    else:
        raise AssertionError("it does not end")


@pytest.mark.parametrize("partitions", ["band = 'r'", "band >= 'h'"])
def test_partitions_are_chosen_by_their_values(by_band: DeltaLake, partitions: str) -> None:
    report = compact(request(by_band, partitions=partitions))
    assert (report.bins, report.removed.files) == (1, 4)
    assert bands(by_band)["g"] == 4


def vacuumed(delta: DeltaLake, *, dry_run: bool, days: float | None = 2.5) -> TableVacuumOutcome:
    spec = delta.spec()
    table = open_table(spec.place, delta.warehouse, spec.table)
    keep = Retention(keep_versions=100, keep_days=100)
    return table.vacuum(keep, now=datetime.now(UTC), dry_run=dry_run, orphan_days=days)


def test_files_that_no_version_has_named_go_once_they_are_old(by_band: DeltaLake) -> None:
    place = location(by_band)
    before = content(by_band)
    live = sorted(place / path for path in plain_log(place))
    left = [
        place / "band=g" / "part-0.parquet",
        place / "data" / live[0].relative_to(place).parts[1] / "band=g" / "task-again.parquet",
        place / "part-of-one-who-writes.parquet",
        place / "_change_data" / "cdc.parquet",
        place / "_delta_log" / "stray.checkpoint.parquet",
        place / "deletion_vector_1.bin",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
    old = time.time() - 3 * 86_400
    for path in (*left[:2], *left[3:], *live):
        os.utime(path, (old, old))
    assert vacuumed(by_band, dry_run=False, days=None).orphans == ()
    for dry_run in (True, False):
        outcome = vacuumed(by_band, dry_run=dry_run)
        assert sorted(outcome.orphans) == sorted(map(str, left[:2]))
        assert outcome.orphan_bytes == 8
        assert all(path.is_file() for path in left) is dry_run
    assert all(path.is_file() for path in (*left[2:], *live))
    assert content(by_band) == before


def test_what_a_write_that_goes_on_has_written_is_no_orphan(by_band: DeltaLake) -> None:
    spec = by_band.spec(partition=["band"])
    table = open_table(spec.place, by_band.warehouse, spec.table)
    with table.existing().writing() as write:
        rows = stars(5).append_column("band", [["g"] * 5])
        file = write.writer(()).write_file(rows, ("g",), "0000")
        old = time.time() - 9 * 86_400
        os.utime(file.path, (old, old))
        assert vacuumed(by_band, dry_run=False, days=1).orphans == ()
        assert Path(file.path).is_file()
