"""Columns of sources: taken or left, renamed, cast and derived, alike from files of every format."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from astropy.table import MaskedColumn, Table
from hipslake.errors import ReservedColumnError, SchemaMismatchError
from hipslake.sources import open_source
from hipslake.sources.shaped_source import ShapedSource
from hipslake.specs.source_spec import SourceSpec

from tests.sources import reading

FORMATS = ["parquet", "fits", "votable", "ecsv", "csv"]
ROWS = 300


def rows() -> dict[str, Any]:
    rng = np.random.default_rng(8)
    return {
        "RAJ2000": rng.uniform(0, 24, ROWS),
        "dec": rng.uniform(-90, 90, ROWS),
        "flux": np.ma.masked_array(rng.lognormal(2, 1, ROWS), rng.random(ROWS) < 0.2),
        "flags": rng.integers(0, 255, ROWS),
        "mjd": rng.uniform(58_000, 60_000, ROWS),
        "junk": [f"text {number}" for number in range(ROWS)],
    }


SHAPED = {
    "drop": ["junk", "RAJ2000"],
    "rename": {"flux": "flux_njy", "mjd": "seen_mjd"},
    "cast": {"flags": "int16"},
    "derive": {
        "ra": "RAJ2000 * 15",
        "mag": "31.4 - 2.5 * log10(flux_njy)",
        "faint": "mag > 26",
        "good": "where(bit_and(flags, 3) = 0 and flux_njy is not null, cast(flags, int32), null)",
    },
}


def land(folder: Path, kind: str, table: dict[str, Any], files: int = 3) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        some = slice(number * ROWS // files, (number + 1) * ROWS // files)
        part = {name: values[some] for name, values in table.items()}
        path = folder / f"{number}.{kind}"
        if kind in ("parquet", "csv"):
            arrow = pa.table(
                {
                    name: pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
                    if isinstance(values, np.ndarray)
                    else values
                    for name, values in part.items()
                }
            )
            if kind == "csv":
                pcsv.write_csv(arrow, path)
            else:
                pq.write_table(arrow, path, row_group_size=40)
        else:
            made = Table({name: MaskedColumn(values) for name, values in part.items()})
            made["flux"].unit = "nJy"
            made.write(path, format={"ecsv": "ascii.ecsv"}.get(kind, kind))


def source(folder: Path, kind: str, columns: dict[str, Any], **more: Any) -> ShapedSource:
    spec = {"uri": f"{folder}/*", "format": kind, "columns": columns} | more
    found = open_source(SourceSpec.model_validate(spec))
    assert isinstance(found, ShapedSource)
    return found


def expected() -> dict[str, list[Any]]:
    """What numpy makes of the rows."""
    plain = rows()
    flux, flags = np.ma.getdata(plain["flux"]), plain["flags"]
    lost = np.ma.getmaskarray(plain["flux"])
    mag = 31.4 - 2.5 * np.log10(flux)
    good = ((flags & 3) == 0) & ~lost

    def with_nulls(values: np.ndarray, missing: np.ndarray) -> list[Any]:
        return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]

    return {
        "dec": plain["dec"].tolist(),
        "flux_njy": with_nulls(flux, lost),
        "flags": flags.tolist(),
        "seen_mjd": plain["mjd"].tolist(),
        "ra": (plain["RAJ2000"] * 15).tolist(),
        "mag": with_nulls(mag, lost),
        "faint": with_nulls(mag > 26, lost),
        "good": with_nulls(flags, ~good),
    }


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("target_bytes", [1 << 28, 3000])
def test_files_of_every_format_give_the_columns_that_numpy_makes(
    tmp_path: Path, kind: str, target_bytes: int
) -> None:
    land(tmp_path / "in", kind, rows())
    found = reading.read(source(tmp_path / "in", kind, SHAPED), target_bytes)
    assert found.to_pydict() == expected()
    types = {name: str(found.schema.field(name).type) for name in ("flags", "ra", "faint", "good")}
    assert types == {"flags": "int16", "ra": "double", "faint": "bool", "good": "int32"}
    if kind not in ("parquet", "csv"):
        assert reading.told(found, "flux_njy")[0] == "nJy"
        assert reading.told(found, "mag")[0] is None


@pytest.mark.parametrize("kind", FORMATS)
def test_only_the_columns_that_are_needed_are_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path / "in", kind, rows())
    shaped = source(tmp_path / "in", kind, SHAPED)
    asked: list[Any] = []
    reader = type(shaped._files)
    plain = reader.read

    def noted(self: Any, split: Any, schema: Any, columns: Any = None, **more: Any) -> Any:
        asked.append(list(columns))
        return plain(self, split, schema, columns, **more)

    monkeypatch.setattr(reader, "read", noted)
    for wanted, needed in {
        "ra": ["RAJ2000"],
        "faint": ["flux"],
        "good": ["flux", "flags"],
        "seen_mjd": ["mjd"],
    }.items():
        asked.clear()
        table = reading.read(shaped, columns=[wanted])
        assert table[wanted].to_pylist() == expected()[wanted]
        assert asked
        assert all(names == needed for names in asked)


def test_a_damaged_column_that_is_not_needed_does_no_harm(tmp_path: Path) -> None:
    land(tmp_path / "in", "parquet", rows(), files=1)
    path = tmp_path / "in" / "0.parquet"
    chunk = pq.read_metadata(path).row_group(0).column(5)
    assert chunk.path_in_schema == "junk"
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(data)
    assert reading.read(source(tmp_path / "in", "parquet", SHAPED)).to_pydict() == expected()


def test_a_shaped_source_goes_to_tasks_with_its_schema(tmp_path: Path) -> None:
    land(tmp_path / "in", "csv", rows())
    shaped = source(tmp_path / "in", "csv", SHAPED)
    splits = shaped.splits(shaped.list_files(), 2000)
    schema = shaped.unify([(split.file.uri, shaped.infer(split)) for split in splits])
    schema = pa.ipc.read_schema(pa.BufferReader(schema.serialize()))
    sent = pickle.loads(pickle.dumps(shaped))
    found = pa.Table.from_batches([batch for split in splits for batch in sent.read(split, schema)])
    assert found.to_pydict() == expected()


def test_selected_columns_come_in_their_order_and_others_not_at_all(tmp_path: Path) -> None:
    land(tmp_path / "in", "parquet", rows())
    found = reading.read(
        source(tmp_path / "in", "parquet", {"select": ["mjd", "dec"], "derive": {"one": "1"}})
    )
    assert found.column_names == ["mjd", "dec", "one"]
    assert found["one"].to_pylist() == [1] * ROWS
    only = reading.read(source(tmp_path / "in", "parquet", {"select": [], "derive": {"x": "flags + 0.5"}}))
    assert only.column_names == ["x"]


def test_a_derived_column_takes_the_name_of_one_that_is_dropped(tmp_path: Path) -> None:
    land(tmp_path / "in", "parquet", rows())
    shape = {"select": ["dec"], "derive": {"RAJ2000": "RAJ2000 * 15", "half": "RAJ2000 / 2"}}
    found = reading.read(source(tmp_path / "in", "parquet", shape))
    np.testing.assert_array_equal(found["RAJ2000"], rows()["RAJ2000"] * 15)
    np.testing.assert_array_equal(found["half"], rows()["RAJ2000"] * 15 / 2)
    assert reading.read(source(tmp_path / "in", "parquet", shape), columns=["half"])["half"].equals(
        found["half"]
    )


def test_types_that_files_do_not_share_are_joined_before_expressions_see_them(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"x": pa.array([7, 8], pa.int32())}), folder / "a.parquet")
    pq.write_table(pa.table({"x": [7.5, 8.5]}), folder / "b.parquet")
    found = reading.read(source(folder, "parquet", {"derive": {"half": "x // 2", "same": "x"}}))
    assert found["half"].to_pylist() == [3.0, 4.0, 3.0, 4.0]
    assert found.schema.field("half").type == pa.float64()


def test_a_column_that_some_files_lack_is_null_in_expressions(tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        folder = tmp_path / kind
        folder.mkdir()
        for name, table in {"a": {"x": [1, 2], "y": [3, 4]}, "b": {"x": [5, 6]}}.items():
            arrow = pa.table(table)
            write = pcsv.write_csv if kind == "csv" else pq.write_table
            write(arrow, folder / f"{name}.{kind}")
        shape = {"drop": "y", "derive": {"z": "coalesce(y, 0) + x"}}
        found = reading.read(source(folder, kind, shape, missing_columns="null"))
        assert found.to_pydict() == {"x": [1, 2, 5, 6], "z": [4, 6, 5, 6]}


def test_texts_of_csv_files_are_cast_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n7,1.50,2026-11-20\n8,2,\n")
    shape = {"rename": {"id": "number"}, "cast": {"number": "string", "x": "string", "y": "timestamp[us]"}}
    found = reading.read(source(tmp_path, "csv", shape))
    assert found["number"].to_pylist() == ["7", "8"]
    assert found["x"].to_pylist() == ["1.50", "2"]
    assert found.schema.field("y").type == pa.timestamp("us")


def test_a_csv_column_without_values_is_a_number_for_expressions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,\n2,\n")
    found = reading.read(source(tmp_path, "csv", {"drop": ["y"], "derive": {"z": "x * y"}}))
    assert found["z"].to_pylist() == [None, None]


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "select": (
        {"select": ["deck"]},
        SchemaMismatchError,
        r"select: .* no column 'deck'; did you mean 'dec'",
    ),
    "drop": ({"drop": ["flx"]}, SchemaMismatchError, r"drop: .* 'flx'; did you mean 'flux'"),
    "rename": ({"rename": {"flx": "f"}}, SchemaMismatchError, r"rename: .*'flx'"),
    "cast": ({"rename": {"flux": "f"}, "cast": {"flux": "int8"}}, SchemaMismatchError, r"cast: .*'flux'"),
    "taken": (
        {"derive": {"dec": "1"}},
        SchemaMismatchError,
        r"derive\.dec: .* write .*drop: \[dec\]",
    ),
    "case": ({"derive": {"DEC": "1"}}, ReservedColumnError, r"'dec' and 'DEC' differ only by case"),
    "clash": (
        {"rename": {"flux": "dec"}},
        SchemaMismatchError,
        r"rename: .* a column 'dec' already",
    ),
    "unknown": (
        {"derive": {"m": "2 *\n flx"}},
        SchemaMismatchError,
        r"derive\.m, at line 2, column 2: there is no column 'flx'; did you mean 'flux'",
    ),
    "later": ({"derive": {"p": "q", "q": "flux"}}, SchemaMismatchError, r"derive\.p, .*no column 'q'"),
    "text": ({"derive": {"m": "junk * 2"}}, SchemaMismatchError, r"column 1: a number is needed, .*string"),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_does_not_fit_the_files_is_said_before_a_row_is_read(
    tmp_path: Path, kind: str, mistake: str
) -> None:
    land(tmp_path / "in", kind, rows())
    shape, error, said = MISTAKES[mistake]
    shaped = source(tmp_path / "in", kind, shape)
    with pytest.raises(error, match=said):
        shaped.peek(shaped.list_files())


def test_a_value_that_does_not_fit_is_told_with_file_column_and_place(tmp_path: Path) -> None:
    land(tmp_path / "in", "parquet", rows())
    with pytest.raises(SchemaMismatchError, match=r"0\.parquet: .*cast\.flags: .*not in range"):
        reading.read(source(tmp_path / "in", "parquet", {"cast": {"flags": "int8"}}))
    shape = {"derive": {"big": "flags * 9223372036854775807"}}
    with pytest.raises(SchemaMismatchError, match=r"derive\.big, at line 1, column 7: .*beyond 64 bits"):
        reading.read(source(tmp_path / "in", "parquet", shape))


def test_what_catalogs_keep_for_themselves_may_be_dropped_where_it_is_not(tmp_path: Path) -> None:
    land(tmp_path / "in", "parquet", rows())
    found = reading.read(source(tmp_path / "in", "parquet", {"drop": ["_healpix_29", "Norder", "junk"]}))
    assert "junk" not in found.column_names


def test_a_source_without_shaping_is_read_by_its_own_reader_and_says_nothing_of_it(tmp_path: Path) -> None:
    spec = SourceSpec.model_validate({"uri": f"{tmp_path}/*", "format": "parquet"})
    assert not isinstance(open_source(spec), ShapedSource)
    assert "columns" not in spec.model_dump(mode="json")  # fingerprints of earlier versions hold
