"""Compressed files as streams: read and sought in any order, they give the bytes that were compressed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.sources.compression import decompressed
from hipslake.sources.source_file import SourceFile
from hypothesis import given
from hypothesis import strategies as st

CONTENT = np.random.default_rng(5).integers(0, 4, 700_000, np.uint8).tobytes()
MOVES = st.lists(
    st.tuples(st.sampled_from(["from the start", "onwards", "read"]), st.integers(0, len(CONTENT) + 1000)),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module", params=[".csv", ".csv.gz", ".csv.zst"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SourceFile:
    path = tmp_path_factory.mktemp("compressed") / f"data{request.param}"
    with pa.output_stream(str(path), compression="detect") as sink:
        sink.write(CONTENT)
    assert (path.stat().st_size == len(CONTENT)) == (request.param == ".csv")
    return source_file(path)


def source_file(path: Path) -> SourceFile:
    return SourceFile(ordinal=0, uri=str(path), size=path.stat().st_size, stamp="")


@given(moves=MOVES)
def test_a_stream_is_read_and_sought_as_its_content_in_memory(
    file: SourceFile, moves: list[tuple[str, int]]
) -> None:
    plain = io.BytesIO(CONTENT)
    with decompressed(file, "auto") as stream:
        for move, number in moves:
            if move == "read":
                assert stream.read(number) == plain.read(number)
                continue
            # Beyond its end a file has no bytes, and where a stream then stands is its own affair.
            target = min(number + (plain.tell() if move == "onwards" else 0), len(CONTENT))
            step = target - plain.tell()
            stream.seek(*((step, io.SEEK_CUR) if move == "onwards" else (target, io.SEEK_SET)))
            assert stream.tell() == plain.seek(target)
        stream.seek(0)
        assert stream.read() == CONTENT


def test_from_the_end_of_a_compressed_file_nothing_is_sought(tmp_path: Path) -> None:
    path = tmp_path / "data.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(CONTENT)
    with (
        decompressed(source_file(path), "auto") as stream,
        pytest.raises(io.UnsupportedOperation, match="end"),
    ):
        stream.seek(-10, io.SEEK_END)
