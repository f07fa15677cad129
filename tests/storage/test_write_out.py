"""What the kernel tells and is told of files that are not on disk yet."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.storage.write_out import bytes_kept_unwritten, start_write_out, write_out


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
