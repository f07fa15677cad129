"""What the kernel tells and is told of files that are not on disk yet."""

from __future__ import annotations

import errno
import io
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import NoSpaceError
from hipslake.storage.folder import Storage
from hipslake.storage.write_out import (
    ScratchFile,
    bytes_kept_unwritten,
    native_output,
    start_write_out,
    write_in_pieces,
    write_out,
)


def test_the_kernel_says_how_much_it_keeps() -> None:
    assert 0 < bytes_kept_unwritten() < math.inf


@pytest.mark.parametrize(
    ("fixed", "ratio", "expected"), [("1000000", "0", 1_000_000), ("0", "10", 0.1 * 1024 * 2_000_000)]
)
def test_a_limit_may_be_fixed_or_a_share_of_memory(
    tmp_path: Path, fixed: str, ratio: str, expected: float
) -> None:
    (tmp_path / "dirty_background_bytes").write_text(f"{fixed}\n")
    (tmp_path / "dirty_background_ratio").write_text(f"{ratio}\n")
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal:        9000000 kB\nMemAvailable:    2000000 kB\n")
    assert bytes_kept_unwritten(tmp_path, memory) == pytest.approx(expected)


def test_where_the_kernel_says_nothing_there_is_no_limit(tmp_path: Path) -> None:
    assert bytes_kept_unwritten(tmp_path / "gone", tmp_path / "gone") == math.inf


def test_a_file_is_whole_after_it_was_sent_on_its_way(tmp_path: Path) -> None:
    path = tmp_path / "block"
    with path.open("wb", buffering=0) as file:
        file.write(b"x" * 100_000)
        start_write_out(file.fileno())
        file.write(b"y")
    assert path.read_bytes() == b"x" * 100_000 + b"y"


def test_a_buffered_file_is_flushed(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with path.open("wb") as file:
        file.write(b"x" * 100)
        assert path.stat().st_size == 0
        write_out(file)
        assert path.stat().st_size == 100


@pytest.mark.parametrize("file", [io.BytesIO, pa.BufferOutputStream])
def test_a_file_in_memory_has_nothing_to_write_out(file: type[io.BytesIO]) -> None:
    opened = file()
    opened.write(b"x" * 100)
    write_out(opened)
    assert bytes(opened.getvalue()) == b"x" * 100


ROWS = pa.table({"id": range(100_000)})


@pytest.mark.parametrize("root", ["{folder}", "memory://native"])
def test_what_arrow_writes_is_what_a_folder_or_a_store_then_holds(tmp_path: Path, root: str) -> None:
    storage = Storage.at(root.format(folder=tmp_path))
    with storage.open("a/rows.parquet", "wb") as file, native_output(file) as output:
        assert isinstance(output, pa.OSFile)  # for a store, it is a file as well until it is whole
        pq.write_table(ROWS, output)
        write_out(output)
        size = output.tell()
    assert size == storage.entry("a/rows.parquet").size
    assert pq.read_table(pa.BufferReader(storage.read("a/rows.parquet"))).equals(ROWS)


def test_what_is_no_file_is_written_by_python() -> None:
    file = io.BytesIO()
    with native_output(file) as output:
        assert output is file


@pytest.mark.parametrize("error", [KeyError("ours"), OSError(28, "No space left on device")])
def test_a_file_that_arrow_has_not_finished_is_not_there(tmp_path: Path, error: Exception) -> None:
    storage = Storage.at(str(tmp_path))

    def fail() -> None:
        with storage.open("rows.parquet", "wb") as file, native_output(file) as output:
            pq.write_table(ROWS, output)
            raise error

    with pytest.raises(NoSpaceError if isinstance(error, OSError) else KeyError):
        fail()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_told_by_its_number() -> None:
    with (
        Path("/dev/full").open("wb") as file,
        pytest.raises(OSError, match="No space left") as raised,
        native_output(file) as output,
    ):
        pq.write_table(ROWS, output)
    assert raised.value.errno == errno.ENOSPC


@pytest.mark.parametrize("write_out", [False, True])
def test_a_scratch_file_has_what_was_written(tmp_path: Path, *, write_out: bool) -> None:
    whole, path = b"", tmp_path / "rows"
    with ScratchFile(path, write_out=write_out) as file:
        for size in (0, 1, 65_536, 65_537, 5 << 20):
            part = bytes([size % 251]) * size
            assert file.write(pa.py_buffer(part)) == size
            whole += part
            assert file.tell() == len(whole)
        assert not file.closed
    assert file.closed
    assert path.read_bytes() == whole


def test_a_scratch_file_takes_the_place_of_none(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"there")
    with pytest.raises(FileExistsError):
        ScratchFile(tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == b"there"


def test_arrow_writes_a_stream_into_a_scratch_file(tmp_path: Path) -> None:
    batch = pa.record_batch({"a": range(50_000), "t": [f"t{n % 7}" for n in range(50_000)]})
    file = ScratchFile(tmp_path / "rows")
    with file, pa.ipc.new_stream(pa.PythonFile(file, mode="w"), batch.schema) as stream:
        stream.write_batch(batch)
        stream.write_batch(batch.slice(7, 100))
    with pa.memory_map(str(tmp_path / "rows")) as mapped, pa.ipc.open_stream(mapped) as stream:
        assert list(stream) == [batch, batch.slice(7, 100)]


def test_a_write_that_takes_only_a_part_goes_on(tmp_path: Path) -> None:
    """As POSIX allows."""

    class Slow(io.BytesIO):
        def write(self, content: object) -> int:
            return super().write(memoryview(content)[:1000])  # type: ignore[arg-type]

    slow, content = Slow(), bytes(range(256)) * 1000
    assert write_in_pieces(slow, content) == len(content)
    assert slow.getvalue() == content
