"""Columns in the names of folders: the same as pyarrow's own reader of such folders finds."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources import open_source
from hipslake.specs.base import validated
from hipslake.specs.source_spec import SourceSpec

from tests.sources import reading

ROWS = 240


def table() -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "flux": rng.normal(0, 1, ROWS),
            "band": rng.choice(["g", "r", "z/y", None], ROWS),
            "night": rng.integers(20260101, 20260104, ROWS),
        }
    )


def land(folder: Path, keys: tuple[str, ...] = ("band", "night")) -> None:
    schema = pa.schema([table().schema.field(key) for key in keys])
    ds.write_dataset(table(), folder, format="parquet", partitioning=ds.partitioning(schema, flavor="hive"))


def source(uri: str, folders: Any, kind: str = "parquet", **more: Any) -> Any:
    given = {"uri": uri, "format": kind, "folders": folders} | more
    return open_source(validated(SourceSpec, given, "source"))


@pytest.mark.parametrize("folders", [["band", "night"], {"band": "string", "night": "int64"}])
def test_folders_are_columns_as_pyarrow_finds_them(tmp_path: Path, folders: Any) -> None:
    land(tmp_path)
    schema = pa.schema([("band", pa.string()), ("night", pa.int64())])
    expected = ds.dataset(
        tmp_path, format="parquet", partitioning=ds.partitioning(schema, flavor="hive")
    ).to_table()
    found = reading.read(source(f"{tmp_path}/**/*.parquet", folders))
    assert found.schema.names == ["id", "flux", "band", "night"]
    assert found.sort_by("id").equals(expected.select(found.schema.names).sort_by("id"))
    assert found.sort_by("id").equals(table().select(found.schema.names))


def test_a_folder_alone_is_read_with_the_rows_of_its_files(tmp_path: Path) -> None:
    land(tmp_path)
    shaped = source(f"{tmp_path}/**/*.parquet", ["band", "night"], columns={"select": ["night"]})
    found = reading.read(shaped)
    assert sorted(found["night"].to_pylist()) == sorted(table()["night"].to_pylist())
    plain = source(f"{tmp_path}/**/*.parquet", ["band", "night"])
    alone = reading.read(plain, columns=["band"])
    assert sorted(map(str, alone["band"].to_pylist())) == sorted(map(str, table()["band"].to_pylist()))


def test_expressions_see_the_columns_of_folders(tmp_path: Path) -> None:
    land(tmp_path)
    shape = {"drop": ["night"], "rename": {"band": "filter"}, "derive": {"year": "night // 10000"}}
    found = reading.read(source(f"{tmp_path}/**/*.parquet", ["band", "night"], columns=shape))
    assert found.schema.names == ["id", "flux", "filter", "year"]
    assert set(found["year"].to_pylist()) == {2026}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("auto", ["7", "12"], [7, 12]),
        ("auto", ["07", "12"], ["07", "12"]),
        ("auto", ["7", "x"], ["7", "x"]),
        ("string", ["7", "12"], ["7", "12"]),
        ("int8", ["7", "-12"], [7, -12]),
        ("float64", ["0.5", "1e3"], [0.5, 1000.0]),
        ("date32", ["2026-11-20", "2026-11-21"], [date(2026, 11, 20), date(2026, 11, 21)]),
        ("hex", ["00ff", "0x1a3"], [255, 419]),
        ("hex", ["FF", "__HIVE_DEFAULT_PARTITION__"], [255, None]),
        ("string", ["a%2Fb", "a b"], ["a/b", "a b"]),
    ],
)
def test_values_have_the_type_that_is_declared_or_found(
    tmp_path: Path, kind: str, values: list[str], expected: list[Any]
) -> None:
    for number, value in enumerate(values):
        folder = tmp_path / f"key={value}"
        folder.mkdir()
        pq.write_table(pa.table({"id": [number]}), folder / "a.parquet")
    found = reading.read(source(f"{tmp_path}/*/*.parquet", {"key": kind})).sort_by("id")
    assert found["key"].to_pylist() == expected


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_inferred_files_have_folders_too(tmp_path: Path, kind: str) -> None:
    for band, ids in {"g": [1, 2], "r": [3]}.items():
        folder = tmp_path / f"band={band}"
        folder.mkdir()
        write = pcsv.write_csv if kind == "csv" else pq.write_table
        write(pa.table({"id": ids}), folder / f"a.{kind}")
    found = reading.read(source(f"{tmp_path}/*/*.{kind}", ["band"], kind))
    assert found.to_pydict() == {"id": [1, 2, 3], "band": ["g", "g", "r"]}


def test_what_does_not_fit_is_told_with_its_file(tmp_path: Path) -> None:
    land(tmp_path / "in")
    uri = f"{tmp_path}/in/**/*.parquet"
    with pytest.raises(SchemaMismatchError, match=r"lies in no folder season=\.\.\."):
        reading.read(source(uri, ["season"]))
    with pytest.raises(SchemaMismatchError, match=r"source\.folders names flux, which the files have"):
        reading.read(source(uri.replace("in/", "in/"), ["flux"], missing_columns="null"))
    with pytest.raises(SchemaMismatchError, match=r"band=g is not a value of int64; .*\{band: string\}"):
        reading.read(source(uri, {"band": "int64"}))
    with pytest.raises(SchemaMismatchError, match="band=r is not a hexadecimal number"):
        reading.read(source(f"{tmp_path}/in/band=r/**/*.parquet", {"band": "hex"}))
    with pytest.raises(SpecError, match=r"folders\.band: 'int' is no Arrow type"):
        source(uri, {"band": "int"})
    lacking = reading.read(source(uri, {"season": "string"}, missing_columns="null"))
    assert lacking["season"].null_count == ROWS


def test_a_spec_without_folders_is_the_one_of_before() -> None:
    spec = SourceSpec.model_validate({"uri": "/a/*", "format": "ecsv"})
    assert spec.model_dump(mode="json").keys() == {"uri", "format", "options", "missing_columns"}
    assert spec.model_dump(mode="json")["options"].keys() == {"newlines_in_values", "compression"}
