"""Joined footers are, to the byte, what Arrow makes of the same files; parts of older ones are taken over."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.checksums import CHECKSUMS, checksum_list, checksum_of
from hipslake.catalog.hats.joined_footers import (
    FOOTERS,
    PARTS,
    FooterJoin,
    FooterPart,
    known_parts,
    parts_file,
)
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

SCHEMAS = {
    "plain": pa.schema([("a", pa.int64()), ("b", pa.string())]),
    "described": pa.schema(
        [pa.field("a", pa.float64(), False, {"unit": "mag"}), ("b", pa.large_string())], {"x": "y"}
    ),
    "nested": pa.schema(
        [("s", pa.struct([("m", pa.list_(pa.float32())), ("n", pa.bool_())])), ("t", pa.timestamp("us"))]
    ),
    # Its own bytes look like those before the row groups.
    "misleading": pa.schema([("\x16\x00\x19\x0c", pa.int8()), ("\x00\x19\x1c", pa.binary())]),
}


def rows_of(schema: pa.Schema, rows: int, seed: int) -> pa.Table:
    """Some rows; texts of different lengths, so that statistics have them."""
    numbers = np.random.default_rng(seed).integers(0, 100, rows)
    values = {
        "a": numbers,
        "b": [f"text {each}" * (each % 5) for each in numbers],
        "s": [{"m": [1.0] * (each % 3), "n": None} for each in numbers.tolist()],
        "t": numbers,
        "\x16\x00\x19\x0c": numbers,
        "\x00\x19\x1c": [b"\x16\x00\x19\x0c" * (each % 3) for each in numbers.tolist()],
    }
    return pa.table([pa.array(values[field.name], field.type) for field in schema], schema=schema)


def footer_of(schema: pa.Schema, rows: int, row_groups: int, seed: int) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, version="2.6") as writer:
        for at in range(row_groups):
            writer.write_table(rows_of(schema, rows, seed + at))
        writer.add_key_value_metadata({"own": "of this file alone"})
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def by_arrow(join: FooterJoin, footers: list[tuple[pq.FileMetaData, str]]) -> bytes:
    together = pq.read_metadata(pa.BufferReader(join.empty))
    for footer, path in footers:
        footer.set_file_path(path)
        together.append_row_groups(footer)
    sink = pa.BufferOutputStream()
    together.write_metadata_file(sink)
    return bytes(sink.getvalue().to_pybytes())


@given(
    st.sampled_from(sorted(SCHEMAS)),
    st.lists(st.tuples(st.sampled_from([0, 1, 63, 64, 65, 200, 8192]), st.integers(0, 20)), max_size=5),
    st.integers(0, 1 << 30),
)
def test_as_arrow_joins_them(name: str, files: list[tuple[int, int]], seed: int) -> None:
    join = FooterJoin(SCHEMAS[name])
    footers = [
        (footer_of(join.schema, rows, groups, seed + 100 * at), f"Norder={at}/Npix={seed}.parquet")
        for at, (rows, groups) in enumerate(files)
    ]
    parts = [join.part(*each) for each in footers]
    assert join.joined(parts) == by_arrow(join, footers)
    assert [(part.rows, part.row_groups) for part in parts] == [
        (footer.num_rows, footer.num_row_groups) for footer, _ in footers
    ]
    assert join.joined(parts[::-1]) == by_arrow(join, footers[::-1])


def place_in(folder: str, name: str) -> str:
    return f"{folder}/{name}"


PLACE = partial(place_in, "write/main")


def written(storage: Storage, join: FooterJoin) -> dict[str, FooterPart]:
    """A joined footer of four files, with what stands beside it."""
    parts = {
        f"leaf {at}": join.part(footer_of(join.schema, 20 + at, 3, at), f"{at}.parquet") for at in range(4)
    }
    files = {PLACE(FOOTERS): join.joined(tuple(parts.values())), PLACE(PARTS): parts_file(parts.values())}
    for path, data in files.items():
        storage.write(path, data)
    storage.write(PLACE(CHECKSUMS), checksum_list({path: checksum_of(data) for path, data in files.items()}))
    return parts


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_parts_are_found_again(storage: Storage, name: str) -> None:
    join = FooterJoin(SCHEMAS[name])
    parts = written(storage, join)
    assert known_parts(storage, PLACE, join, list(parts)) == parts


@pytest.mark.parametrize("name", [FOOTERS, PARTS, CHECKSUMS])
@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_what_is_damaged_is_not_taken_over(storage: Storage, name: str, damage: str) -> None:
    join = FooterJoin(SCHEMAS["plain"])
    parts = written(storage, join)
    content = storage.read(PLACE(name))
    storage.delete(PLACE(name))
    if damage == "cut":
        storage.write(PLACE(name), content[:-3])
    elif damage == "other":
        storage.write(PLACE(name), content.replace(b"1", b"2"))
    assert known_parts(storage, PLACE, join, list(parts)) == {}


def test_parts_of_another_schema_are_not_taken_over(storage: Storage) -> None:
    parts = written(storage, FooterJoin(SCHEMAS["plain"]))
    assert known_parts(storage, PLACE, FooterJoin(SCHEMAS["nested"]), list(parts)) == {}


def test_parts_that_are_none_are_refused() -> None:
    join = FooterJoin(SCHEMAS["plain"])
    part = join.part(footer_of(join.schema, 5, 1, 0), "0.parquet")
    for broken in (part._replace(content=part.content[:-9]), part._replace(row_groups=2)):
        with pytest.raises(CatalogFormatError, match="not those of one schema"):
            join.joined([part, broken])
