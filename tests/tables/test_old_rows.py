"""Rows of data files are found by field id, whatever their columns were called when they were written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import CorruptFileError, InputError
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.stored_files import StoredFile, read_data_file

from tests.tables.sinking import Lake


def read(lake: Lake, path: Path | str) -> list[dict[str, Any]]:
    """A file as the table sees it now."""
    writer = FileWriter.of(lake.table(lake.spec()), (), "nothing")
    batches = read_data_file(StoredFile(str(path)), writer.arrow_schema, writer.arrow_schema.names)
    return [row for batch in batches for row in batch.to_pylist()]


def test_renamed_columns_of_files_without_ids_are_found_by_the_name_mapping(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key=["id"])
    lake.sink(spec, pa.table({"id": [1, 2], "name": ["a", "b"], "mag": [1.0, 2.0]}))
    foreign = lake.root / "foreign.parquet"
    pq.write_table(pa.table({"id": [7, 8], "name": ["x", "y"], "mag": [7.0, 8.0]}), foreign)
    lake.table(spec).add_files([str(foreign)])
    with lake.table(spec).update_schema() as update:
        update.rename_column("name", "label")
        update.delete_column("mag")
    assert read(lake, foreign) == [row for row in lake.rows(spec).to_pylist() if row["id"] > 2]
    lake.sink(spec, pa.table({"id": [8], "label": ["z"]}))
    assert lake.rows(spec)["label"].to_pylist() == ["a", "b", "x", "z"]
    assert not any(pq.read_schema(path).metadata for path in lake.live(spec))


@pytest.mark.parametrize(
    ("values", "old", "new", "expected"),
    [
        ([{"a": 1, "c": 3}, None], "v.a", "b", [{"b": 1, "c": 3}, None]),
        ([[{"a": 1}, None], []], "v.element.a", "b", [[{"b": 1}, None], []]),
        ([{"s": {"a": 1}}, {"s": None}], "v.s.a", "b", [{"s": {"b": 1}}, {"s": None}]),
    ],
)
def test_renamed_parts_of_nested_columns_keep_their_values(
    lake: Lake, values: list[Any], old: str, new: str, expected: list[Any]
) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1, 2], "v": values}))
    with lake.table(lake.spec()).update_schema() as update:
        update.rename_column(old, new)
    (path,) = lake.live(lake.spec())
    assert [row["v"] for row in read(lake, path)] == expected
    assert lake.rows(lake.spec())["v"].to_pylist() == expected


def test_a_part_that_was_dropped_and_added_again_is_another_one(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1], "v": [{"a": 1, "c": 3}]}))
    kind = lake.table(lake.spec()).schema().find_field("v.a").field_type
    with lake.table(lake.spec()).update_schema() as update:
        update.delete_column("v.a")
    with lake.table(lake.spec()).update_schema() as update:
        update.add_column(("v", "a"), kind)
    (path,) = lake.live(lake.spec())
    assert read(lake, path) == [{"id": 1, "v": {"c": 3, "a": None}}] == lake.rows(lake.spec()).to_pylist()


def test_int96_times_are_read_as_the_table_has_them_or_refused(lake: Lake) -> None:
    """Of another engine's files: nanoseconds would wrap in the year 9999."""
    far = [datetime(9999, 12, 31), datetime(1, 1, 1), None]
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": [1], "t": pa.array([0], pa.timestamp("us"))}))
    foreign, fine = lake.root / "foreign.parquet", lake.root / "fine.parquet"
    wide = pa.table({"id": [7, 8, 9], "t": pa.array(far, pa.timestamp("us"))})
    pq.write_table(wide, foreign, use_deprecated_int96_timestamps=True)
    pq.write_table(
        pa.table({"id": [7], "t": pa.array([1], pa.timestamp("ns"))}),
        fine,
        use_deprecated_int96_timestamps=True,
    )
    table = lake.table(spec)
    with table.transaction() as change:
        change.set_properties(
            **{"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()}
        )
    assert [row["t"] for row in read(lake, foreign)] == far
    with pytest.raises(InputError, match=r"fine\.parquet: column 't' .* parts of a microsecond"):
        read(lake, fine)


def test_a_damaged_data_file_is_told_with_its_name(lake: Lake) -> None:
    lake.sink(lake.spec(), pa.table({"id": [1]}))
    bad = lake.root / "bad.parquet"
    for content in (b"", b"PAR1", b"ORC" + bytes(100), bytes(200)):
        bad.write_bytes(content)
        with pytest.raises(CorruptFileError, match=r"bad\.parquet is damaged, or is no Parquet file"):
            read(lake, bad)
