"""Parquet and CSV exports, and what is true of every format."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hipslake.errors import NotWritableError, SchemaMismatchError, SpecError
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import check_export, write_export
from hipslake.specs.export_formats import ExportFormat
from hipslake.storage.folder import Storage

ORIGIN = Provenance("stars", 3, attribution="© Somebody")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("mag", pa.float32(), metadata={"unit": "mag", "description": "brightness"}),
        pa.field("name", pa.string()),
    ]
)


def pieces(rows: int, size: int) -> list[pa.Table]:
    table = pa.table(
        [
            range(rows),
            [None if i % 3 == 0 else i / 7 for i in range(rows)],
            ["", None, 'q"é,\n'] * (rows // 3),
        ],
        schema=SCHEMA,
    )
    return [table.slice(start, size) for start in range(0, rows, size)]


def test_parquet_keeps_types_units_and_the_origin(tmp_path: Path) -> None:
    tables = pieces(300, 7)
    done = write_export(f"{tmp_path}/a.parquet", SCHEMA, iter(tables), ExportFormat.PARQUET, ORIGIN)
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.equals(pa.concat_tables(tables))
    assert found.schema.field("mag").metadata[b"unit"] == b"mag"
    assert found.schema.field("mag").metadata[b"description"] == b"brightness"
    assert found.schema.metadata[b"hipslake.attribution"].decode() == "© Somebody"
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 1
    assert done == (f"{tmp_path}/a.parquet", 300, (tmp_path / "a.parquet").stat().st_size)


def test_csv_tells_null_from_the_empty_text(tmp_path: Path) -> None:
    tables = pieces(300, 7)
    write_export(f"{tmp_path}/a.csv", SCHEMA, iter(tables), ExportFormat.CSV, ORIGIN)
    options = pacsv.ConvertOptions(
        column_types=SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    found = pacsv.read_csv(
        tmp_path / "a.csv",
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    )
    assert found.equals(pa.concat_tables(tables))
    assert (tmp_path / "a.csv").read_text().startswith('"id","mag","name"\n0,,""\n')


def test_csv_refuses_what_is_nested_or_an_extension(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("v", pa.list_(pa.float32(), 3)),
            ("s", pa.struct([("a", "i4")])),
            ("u", pa.uuid()),
        ]
    )
    expected = r"CSV has no form for 'v' \(fixed_size_list.*'s' \(struct.*'u' \(extension<arrow.uuid>"
    with pytest.raises(SchemaMismatchError, match=expected):
        check_export(str(tmp_path / "never.csv"), schema, ExportFormat.CSV, overwrite=False)


@pytest.mark.parametrize("kind", ExportFormat)
def test_a_file_is_there_whole_or_not_at_all(storage: Storage, kind: ExportFormat) -> None:
    def breaking() -> object:
        yield from pieces(90, 30)
        raise ValueError("a leaf is damaged")

    schema = SCHEMA.remove(2)
    good = [table.drop_columns("name") for table in pieces(90, 30)]
    uri = storage.uri(f"deep/out.{kind}")
    check_export(uri, schema, kind, overwrite=False)
    with pytest.raises(ValueError, match="damaged"):
        write_export(uri, schema, (table.drop_columns("name") for table in breaking()), kind, ORIGIN)
    assert not storage.exists(f"deep/out.{kind}")
    assert write_export(uri, schema, good, kind, ORIGIN).rows == 90
    whole = storage.read(f"deep/out.{kind}")
    with pytest.raises(NotWritableError, match="exists; give another URI, or overwrite it"):
        check_export(uri, schema, kind, overwrite=False)
    check_export(uri, schema, kind, overwrite=True)
    with pytest.raises(ValueError, match="damaged"):
        write_export(uri, schema, (table.drop_columns("name") for table in breaking()), kind, ORIGIN)
    assert storage.read(f"deep/out.{kind}") == whole


@pytest.mark.parametrize(
    ("uri", "given", "kind"),
    [("a.csv", None, "csv"), ("s3://b/a.b.FITS", None, "fits"), ("a.csv", "Parquet", "parquet")],
)
def test_the_format_is_given_or_the_ending(uri: str, given: str | None, kind: str) -> None:
    assert ExportFormat.of(uri, given) == kind


@pytest.mark.parametrize("uri", ["a", "a.", "a.csv.gz", "a.csv/b", ""])
def test_endings_that_say_no_format(uri: str) -> None:
    with pytest.raises(SpecError, match="none of parquet, csv, fits"):
        ExportFormat.of(uri)


def test_csv_writes_bytes_in_hexadecimal(tmp_path: Path) -> None:
    columns = {
        "b": pa.array([b"ab", b"\xff\xfe", None, b""], pa.binary()),
        "f": pa.array([b"ab", None, b"\x00\x01", b"cd"], pa.binary(2)),
        "t": ["a", "b", "c", "d"],
    }
    table = pa.table(columns)
    write_export(f"{tmp_path}/b.csv", table.schema, iter([table]), ExportFormat.CSV, ORIGIN)
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines == ['"b","f","t"', '"6162","6162","a"', '"fffe",,"b"', ',"0001","c"', '"","6364","d"']
