"""Leaf files: encodings, determinism, footers."""

from __future__ import annotations

import itertools
import pickle
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.leaf import encode_leaf, read_first_row, read_footer, write_options
from hipslake.errors import CatalogFormatError
from hipslake.sources.widening import without_dictionaries
from hipslake.specs.catalog_spec import ParquetSpec
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

ROWS = 5000
SCHEMA = pa.schema(
    [
        ("_healpix_29", pa.int64()),
        ("name", pa.string()),
        ("mag", pa.float32()),
        ("flux", pa.float64()),
        ("half", pa.float16()),
        ("good", pa.bool_()),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("kinds", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        ("bands", pa.list_(pa.float32())),
        ("fit", pa.struct([("chi2", pa.float64()), ("flag", pa.int8())])),
        ("notes", pa.map_(pa.string(), pa.int32())),
        ("seen", pa.timestamp("ns", tz="UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("blob", pa.large_binary()),
        ("pair", pa.list_(pa.float64(), 2)),
        ("_row", pa.int64()),
    ]
)


def rows(count: int) -> pa.Table:
    """Rows of every kind of type, nulls and not-a-numbers among them."""
    n = range(count)
    mag = np.where(np.arange(count) % 7 == 0, np.nan, np.arange(count)).astype(np.float32)
    columns = {
        "_healpix_29": [i * 1000 for i in n],
        "name": [None if i % 5 == 0 else f"HD {i % 300}" for i in n],
        "mag": mag,
        "flux": [i / 3 for i in n],
        "half": np.arange(count).astype(np.float16),
        "good": [i % 2 == 0 for i in n],
        "kind": pa.array(["star" if i % 3 else "galaxy" for i in n]).dictionary_encode(),
        "kinds": [["star", f"type {i % 7}", None][: i % 4] if i % 13 else None for i in n],
        "bands": [[1.5] * (i % 4) if i % 11 else None for i in n],
        "fit": [{"chi2": float(i), "flag": i % 100} for i in n],
        "notes": [[("a", i)] for i in n],
        "seen": [datetime(2026, 11, 21, 3, 30) for _ in n],
        "day": [date(2026, 11, 21) for _ in n],
        "price": [Decimal(i) / 100 for i in n],
        "blob": [b"x" * (i % 9) for i in n],
        "pair": [[float(i), -float(i)] for i in n],
        "_row": list(n),
    }
    return pa.table(columns, schema=SCHEMA)


TABLE = rows(ROWS)
OPTIONS = write_options(ParquetSpec(), SCHEMA)
ENCODED = encode_leaf([TABLE.slice(0, 3000), TABLE.slice(3000)], SCHEMA, OPTIONS)


def test_every_type_comes_back_unchanged() -> None:
    read = pq.read_table(pa.BufferReader(ENCODED))
    assert read.schema.equals(SCHEMA)  # Parquet names the children of lists `element`
    np.testing.assert_array_equal(read["mag"].to_numpy(), TABLE["mag"].to_numpy())  # nan equals nan here
    for name in set(SCHEMA.names) - {"mag"}:
        assert read[name].to_pylist() == TABLE[name].to_pylist()


def test_each_table_is_one_row_group_sorted_by_index_and_row() -> None:
    footer = pq.read_metadata(pa.BufferReader(ENCODED))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [3000, 2000]
    last = footer.num_columns - 1  # Parquet counts leaves of nested columns
    assert footer.schema.column(last).path == "_row"
    assert [key.column_index for key in footer.row_group(0).sorting_columns] == [0, last]


@pytest.mark.parametrize("floats", ["plain", "byte_stream_split"])
def test_encodings_are_those_that_suit_the_columns(floats: str) -> None:
    options = write_options(ParquetSpec.model_validate({"floats": floats}), SCHEMA)
    encoded = encode_leaf([TABLE], SCHEMA, options)
    group = pq.read_metadata(pa.BufferReader(encoded)).row_group(0)
    encodings = {}
    for i in range(group.num_columns):
        column = group.column(i)
        assert column.compression == "ZSTD"
        assert column.has_offset_index or column.path_in_schema == ""
        encodings[column.path_in_schema] = set(column.encodings)
    for name in ("_healpix_29", "_row"):
        assert "DELTA_BINARY_PACKED" in encodings[name]
    for name in ("mag", "flux", "fit.chi2", "bands.list.element", "pair.list.element"):
        assert floats.upper() in encodings[name]
        assert not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & encodings[name]
    for name in ("name", "kind", "fit.flag"):
        assert "RLE_DICTIONARY" in encodings[name]


def test_a_schema_of_floats_only_needs_no_dictionary() -> None:
    schema = pa.schema([("_healpix_29", pa.int64()), ("x", pa.float64())])
    table = pa.table({"_healpix_29": [1, 2], "x": [0.5, 0.25]}, schema=schema)
    encoded = encode_leaf([table], schema, write_options(ParquetSpec(), schema))
    assert pq.read_table(pa.BufferReader(encoded)).equals(table)


@pytest.mark.parametrize(
    ("parquet", "codec"),
    [
        ({"compression": "snappy"}, "SNAPPY"),
        ({"compression": "gzip", "level": 1}, "GZIP"),
        ({"compression": "lz4"}, "LZ4"),
        ({"compression": "none"}, "UNCOMPRESSED"),
        ({"compression": "zstd", "level": 15}, "ZSTD"),
    ],
)
def test_every_codec_of_the_spec_works(parquet: dict[str, object], codec: str) -> None:
    options = write_options(ParquetSpec.model_validate(parquet), SCHEMA)
    footer = pq.read_metadata(pa.BufferReader(encode_leaf([TABLE.slice(0, 100)], SCHEMA, options)))
    assert footer.row_group(0).column(0).compression == codec


def test_options_pickle_and_give_the_same_bytes_in_another_process() -> None:
    again = pickle.loads(pickle.dumps(OPTIONS))
    assert encode_leaf([TABLE.slice(0, 3000), TABLE.slice(3000)], SCHEMA, again) == ENCODED


@settings(max_examples=examples(15))
@given(cuts=st.lists(st.integers(0, ROWS), max_size=6))
def test_bytes_do_not_depend_on_how_rows_came_in_chunks(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), ROWS]
    # Rows taken anew, as after a merge: every chunk has a dictionary of its own.
    chunks = [
        pa.Table.from_arrays(
            [
                column.cast(without_dictionaries(field.type)).combine_chunks().cast(field.type)
                for field, column in zip(SCHEMA, TABLE.slice(start, stop - start).columns, strict=True)
            ],
            schema=SCHEMA,
        )
        for start, stop in itertools.pairwise(edges)
    ]
    table = pa.concat_tables(chunks)
    assert encode_leaf(iter([table.slice(0, 3000), table.slice(3000)]), SCHEMA, OPTIONS) == ENCODED


def test_an_empty_leaf_is_not_written() -> None:
    with pytest.raises(ValueError, match="without rows"):
        encode_leaf([TABLE.slice(0, 0)], SCHEMA, OPTIONS)


def test_a_footer_is_read_back_and_a_truncated_file_named(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path))
    storage.write("a/leaf.parquet", ENCODED.to_pybytes())
    assert read_footer(storage, "a/leaf.parquet").num_rows == ROWS
    storage.write("a/short.parquet", ENCODED.to_pybytes()[:-7])
    with pytest.raises(CatalogFormatError, match=r"short\.parquet"):
        read_footer(storage, "a/short.parquet")


@pytest.mark.parametrize("options", [{}, {"data_page_size": 300_000, "write_batch_size": 2}])
@pytest.mark.parametrize("sizes", [[1], [ROWS], [3, ROWS]])
def test_the_first_row_of_a_leaf_is_that_of_its_table(
    tmp_path: Path, sizes: list[int], options: dict[str, int]
) -> None:
    wide = pa.array(["x" * 400_000 if at == 0 else "" for at in range(ROWS)])  # its first page is a large one
    table = rows(ROWS).append_column("wide", wide)
    tables = [table.slice(0, size) for size in sizes]
    data = encode_leaf(tables, table.schema, write_options(ParquetSpec(), table.schema) | options)
    for storage in (Storage.at(tmp_path), Storage.at("memory://first-rows")):
        storage.write("leaf.parquet", data)
        for size in (None, data.size):
            footer, row = read_first_row(storage, "leaf.parquet", size)
            assert footer.num_rows == sum(sizes)
            assert repr(row.to_pylist()) == repr(table.slice(0, 1).to_pylist())  # not a number among them
        storage.write("leaf.parquet", data.to_pybytes()[: data.size // 2])
        with pytest.raises(CatalogFormatError, match="cannot be read as Parquet"):
            read_first_row(storage, "leaf.parquet")
