"""Files that are written as their rows come are those of an exchange, row by row."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import InputError, NoSpaceError, VerificationError
from hipslake.steps.sink import streamed_files, write_files
from hipslake.steps.sink.rolling_files import RollingFiles
from hipslake.steps.sink.sink_table import sink
from hipslake.steps.sink.streamed_files import StreamedFiles
from hipslake.steps.sink.tasks import WriteRowsTask
from hipslake.tables.iceberg.file_writer import OpenFile
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.delta.delta_lake import DeltaLake
from tests.tables.sinking import Exchanging, Lake
from tests.tables.streamed_rows import parts_of, rows_of, same, sunk

pytestmark = pytest.mark.usefixtures("many_sources")

MORE: dict[str, Any] = {"partition": ["value"], "target_file_size": "4 KiB"}


@pytest.fixture
def counted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted before they are written, also where they need not be."""
    monkeypatch.setattr(write_files, "may_roll", lambda tried: False)


@pytest.mark.parametrize("kind", [Lake, DeltaLake])
@given(
    count=st.integers(1, 4000),
    values=st.integers(1, 12),
    parts=st.integers(1, 7),
    held=st.sampled_from([1 << 10, 1 << 15, 1 << 18, 1 << 30]),
    ahead=st.sampled_from([1, 1 << 16, 1 << 30]),
    threads=st.integers(1, 4),
    size=st.sampled_from(["2 KiB", "16 KiB", "1 MiB"]),
    seed=st.integers(0, 1000),
)
def test_files_are_those_of_an_exchange(
    kind: type[Lake],
    count: int,
    values: int,
    parts: int,
    held: int,
    ahead: int,
    threads: int,
    size: str,
    seed: int,
) -> None:
    given_parts = parts_of(rows_of(count, values, seed), parts)
    more = {"partition": ["value"], "target_file_size": size}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(write_files, "may_roll", lambda tried: False)
        patched.setattr(StreamedFiles.__init__, "__defaults__", (held,))
        patched.setattr(streamed_files, "_AHEAD_BYTES", ahead)
        streamed = sunk(Path(folder, "streamed"), kind, ThisProcess(threads), more, *given_parts)
        exchanged = sunk(Path(folder, "exchanged"), kind, Exchanging(2), more, *given_parts)
    assert streamed.keys() == exchanged.keys()
    for name, (rows, told) in exchanged.items():
        assert streamed[name][1] == told
        assert streamed[name][0].equals(rows.cast(streamed[name][0].schema)) or same(streamed[name][0], rows)


def test_rows_are_written_before_all_have_come(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamedFiles.__init__, "__defaults__", (1 << 16,))
    monkeypatch.setattr(streamed_files, "_AHEAD_BYTES", 1 << 12)
    spec = lake.spec(partition=["value"])
    lake.sink(spec, *parts_of(rows_of(60_000, 3, 1), 12))
    groups = [pq.read_metadata(path).num_row_groups for path in lake.live(spec)]
    assert max(groups) > 3
    assert lake.rows(spec)["id"].to_pylist() == list(range(60_000))


def test_a_few_rows_of_a_value_wait_for_others(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small partition, rows are not written a few at a time."""
    monkeypatch.setattr(StreamedFiles.__init__, "__defaults__", (1 << 17,))
    spec = lake.spec(partition=["value"])
    value = np.where(np.arange(100_000) % 1000 == 0, 1, 0)
    rows = pa.table({"id": np.arange(100_000), "value": value})
    lake.sink(spec, *parts_of(rows, 20))
    groups = {
        pq.read_metadata(path).num_rows: pq.read_metadata(path).num_row_groups for path in lake.live(spec)
    }
    assert groups[100] == 1
    assert groups[99_900] > 3


@pytest.mark.usefixtures("counted_first")
@pytest.mark.parametrize(("values", "groups"), [(256, "as they come"), (257, "exchanged")])
def test_no_more_files_are_open_at_once_than_groups_of_rows_are_worth_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, values: int, groups: str
) -> None:
    exchanges: list[str] = []
    exchange = ThisProcess.exchange

    def noted(engine: ThisProcess, **given: Any) -> pa.Table:
        exchanges.append("exchanged")
        return exchange(engine, **given)

    monkeypatch.setattr(ThisProcess, "exchange", noted)
    spec = lake.spec(partition=["value", "bucket[1](id)"])
    lake.sink(spec, pa.table({"id": np.arange(600), "value": np.arange(600) % values}))
    assert (exchanges or ["as they come"]) == [groups]
    assert lake.rows(spec)["id"].to_pylist() == list(range(600))


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_rows_do_not_heap_up_before_a_file_that_is_written_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """Nor where a source is late: those behind it are read ahead, and are filed all at once after it."""
    held, heaps = 1 << 15, []
    queue, write, stream = StreamedFiles._queue, OpenFile.write, StreamedFiles._stream

    def noted(streams: StreamedFiles, file: Any) -> None:
        queue(streams, file)
        heaps.append(streams._queued)

    def slowly(file: OpenFile, rows: pa.Table) -> None:
        time.sleep(0.1)
        write(file, rows)

    def lately(streams: StreamedFiles, number: int) -> None:
        time.sleep(late if number % 25 == 0 else 0)
        stream(streams, number)

    monkeypatch.setattr(StreamedFiles, "_stream", lately)
    monkeypatch.setattr(StreamedFiles.__init__, "__defaults__", (held,))
    monkeypatch.setattr(StreamedFiles, "_queue", noted)
    monkeypatch.setattr(OpenFile, "write", slowly)
    lake = Lake(tmp_path, ThisProcess(4))
    spec = lake.spec(partition=["bucket[1](id)"], target_file_size="1 GiB")
    rows = pa.table({"id": np.arange(100_000)})
    lake.sink(spec, *parts_of(rows, 100))
    assert lake.rows(spec)["id"].to_pylist() == list(range(100_000))
    assert len(heaps) > 10
    assert max(heaps) < 3.5 * held


@pytest.mark.usefixtures("counted_first")
def test_a_source_that_grows_in_mid_run_is_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_source(lake, monkeypatch, rows_of(3000, 3, 2))


@pytest.mark.usefixtures("counted_first")
@pytest.mark.parametrize("held", [1, 1 << 30])
def test_a_source_that_shrinks_in_mid_run_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(StreamedFiles.__init__, "__defaults__", (held,))
    changed_source(lake, monkeypatch, rows_of(1000, 3, 2))


def changed_source(lake: Lake, monkeypatch: pytest.MonkeyPatch, other: pa.Table) -> None:
    spec = lake.spec(**MORE)
    uri = lake.land(rows_of(2000, 3, 1))
    order = lake.order(spec, uri=uri)
    real = WriteRowsTask.filed

    def filed(task: WriteRowsTask, number: int) -> Any:
        monkeypatch.setattr(WriteRowsTask, "filed", real)
        plain = WriteRowsTask.valued

        def valued(task: WriteRowsTask, number: int, names: Any) -> Any:
            batches = list(plain(task, number, names))
            if other.num_rows > 2000:
                batches += batches[:1]
            return iter(
                [(batch.slice(0, other.num_rows), value[: other.num_rows]) for batch, value in batches]
            )

        monkeypatch.setattr(WriteRowsTask, "valued", valued)
        return real(task, number)

    monkeypatch.setattr(WriteRowsTask, "filed", filed)
    with pytest.raises(VerificationError, match="change in mid-run"):
        sink(order, lake.engine, stale_after=3600)
    monkeypatch.undo()
    assert lake.files(spec) == [] or lake.live(spec) == []
    lake.sink(spec, uri=uri)
    assert lake.rows(spec).num_rows == 2000


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failing_source_ends_all_threads_and_leaves_no_file_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    lake = Lake(tmp_path, ThisProcess(threads))
    spec = lake.spec(**MORE)
    real = RollingFiles.routed

    def routed(files: RollingFiles, number: int) -> Any:
        yield from real(files, number)
        if number == 3:
            raise InputError("this source cannot be read")

    monkeypatch.setattr(RollingFiles, "routed", routed)
    monkeypatch.setattr(StreamedFiles.__init__, "__defaults__", (1 << 10,))
    before = {*threading.enumerate()}  # some of other tests' may end meanwhile
    with pytest.raises(InputError, match="cannot be read"):
        lake.sink(spec, *parts_of(rows_of(9000, 4, 1), 9))
    assert {*threading.enumerate()} <= before
    folder = Path(lake.warehouse, "tables")
    assert [path for path in folder.rglob("*") if path.is_file() and path.name.endswith(".tmp")] == []
    assert lake.table(spec).current_snapshot() is None


def test_a_full_disk_ends_all_threads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: OpenFile, rows: pa.Table) -> None:
        raise NoSpaceError("no space is left")

    spec = lake.spec(**MORE)
    lake.sink(spec, rows_of(100, 2, 1))
    before = lake.rows(spec)
    monkeypatch.setattr(OpenFile, "write", write)
    with pytest.raises(NoSpaceError):
        lake.sink(lake.spec(**MORE, name="other"), *parts_of(rows_of(9000, 4, 1), 9))
    monkeypatch.undo()
    assert same(lake.rows(spec), before)


def test_work_that_is_not_wanted_any_more_ends(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(ThisProcess):
        def check_running(self) -> None:
            raise ConnectionRefusedError("the session is gone")

    lake.engine = Gone(2)
    spec = lake.spec(**MORE)
    with pytest.raises(ConnectionRefusedError):
        lake.sink(spec, *parts_of(rows_of(9000, 4, 1), 9))
    assert lake.table(spec).current_snapshot() is None
