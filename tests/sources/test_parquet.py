"""Parquet: every Arrow type comes out as it was written, whatever the splits; damage is told where it is."""

from __future__ import annotations

import logging
import pickle
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import (
    CorruptFileError,
    EmptySourceError,
    InputError,
    SchemaMismatchError,
    SourceNotFoundError,
)
from hipslake.sources import Source, open_source, parquet
from hipslake.specs.source_spec import SourceSpec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import read


def source(folder: Path, **keys: Any) -> Source:
    return open_source(SourceSpec.model_validate({"uri": f"{folder}/*.parquet", "format": "parquet", **keys}))


def write(folder: Path, name: str, columns: dict[str, Any] | pa.Table, **options: Any) -> Path:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, **options)
    return path


def every_type() -> pa.Table:
    texts = ["a", None, "c"]
    table = pa.table(
        {
            "bool": pa.array([True, None, False]),
            **{str(kind): pa.array([1, None, 3], kind) for kind in (pa.int8(), pa.uint64(), pa.float16())},
            "float": pa.array([1.5, None, float("nan")], pa.float32()),
            "decimal": pa.array([Decimal("1.20"), None, Decimal("-3.45")], pa.decimal128(12, 2)),
            "decimal256": pa.array([Decimal(10) ** 50, None, Decimal(1)], pa.decimal256(60, 0)),
            "date": pa.array([date(2020, 1, 1), None, date(1500, 1, 1)]),
            "time": pa.array([time(1, 2, 3), None, time(4)], pa.time64("us")),
            "duration": pa.array([timedelta(1), None, timedelta(2)], pa.duration("us")),
            "timestamp": pa.array([datetime(2020, 1, 1), None, datetime(2021, 1, 1)], pa.timestamp("us")),
            "zoned": pa.array([0, None, 1], pa.timestamp("ns", "Europe/Paris")),
            "string": texts,
            "large_string": pa.array(texts, pa.large_string()),
            "binary": pa.array([b"a\x00", None, b""]),
            "fixed_binary": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "dictionary": pa.array(texts).dictionary_encode(),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
            "large_list": pa.array([[1.5], None, []], pa.large_list(pa.float64())),
            "vector": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
            "struct": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": []}]),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            "uuid": pa.array([UUID(int=1).bytes, None, UUID(int=2).bytes], pa.uuid()),
            "null": pa.nulls(3),
            "a.b": [1, 2, 3],
            "a": [4, 5, 6],
        }
    )
    described = table.schema.field("float").with_metadata({"unit": "mag"})
    return table.cast(table.schema.set(table.schema.get_field_index("float"), described))


def test_every_type_comes_out_as_it_was_written(tmp_path: Path) -> None:
    table = every_type()
    write(tmp_path, "a", table, row_group_size=2)
    found = read(source(tmp_path), 1)
    assert found.schema == table.schema  # Parquet renames the items of lists, which are no part of a type
    assert found.schema.field("float").metadata == {b"unit": b"mag"}
    assert str(found.to_pylist()) == str(table.to_pylist())


def test_selected_columns_come_alone_also_with_dots_in_their_names(tmp_path: Path) -> None:
    table = every_type()
    write(tmp_path, "a", table)
    for names in (["a"], ["a.b"], ["struct", "bool"], ["map"]):
        wanted = [name for name in table.column_names if name in names]
        assert read(source(tmp_path), columns=names).equals(table.select(wanted))
    with pytest.raises(KeyError, match="no column nope"):
        read(source(tmp_path), columns=["nope"])


@settings(max_examples=examples(30))
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(1, 3000),
    st.integers(1, 30),
)
def test_any_split_and_batch_size_gives_the_same_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    group_rows: int,
    target_bytes: int,
    batch_rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    bounds = np.cumsum([0, *sizes])
    for number, size in enumerate(sizes):
        rows = np.arange(bounds[number], bounds[number] + size)
        write(folder, f"{number}", {"row": rows, "text": rows.astype(str)}, row_group_size=group_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "BATCH_ROWS", batch_rows)
        reader = source(folder)
        found = read(reader, target_bytes)
        splits = reader.splits(reader.list_files(), target_bytes)
    assert found.column("row").to_pylist() == list(range(bounds[-1]))
    assert [split.ordinal for split in splits] == list(range(len(splits)))
    assert all(batch.num_rows <= batch_rows for batch in found.to_batches())


def test_splits_are_runs_of_row_groups_of_about_the_target(tmp_path: Path) -> None:
    path = write(tmp_path, "a", {"v": np.random.default_rng(1).random(10_000)}, row_group_size=1000)
    group = pq.ParquetFile(path).metadata.row_group(0).total_byte_size
    reader = source(tmp_path)
    splits = reader.splits(reader.list_files(), 3 * group)
    assert [(split.start, split.stop) for split in splits] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert len(reader.splits(reader.list_files())) == 1


def test_arrays_that_fit_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a", {"v": np.arange(1000)})
    seen: list[int] = []
    original = parquet.conform

    def watched(batch: pa.RecordBatch, schema: pa.Schema, uri: str) -> pa.RecordBatch:
        seen.append(batch.column(0).buffers()[1].address)
        return original(batch, schema, uri)

    monkeypatch.setattr(parquet, "conform", watched)
    found = read(source(tmp_path))
    assert [chunk.buffers()[1].address for chunk in found.column("v").chunks] == seen


def test_files_widen_to_one_schema(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a",
        {"v": pa.array([1], pa.int16()), "s": pa.nulls(1), "t": pa.array([0], pa.timestamp("s"))},
    )
    write(
        tmp_path,
        "b",
        {"s": ["x"], "v": pa.array([2.5], pa.float32()), "t": pa.array([1], pa.timestamp("us"))},
    )
    found = read(source(tmp_path))
    assert found.schema == pa.schema([("v", pa.float32()), ("s", pa.string()), ("t", pa.timestamp("us"))])
    assert found.column("v").to_pylist() == [1.0, 2.5]
    assert found.column("s").to_pylist() == [None, "x"]


def test_types_that_do_not_widen_name_files_and_column(tmp_path: Path) -> None:
    write(tmp_path, "a", {"v": [1]})
    write(tmp_path, "b", {"v": ["x"]})
    with pytest.raises(
        SchemaMismatchError, match=r"column 'v' is string in .*b\.parquet but int64 in .*a\.parquet"
    ):
        read(source(tmp_path))


def test_value_that_the_wider_type_would_change_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", {"v": [2**53 + 1]})
    write(tmp_path, "b", {"v": [0.5]})
    with pytest.raises(SchemaMismatchError, match=r"a\.parquet: column 'v': .*9007199254740993"):
        read(source(tmp_path))


def test_missing_column_is_an_error_unless_the_spec_fills_it(tmp_path: Path) -> None:
    write(tmp_path, "a", {"v": [1], "w": [1]})
    write(tmp_path, "b", {"v": [2]})
    with pytest.raises(SchemaMismatchError, match=r"b\.parquet has no column 'w', which .*a\.parquet has"):
        read(source(tmp_path))
    filled = source(tmp_path, missing_columns="null")
    assert read(filled).column("w").to_pylist() == [1, None]
    assert read(filled, columns=["w"]).column("w").to_pylist() == [1, None]


def test_nullability_and_first_metadata_are_kept(tmp_path: Path) -> None:
    kept = pa.field("v", pa.int64(), nullable=False, metadata={"unit": "s"})
    write(tmp_path, "a", pa.table([[1]], schema=pa.schema([kept], metadata={"file": "a"})))
    write(tmp_path, "b", pa.table([[2]], schema=pa.schema([kept.remove_metadata()])))
    reader = source(tmp_path)
    schema = reader.schema(reader.list_files())
    assert schema is not None
    assert schema.equals(pa.schema([kept]), check_metadata=True)


def test_field_ids_of_other_writers_are_dropped(tmp_path: Path) -> None:
    field = pa.field("v", pa.int64(), metadata={"PARQUET:field_id": "7", "unit": "s"})
    write(tmp_path, "a", pa.table([[1]], schema=pa.schema([field])))
    assert read(source(tmp_path)).schema.field("v").metadata == {b"unit": b"s"}


def test_empty_files_among_others_are_fine_and_alone_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    with pytest.raises(EmptySourceError, match="is empty"):
        read(source(tmp_path))
    write(tmp_path, "b", {"v": pa.array([], pa.int64())})
    assert read(source(tmp_path)).num_rows == 0
    write(tmp_path, "c", {"v": [1]})
    assert read(source(tmp_path)).to_pydict() == {"v": [1]}


@pytest.mark.parametrize("kept", [5, 100, -10])
def test_truncated_file_is_named(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path, "a", {"v": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        CorruptFileError, match=r"a\.parquet is damaged, or is no Parquet file: .*; replace it"
    ):
        read(source(tmp_path))


def test_damaged_page_is_told_with_row_group_and_column(tmp_path: Path) -> None:
    columns = {"good": np.arange(3000), "bad": np.arange(3000) * 7}
    path = write(tmp_path, "a", columns, row_group_size=1000, use_dictionary=False, write_page_checksum=True)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(1)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a\.parquet is damaged in row group 1, column 'bad'"):
        read(source(tmp_path))
    assert read(source(tmp_path), columns=["good"]).num_rows == 3000


def test_file_that_is_none_of_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("source_id,ra,dec\n1,2,3\n" * 10)
    with pytest.raises(CorruptFileError, match="magic bytes"):
        read(source(tmp_path))


def test_file_that_changed_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a", {"v": [1]})
    reader = source(tmp_path)
    files = reader.list_files()
    split, schema = reader.splits(files)[0], reader.schema(files)
    assert schema is not None
    write(tmp_path, "a", {"v": [1, 2]})
    with pytest.raises(InputError, match=r"a\.parquet was changed after the run listed it"):
        list(reader.read(split, schema))
    path.unlink()
    with pytest.raises(InputError, match=r"a\.parquet was deleted"):
        source(tmp_path).splits(files)


def test_reader_travels_to_the_tasks(tmp_path: Path) -> None:
    write(tmp_path, "a", {"v": [1, 2]})
    assert read(pickle.loads(pickle.dumps(source(tmp_path)))).num_rows == 2


def test_views_are_read_as_the_values_that_they_show(tmp_path: Path) -> None:
    views = pa.table(
        {
            "name": pa.array(["a", None, "b" * 50], pa.string_view()),
            "blob": pa.array([b"a", None, b"b" * 50], pa.binary_view()),
            "tags": pa.array([["x"], None, []], pa.list_(pa.string_view())),
        }
    )
    write(tmp_path, "a", views)
    table = read(source(tmp_path))
    assert table.schema.types == [pa.string(), pa.binary(), pa.list_(pa.string())]
    assert table.to_pylist() == views.to_pylist()


def test_a_dictionary_beside_its_words_becomes_the_words(tmp_path: Path) -> None:
    write(tmp_path, "a", pa.table({"t": pa.array(["x", None, "y"]).dictionary_encode()}))
    write(tmp_path, "b", {"t": ["z", "x"]})
    found = read(source(tmp_path))
    assert found.schema.field("t").type == pa.string()
    assert found["t"].to_pylist() == ["x", None, "y", "z", "x"]


def test_structs_that_gain_a_field_have_nulls_before_if_the_spec_fills_them(tmp_path: Path) -> None:
    write(tmp_path, "a", {"s": [{"x": 1}, None], "l": [[{"x": 1}], []]})
    write(tmp_path, "b", {"s": [{"y": "b", "x": 2}], "l": [[{"x": 2, "y": "b"}]]})
    with pytest.raises(SchemaMismatchError, match=r"column 's' is struct.* set source.missing_columns: null"):
        read(source(tmp_path))
    found = read(source(tmp_path, missing_columns="null"))
    assert found["s"].to_pylist() == [{"x": 1, "y": None}, None, {"x": 2, "y": "b"}]
    assert found["l"].to_pylist() == [[{"x": 1, "y": None}], [], [{"x": 2, "y": "b"}]]


def test_times_with_and_without_a_zone_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, "a", {"t": pa.array([0], pa.timestamp("us"))})
    write(tmp_path, "b", {"t": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(SchemaMismatchError, match="write all times with one zone, or all without"):
        read(source(tmp_path))


def test_what_a_glob_passes_over_is_listed_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a", {"v": [1]})
    write(tmp_path, ".a", {"v": [2]})
    (tmp_path / "x.parquet").mkdir()
    listing = source(tmp_path).listing()
    assert [file.uri for file in listing.files] == [f"{tmp_path}/a.parquet"]
    assert listing.passed_over == (f"{tmp_path}/.a.parquet", f"{tmp_path}/x.parquet")
    listing.log_passed_over(logging.getLogger())
    assert f"{tmp_path}/x.parquet" in caplog.text
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceNotFoundError, match=r"but hidden files, folders or pipes \(.*\.a\.parquet"):
        source(tmp_path).listing()


def _int96(path: Path, times: list[int], kind: pa.DataType) -> None:
    pq.write_table(pa.table({"t": pa.array(times, kind)}), path, use_deprecated_int96_timestamps=True)


YEAR_9999 = 253_402_300_799_999_999  # microseconds


@pytest.mark.parametrize(
    ("times", "unit"), [([YEAR_9999, -62_135_596_800_000_000, 0], "us"), ([1, -1, 10**18 + 7], "ns")]
)
def test_int96_times_are_read_in_the_unit_that_holds_them(
    tmp_path: Path, times: list[int], unit: str
) -> None:
    _int96(tmp_path / "a.parquet", times, pa.timestamp(unit))
    found = read(source(tmp_path))
    assert found.schema.field("t").type == pa.timestamp(unit)
    assert found["t"].cast(pa.int64()).to_pylist() == times


def test_int96_times_that_lose_something_are_refused(tmp_path: Path) -> None:
    _int96(tmp_path / "a.parquet", [YEAR_9999], pa.timestamp("us"))
    _int96(tmp_path / "b.parquet", [1], pa.timestamp("ns"))
    with pytest.raises(
        InputError, match=r"a\.parquet: column 't' is of INT96 .* lies beyond .*TIMESTAMP_MICROS"
    ):
        read(source(tmp_path))
