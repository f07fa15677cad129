"""What a source must have and must not have: names of columns, and files where the spec says."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import fastavro
import fsspec
import pyarrow as pa
import pytest
from astropy.table import Table
from hipslake.errors import InputError, ReservedColumnError, SchemaMismatchError, SourceNotFoundError
from hipslake.sources import open_source
from hipslake.sources.formats import READERS
from hipslake.sources.names import check_names
from hipslake.specs.catalog_spec import BadRowsSpec, CatalogSpec
from hipslake.specs.source_spec import FORMATS, SourceSpec

from tests.sources.reading import read


def spec(source_format: str = "parquet", **position: Any) -> CatalogSpec:
    return CatalogSpec.model_validate(
        {
            "name": "stars",
            "source": {"uri": "/data/*", "format": source_format},
            "position": {"ra": "ra", "dec": "dec", **position},
        }
    )


def schema(*names: str, kind: pa.DataType | None = None) -> pa.Schema:
    return pa.schema([(name, kind or pa.float64()) for name in names])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int32(), pa.decimal128(12, 8)])
def test_numeric_positions_pass(kind: pa.DataType) -> None:
    check_names(schema("id", "ra", "dec", kind=kind), spec())


@pytest.mark.parametrize(
    "name", ["_healpix_29", "_row", "Norder", "Npix", "Dir", "norder", "NPIX", "dir", "_Row"]
)
def test_reserved_names_are_refused_in_any_case(name: str) -> None:
    with pytest.raises(ReservedColumnError, match=f"columns named '{name}'"):
        check_names(schema("ra", "dec", name), spec())


def test_the_columns_of_rejects_are_reserved_where_rows_may_be_quarantined() -> None:
    mended = schema("ra", "dec", "_reject_reason")
    check_names(mended, spec())
    with pytest.raises(ReservedColumnError, match="columns named '_reject_reason'"):
        check_names(mended, spec().model_copy(update={"bad_rows": BadRowsSpec(policy="quarantine")}))


def test_equal_names_and_names_that_differ_by_case_are_refused() -> None:
    with pytest.raises(ReservedColumnError, match="'Mag' and 'MAG' differ only by case; 'x' stands twice"):
        check_names(schema("ra", "dec", "Mag", "x", "MAG", "x"), spec())


def test_missing_position_column_is_told_with_what_there_is() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"position\.ra of stars: .* no column 'ra'; did you mean 'RAdeg'"
    ):
        check_names(schema("RAdeg", "dec"), spec())
    with pytest.raises(SchemaMismatchError, match=r"no column 'dec'; there are ra, x"):
        check_names(schema("ra", "x"), spec())


def test_position_of_text_is_refused_and_csv_says_how_to_find_the_line() -> None:
    text = schema("ra", "dec", kind=pa.string())
    with pytest.raises(
        SchemaMismatchError, match=r"position\.ra .*'ra' has type string; name a column of numbers"
    ):
        check_names(text, spec())
    with pytest.raises(
        SchemaMismatchError, match=r"source\.options\.types: \{ra: float64\} to be told the first"
    ):
        check_names(text, spec("csv"))


def test_every_format_of_the_spec_has_a_reader() -> None:
    assert sorted(READERS) == sorted(FORMATS)
    for name in FORMATS:
        assert open_source(SourceSpec.model_validate({"uri": "x", "format": name})).format == name


def listed(uri: str) -> list[str]:
    return [file.uri for file in open_source(SourceSpec(uri=uri, format="csv")).list_files()]


def test_files_are_listed_by_uri_with_size_and_stamp(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "sub/c.csv", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x,y\n")
    files = open_source(SourceSpec(uri=f"{tmp_path}/**/*.csv", format="csv")).list_files()
    assert [file.uri for file in files] == [f"{tmp_path}/{name}" for name in ("a.csv", "b.csv", "sub/c.csv")]
    assert [file.ordinal for file in files] == [0, 1, 2]
    assert {file.size for file in files} == {4}
    assert all(file.stamp for file in files)
    assert listed(f"{tmp_path}/?.csv") == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    assert listed(f"{tmp_path}/a.csv") == [f"{tmp_path}/a.csv"]
    assert listed(f"{tmp_path}/s*/[a-c].csv") == [f"{tmp_path}/sub/c.csv"]


def test_no_file_is_told_with_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_LANDING", str(tmp_path))
    with pytest.raises(SourceNotFoundError, match=rf"no file matches {tmp_path}/gaia/\*\.csv"):
        listed("${HIPSLAKE_LANDING}/gaia/*.csv")
    with pytest.raises(InputError, match=rf"{tmp_path} is a folder; name its files"):
        listed(str(tmp_path))


def test_files_with_odd_names_are_read(tmp_path: Path) -> None:
    for name in ("a b.csv", "c[1].csv", "d%20e.csv", "é.csv"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    assert read(open_source(SourceSpec(uri=f"{tmp_path}/*.csv", format="csv"))).num_rows == 4


def test_objects_are_read_as_files_are(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    rows = Table({"x": [1, 3], "y": [2, 4]})
    for name in FORMATS:
        path = tmp_path / f"a.{name}"
        if name == "avro":
            fields = [{"name": column, "type": "long"} for column in rows.colnames]
            records = [{column: int(row[column]) for column in rows.colnames} for row in rows]
            with path.open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, records)
        else:
            rows.write(path, format={"ecsv": "ascii.ecsv", "csv": "ascii.csv"}.get(name, name))
        files.pipe_file(f"/landing/a.{name}", path.read_bytes())
        files.pipe_file(f"/landing/a.{name}.gz", gzip.compress(path.read_bytes()))
    try:
        for name in FORMATS:
            for suffix in ("", ".gz")[: 1 if name in ("parquet", "avro") else 2]:
                source = open_source(
                    SourceSpec.model_validate({"uri": f"memory://landing/*.{name}{suffix}", "format": name})
                )
                assert [file.uri for file in source.list_files()] == [f"memory://landing/a.{name}{suffix}"]
                assert read(source, 5).to_pydict() == {"x": [1, 3], "y": [2, 4]}
    finally:
        files.rm("/landing", recursive=True)


@pytest.mark.parametrize("name", ["fits", "votable", "ecsv"])
def test_names_are_checked_in_every_format(tmp_path: Path, name: str) -> None:
    columns = {"ra": [1.0], "dec": [2.0], "Npix": [3]}
    Table(columns).write(tmp_path / "a", format={"ecsv": "ascii.ecsv"}.get(name, name))
    source = open_source(SourceSpec.model_validate({"uri": f"{tmp_path}/a", "format": name}))
    with pytest.raises(ReservedColumnError, match="columns named 'Npix'"):
        check_names(source.schema(source.list_files()) or pa.schema([]), spec(name))
