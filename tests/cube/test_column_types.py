"""Columns of every type that Arrow has: kept in a cube, value by value, or refused by name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import append, build
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.errors import CubeRowsError, InputError
from hipslake.storage.folder import Storage

from tests.cube.small_cube import ROLES

LONG = "longer than the twelve bytes that a view holds itself"
COLUMNS = [
    pa.array(["a", None, LONG, ""], pa.string_view()),
    pa.array([b"a", None, LONG.encode(), b""], pa.binary_view()),
    pa.array([["a"], None, [LONG, None], []], pa.list_(pa.string_view())),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array(["x", None, "y"])),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array([1, 2, 3])),
    pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array(["a", None])),
    pa.array([{"a": 1}, None, {"a": None}, {"a": 4}]),
]


def rows(column: pa.Array) -> pa.Table:
    return pa.table({"p": [0, 0, 1, 1], "x": [1, 2, 3, 4], "i": [7] * 4, "c": column})


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_values_come_out_as_they_were_given(place: Storage, column: pa.Array) -> None:
    build(place, "c", ROLES, {"seed": rows(column)})
    append(place, {"seed": rows(column).slice(0, 2)})
    found = Cube.open(place.uri()).query()
    assert dict(zip(found["x"].to_pylist(), found["c"].to_pylist(), strict=True)) == dict(
        zip([1, 2, 3, 4], column.to_pylist(), strict=True)
    )


def test_files_that_store_texts_in_several_ways_are_one_source(place: Storage, tmp_path: Path) -> None:
    pq.write_table(rows(pa.array(["a", "b", None, LONG])), tmp_path / "a.parquet")
    pq.write_table(
        rows(pa.array(["a", "b", None, LONG], pa.string_view())).set_column(1, "x", [[5, 6, 7, 8]]),
        tmp_path / "b.parquet",
    )
    build(place, "c", ROLES, {"seed": ParquetRows.at(f"{tmp_path}/*.parquet")})
    assert sorted(Cube.open(place.uri()).query()["c"].to_pylist(), key=str) == sorted(
        ["a", "b", None, LONG] * 2, key=str
    )


def test_a_type_that_no_file_holds_is_refused_by_column(place: Storage) -> None:
    column = pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval())
    with pytest.raises(CubeRowsError, match="dataset 'seed': column 'c' is of type month_day_nano_interval"):
        build(place, "c", ROLES, {"seed": rows(column)})


def test_int96_times_of_files_keep_their_values(tmp_path: Path) -> None:
    far = [datetime(9999, 12, 31), datetime(1, 1, 1)]
    rows = pa.table({"id": [1, 2], "t": pa.array(far, pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    found = ParquetRows.at(f"{tmp_path}/*.parquet")
    assert found.schema == rows.schema
    assert next(iter(found.read(0, ["id", "t"])))["t"].to_pylist() == far


def test_files_of_a_table_format_are_no_plain_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(InputError, match=r"Delta Lake table.*its log says which are live"):
        ParquetRows.at(f"{tmp_path}/*.parquet")
