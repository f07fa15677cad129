"""Large compressed files are read by many tasks: each gives its lines, and all together give the file."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from astropy.table import Table
from hipslake.errors import CorruptFileError
from hipslake.sources import Source, SourceFile, Split, seek_points
from hipslake.sources.csv import text_blocks
from hipslake.sources.priming import primed
from hipslake.sources.unpacking import GzipContent
from hipslake.steps.ingest.split_list import SplitList

from tests.sources.reading import csv_source, read, source

pytestmark = pytest.mark.sampled(2)

indexed_gzip = pytest.importorskip("indexed_gzip")

TARGET = 64 << 10
ROWS = 20_000


@pytest.fixture(autouse=True)
def _small_files_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "DIVIDED_BYTES", 1 << 10)


@pytest.fixture(params=["rapidgzip", "indexed_gzip"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What finds points: of a file of one member rapidgzip, if it is installed."""
    if request.param == "rapidgzip":
        pytest.importorskip("rapidgzip")
    else:
        monkeypatch.setitem(sys.modules, "rapidgzip", None)
    return str(request.param)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "ra": rng.uniform(0, 360, ROWS),
            "dec": rng.uniform(-90, 90, ROWS),
            "text": [f"star {'x' * (number % 97)}" for number in range(ROWS)],
        }
    )


def text_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


def gzip_members(text: bytes, members: int = 5) -> bytes:
    step = len(text) // members + 1
    return b"".join(gzip.compress(text[at : at + step]) for at in range(0, len(text), step))


def zstd_frames(text: bytes, frames: int = 9) -> bytes:
    step = len(text) // frames + 1
    return b"".join(
        pa.compress(text[at : at + step], codec="zstd", asbytes=True) for at in range(0, len(text), step)
    )


def stored_blocks(text: bytes) -> bytes:
    return gzip.compress(text, 0)


def only_fixed_codes(text: bytes) -> bytes:
    packing = zlib.compressobj(6, zlib.DEFLATED, 31, 9, zlib.Z_FIXED)
    return packing.compress(text) + packing.flush()


def flushed(text: bytes) -> bytes:
    packing = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [
        packing.compress(text[at : at + 5000]) + packing.flush(zlib.Z_SYNC_FLUSH)
        for at in range(0, len(text), 5000)
    ]
    return b"".join(parts) + packing.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gz", gzip.compress),
    "gzip, quick": ("gz", lambda text: gzip.compress(text, 1)),
    "gzip members": ("gz", gzip_members),
    "very many gzip members": ("gz", lambda text: gzip_members(text, 200)),
    "gzip with zeros behind it": ("gz", lambda text: gzip.compress(text) + bytes(700)),
    "stored": ("gz", stored_blocks),
    "fixed codes": ("gz", only_fixed_codes),
    "flushed": ("gz", flushed),
    "zstd frames": ("zst", zstd_frames),
}


def parts_of(found: Source, target: int = TARGET) -> list[Split]:
    return found.splits(found.list_files(), target)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PACKED)
def test_parts_of_a_compressed_file_have_its_rows(
    tmp_path: Path, table: pa.Table, name: str, scanner: str
) -> None:
    ending, pack = PACKED[name]
    (tmp_path / f"a.csv.{ending}").write_bytes(pack(text_of(table)))
    found = csv_source(tmp_path)
    splits = parts_of(found)
    assert len(splits) >= 4
    assert [split.ordinal for split in splits] == list(range(len(splits)))
    assert read(found, TARGET).equals(table)
    schema = found.unify([(split.file.uri, found.infer(split)) for split in splits])
    rows = [sum(batch.num_rows for batch in found.read(split, schema)) for split in splits]
    assert sum(rows) == ROWS
    assert max(rows) < ROWS  # no part reads all of it


def test_only_a_whole_file_of_one_member_is_left_to_rapidgzip(
    tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rapidgzip")
    slower: list[str] = []
    index = seek_points._index_of_members

    def noted(raw: BinaryIO, file: SourceFile, spacing: int) -> bytes | None:
        slower.append(file.uri.rpartition("/")[2])
        return index(raw, file, spacing)

    monkeypatch.setattr(seek_points, "_index_of_members", noted)
    text = text_of(table)
    whole = gzip.compress(text)
    contents = {
        "one": whole,
        "two": gzip_members(text, 2),
        "cut": whole[:-9],
        "broken": whole[:-8] + bytes(8),
    }
    for name, content in contents.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.csv.gz").write_bytes(content)
        parts_of(csv_source(tmp_path / name))
    assert slower == ["two.csv.gz", "cut.csv.gz", "broken.csv.gz"]


def test_points_travel_with_the_list_of_splits(tmp_path: Path, table: pa.Table) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text_of(table)))
    splits = parts_of(csv_source(tmp_path))
    assert splits[0].point is None
    assert all(split.point is not None for split in splits[1:])
    assert list(SplitList.of(splits).between(0, len(splits))) == splits


@pytest.mark.parametrize("length", range(30, 60))
def test_a_line_at_a_point_is_read_once(tmp_path: Path, length: int) -> None:
    """Lines of each length, so that points fall on every place in them, also between two."""
    lines = [f"{number:0{length - 1}d}\n" for number in range(9 * TARGET // length)]
    (tmp_path / "a.csv.zst").write_bytes(zstd_frames("".join(["n\n", *lines]).encode(), 8))
    found = csv_source(tmp_path, types={"n": "string"})
    assert len(parts_of(found)) >= 4
    assert [f"{text}\n" for text in read(found, TARGET)["n"].to_pylist()] == lines


def test_ecsv_is_divided_too(tmp_path: Path, table: pa.Table) -> None:
    Table({name: table[name].to_numpy() for name in ("id", "ra", "dec")}).write(
        tmp_path / "a.ecsv", format="ascii.ecsv"
    )
    text = (tmp_path / "a.ecsv").read_bytes()
    (tmp_path / "a.ecsv").unlink()
    (tmp_path / "a.ecsv.gz").write_bytes(gzip.compress(text))
    found = source("ecsv", f"{tmp_path}/*")
    assert len(parts_of(found)) >= 4
    assert read(found, TARGET).equals(table.select(["id", "ra", "dec"]))


@pytest.mark.parametrize(
    ("pack", "options"),
    [
        (gzip.compress, {"newlines_in_values": True}),
        (lambda text: gzip.compress(text[:50_000]), {}),
        (lambda text: pa.compress(text, codec="zstd", asbytes=True), {}),
    ],
    ids=["line ends in values", "small", "one frame"],
)
def test_what_cannot_be_divided_is_one_split(
    tmp_path: Path, table: pa.Table, pack: Callable[[bytes], bytes], options: dict[str, object]
) -> None:
    content = pack(text_of(table))
    (tmp_path / ("a.csv.gz" if content[:2] == b"\x1f\x8b" else "a.csv.zst")).write_bytes(content)
    assert len(parts_of(csv_source(tmp_path, **options))) == 1


def test_among_very_many_files_none_is_divided(tmp_path: Path, table: pa.Table) -> None:
    content = gzip.compress(text_of(table))
    for number in range(20):
        (tmp_path / f"{number}.csv.gz").write_bytes(content)
    assert len(parts_of(csv_source(tmp_path))) == 20


def damaged(content: bytes, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    for size in rng.integers(200, len(content) - 1, 12).tolist():
        yield content[:size]
    for _ in range(12):
        broken = bytearray(content)
        broken[int(rng.integers(10, len(content)))] ^= 1 << int(rng.integers(0, 8))
        yield bytes(broken)
    yield content + b"what does not belong here"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["gzip", "gzip members", "zstd frames"])
def test_damage_is_told_as_in_a_file_that_one_task_reads(
    tmp_path: Path, table: pa.Table, name: str, scanner: str
) -> None:
    ending, pack = PACKED[name]
    content = pack(text_of(table))
    path = tmp_path / f"a.csv.{ending}"
    told = 0
    for broken in damaged(content, 3):
        path.write_bytes(broken)
        try:
            rows = read(csv_source(tmp_path, types={"text": "string", "id": "string"}), TARGET)
        except CorruptFileError as error:
            told += str(path) in str(error)
        else:  # a bit that says nothing of the content: a time, a reserved flag
            assert rows.num_rows == ROWS
    assert told >= 20


@pytest.mark.parametrize("bits", range(1, 8))
def test_blocks_without_content_fill_a_byte_up_to_any_bit(bits: int) -> None:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    stream = packing.compress(b"a text, a text, and again a text") + packing.flush()
    number = int.from_bytes(stream, "little") << bits | (1 << bits) - 1  # what stands before is not looked at
    shifted = number.to_bytes(len(stream) + 1, "little")
    inflating = zlib.decompressobj(-15)
    assert inflating.decompress(primed(shifted[0], bits) + shifted[1:]) == zlib.decompress(stream, -15)
    assert inflating.eof


def test_content_can_be_sought_in_any_order(tmp_path: Path, table: pa.Table, scanner: str) -> None:
    text = text_of(table)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(text))
    for split in parts_of(csv_source(tmp_path))[1::3]:
        with GzipContent(lambda: path.open("rb"), split.point) as content:
            for at in (0, len(text) - 9, 5, split.start, split.start - 1, 77, len(text) // 2):
                assert content.seek(at) == at
                assert content.read(9) == text[at : at + 9][: len(text) - at]
            content.seek(0)
            assert content.readall() == text
