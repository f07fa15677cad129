"""Avro files that are damaged, or hostile: read as far as they go, or refused by an error of ours."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import (
    CorruptFileError,
    InputError,
    ReservedColumnError,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.avro_files import ALERT, alerts, avro, container_of, fastavro, long, record_of, write
from tests.sources.reading import read


def pieces(content: bytes) -> Iterator[bytes]:
    for size in range(1, len(content), max(1, len(content) // 60)):
        yield content[:size]


def test_a_truncated_file_is_told_wherever_it_ends(tmp_path: Path) -> None:
    """But between two blocks: there no file says that it is to go on."""
    write(tmp_path / "a.avro", ALERT, alerts(200))
    content = (tmp_path / "a.avro").read_bytes()
    with io.BytesIO(content) as file:
        ends = {block.offset for block in fastavro.block_reader(file)}
    cuts = [cut for cut in pieces(content) if len(cut) not in ends]
    assert len(cuts) > 50
    for cut in cuts:
        (tmp_path / "a.avro").write_bytes(cut)
        with pytest.raises(CorruptFileError, match=r"a\.avro"):
            read(avro(tmp_path), 5000)


BAD = {
    "a record too short": ([(2, long(1) + b"\x00" * 8)], "record 2 of 2 cannot be read"),
    "bytes left over": ([(1, long(1) + b"\x00" * 8 + b"rest")], "4 bytes are left over"),
    "more records than bytes": (
        [(1 << 40, long(1) + b"\x00" * 8)],
        "record 2 of 1099511627776 cannot be read",
    ),
    "fewer than none": ([(-1, long(1) + b"\x00" * 8)], "tells of -1 records"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_told_by_its_block_and_number(tmp_path: Path, name: str) -> None:
    blocks, said = BAD[name]
    good = (3, 3 * (long(7) + b"\x00" * 8))
    (tmp_path / "a.avro").write_bytes(container_of(record_of("double"), [good, *blocks]))
    with pytest.raises(CorruptFileError, match=said) as told:
        read(avro(tmp_path))
    assert f"{tmp_path}/a.avro" in str(told.value)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("string", long(1 << 60) + b"short"),
        ("string", long(2) + b"\xff\xfe"),
        ("bytes", long(-5)),
        ({"type": "array", "items": "int"}, long(1 << 50) + long(3)),
        ({"type": "array", "items": "int"}, long(-(1 << 50)) + long(3) + long(3)),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, long(9)),
        (["null", "int"], long(7)),
        ("long", b"\xff" * 20),
        ("int", long(1 << 40)),
    ],
    ids=str,
)
def test_a_value_that_is_none_is_told(tmp_path: Path, kind: Any, data: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(container_of(record_of(kind), [(1, long(1) + data)]))
    with pytest.raises(CorruptFileError, match=r"a\.avro"):
        read(avro(tmp_path))


def test_no_container_and_no_codec_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"\x00\x00\x00\x00\x01 an alert of a stream")
    with pytest.raises(CorruptFileError, match="no Avro object container file"):
        read(avro(tmp_path))
    (tmp_path / "a.avro").write_bytes(container_of(record_of("int"), [], b"brotli"))
    with pytest.raises(
        InputError, match="compressed by 'brotli', which is not read; there are null, deflate"
    ):
        read(avro(tmp_path))


def test_a_block_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    import zlib

    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 24)
    packed = b"".join(packing.compress(zeros) for _ in range(20)) + packing.flush()
    (tmp_path / "a.avro").write_bytes(container_of(record_of("int"), [(1, packed)], b"deflate"))
    with pytest.raises(InputError, match="unpacks to more than 256 MiB"):
        read(avro(tmp_path))


@given(damage=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_anywhere_ends_in_rows_or_in_an_error_of_ours(
    damage: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    rows = [{"id": number, "v": ["a", "bc"]} for number in range(30)]
    write(folder / "a.avro", record_of({"type": "array", "items": "string"}), rows, interval=64)
    content = bytearray((folder / "a.avro").read_bytes())
    for at, value in damage:
        content[at % len(content)] = value
    (folder / "a.avro").write_bytes(bytes(content))
    with contextlib.suppress(CorruptFileError, InputError, ReservedColumnError):
        read(avro(folder), 100)
