"""Rows that are not counted before they are written: they lie as those of an exchange."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.sink import rolling_files, streamed_files, write_files
from hipslake.steps.sink.rolling_files import RollingFiles, Sampled
from hipslake.steps.sink.streamed_files import StreamedFiles
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.delta.delta_lake import DeltaLake
from tests.tables.sinking import Exchanging, Lake
from tests.tables.streamed_rows import parts_of, rows_of, same, sunk

pytestmark = pytest.mark.usefixtures("many_sources")


@pytest.mark.parametrize("kind", [Lake, DeltaLake])
@given(
    count=st.integers(1, 1500),
    values=st.integers(1, 12),
    parts=st.integers(1, 7),
    held=st.sampled_from([1 << 10, 1 << 15, 1 << 18, 1 << 30]),
    ahead=st.sampled_from([1, 1 << 16, 1 << 30]),
    threads=st.integers(1, 4),
    size=st.sampled_from(["2 KiB", "16 KiB", "1 MiB"]),
    partition=st.sampled_from([["value"], ["value", "month(day)"], ["text"], []]),
    in_order=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_rows_that_are_not_counted_before_lie_as_those_of_an_exchange(
    kind: type[Lake],
    count: int,
    values: int,
    parts: int,
    held: int,
    ahead: int,
    threads: int,
    size: str,
    partition: list[str],
    in_order: bool,
    seed: int,
) -> None:
    """Of each partition the same rows in the same order, in as many files, of which the same is told."""
    if kind is DeltaLake:
        partition = [name for name in partition if "(" not in name]
    rows = rows_of(count, values, seed)
    if in_order:
        rows = rows.sort_by("value")
    given_parts = parts_of(rows, parts)
    more = {"partition": partition, "target_file_size": size}
    rolled: list[int] = []
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(StreamedFiles.__init__, "__defaults__", (held,))
        patched.setattr(streamed_files, "_AHEAD_BYTES", ahead)
        patched.setattr(rolling_files, "MOST_FILES", 50)
        patched.setattr(Sampled, "is_mixed", True)
        plan = RollingFiles.plan
        patched.setattr(RollingFiles, "plan", lambda files: rolled.append(1) or plan(files))
        streamed = sunk(Path(folder, "streamed"), kind, ThisProcess(threads), more, *given_parts)
        exchanged = sunk(Path(folder, "exchanged"), kind, Exchanging(2), more, *given_parts)
    assert bool(rolled) == (len(set(_partitions(rows, partition))) <= 50)
    by_value, expected = _by_partition(streamed, kind), _by_partition(exchanged, kind)
    assert by_value.keys() == expected.keys()
    for key, files in expected.items():
        assert same(
            pa.concat_tables(each for each, _ in by_value[key]), pa.concat_tables(r for r, _ in files)
        )
        if rolled and "month" not in str(partition):  # of a month alone, tasks may write files apart
            largest = max(each.num_rows for each, _ in by_value[key])
            assert len(by_value[key]) == -(-sum(r.num_rows for r, _ in files) // largest)
        if len(by_value[key]) == len(files) == 1:
            assert by_value[key][0][1] == files[0][1]


def _partitions(rows: pa.Table, partition: list[str]) -> list[tuple[Any, ...]]:
    columns = []
    for name in partition:
        if name == "month(day)":
            columns.append([day.strftime("%Y-%m") for day in rows["day"].to_pylist()])
        else:
            columns.append(rows[name].to_pylist())
    return [*zip(*columns, strict=True)] if columns else [()]


def _by_partition(
    files: dict[str, tuple[pa.Table, Any]], kind: type[Lake]
) -> dict[str, list[tuple[pa.Table, Any]]]:
    """By the text of the partition, the files of it in the order of their names."""
    found: dict[str, list[tuple[pa.Table, Any]]] = {}
    for name in sorted(files):
        rows, told = files[name]
        partition = (
            told.split(", {")[-1] if kind is DeltaLake else told.split("'partition': ")[1].split("}")[0]
        )
        found.setdefault(partition, []).append((rows, told))
    return found


def test_more_partitions_than_files_may_be_open_are_counted_and_leave_no_other_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come so late that files of others are complete by then."""
    monkeypatch.setattr(rolling_files, "MOST_FILES", 20)
    value = np.where(np.arange(40_000) < 30_000, 0, np.arange(40_000) // 100)
    rows = pa.table({"id": np.arange(40_000), "value": value})
    spec = lake.spec(partition=["value"], target_file_size="8 KiB")
    lake.sink(spec, *parts_of(rows, 40))
    assert lake.rows(spec).sort_by("id")["id"].to_pylist() == list(range(40_000))
    there = {path.name for path in Path(lake.warehouse, "tables").rglob("*.parquet")}
    assert there == {path.rpartition("/")[2] for path in map(str, lake.live(spec))}


def test_rows_in_an_order_of_their_partitions_are_counted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rolled: list[Any] = []
    monkeypatch.setattr(write_files, "RollingFiles", lambda *given: rolled.append(given))
    rows = pa.table({"id": np.arange(4000), "value": np.arange(4000) // 500})
    spec = lake.spec(partition=["value"])
    lake.sink(spec, *parts_of(rows, 8))
    assert not rolled
    assert lake.rows(spec)["id"].to_pylist() == list(range(4000))
