"""FITS exports, as astropy reads them, and as we read them back."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import fits
from astropy.table import Table
from hipslake.errors import SchemaMismatchError
from hipslake.exports.fits import FitsTables
from hipslake.exports.provenance import Provenance
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.reading import read, source

ORIGIN = Provenance("stars", 3, "made up", "© Somebody, CC BY", "cone 1 2 3deg", "mag < 3")
ASCII = st.characters(min_codepoint=32, max_codepoint=126)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def written(table: pa.Table, pieces: int = 3) -> bytes:
    file = io.BytesIO()
    size = -(-len(table) // pieces) or 1
    parts = [table.slice(start, size) for start in range(0, len(table), size)]
    FitsTables().check(table.schema)
    assert FitsTables().write(file, table.schema, parts, ORIGIN) == len(table)
    assert len(file.getvalue()) % 2880 == 0
    return file.getvalue()


def everything() -> pa.Table:
    columns = {kind: pa.array([1, 0, np.iinfo(kind).max, 7], getattr(pa, kind)()) for kind in INTEGERS}
    sparse = {
        f"{name}?": pa.array([9, None, 0, 255], column.type)
        for name, column in columns.items()
        if name != "int8"
    }
    return pa.table(
        {
            **columns,
            **sparse,
            "int8?": pa.array([-128, None, 127, 0], pa.int8()),
            "uint64??": pa.array([0, None, 2**63 - 1, 3], pa.uint64()),
            "full": pa.array([np.iinfo("i4").min, 1, 2, np.iinfo("i4").max], pa.int32()),
            "float32": pa.array([1.5, None, float("nan"), -0.0], pa.float32()),
            "float64": pa.array([0.1, None, float("inf"), 1e300]),
            "float16": pa.array(np.array([1, 2, 3, 4], "f2")),
            "flag": [True, None, False, True],
            "name": ["a", None, "", "longer"],
            "kind": pa.array(["x", "y", None, "x"]).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0], None, [None, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
            "counts": pa.array([[1, 2, 3], None, [4, 5, 6], [7, 8, 9]], pa.list_(pa.int16(), 3)),
            "one": pa.array([[1], [2], [3], [4]], pa.list_(pa.int64(), 1)),
            "moment": pa.array([0, None, 1_000_000, 2_500], pa.timestamp("ms", "Europe/Paris")),
            "day": pa.array([0, None, 1, 2], pa.date32()),
            "exact": pa.array(["1.50", None, "2.25", "3.00"]).cast(pa.decimal128(6, 2)),
        }
    )


def test_astropy_reads_every_type_with_its_nulls() -> None:
    table = everything()
    found = Table.read(io.BytesIO(written(table)), hdu=1, character_as_bytes=False)
    assert found.colnames == table.column_names
    for name in (*INTEGERS, *(f"{kind}?" for kind in INTEGERS), "uint64??"):
        assert found[name].tolist() == table[name].to_pylist(), name
    assert found["full"].tolist() == table["full"].to_pylist()
    assert np.ma.filled(found["float64"], np.nan).tolist()[2:] == [float("inf"), 1e300]
    assert np.isnan(np.ma.filled(found["float32"], np.nan)).tolist() == [False, True, True, False]
    assert found["flag"].tolist()[::2] == [True, False]
    assert [str(value) for value in np.ma.filled(found["name"], "")] == ["a", "", "", "longer"]
    assert np.isnan(np.ma.filled(found["vector"], np.nan)).tolist() == [
        [False] * 2,
        [True] * 2,
        [True, False],
        [False] * 2,
    ]
    assert found["counts"][2].tolist() == [4, 5, 6]
    assert found["counts"][1].tolist() == [None] * 3
    assert found["one"].shape == (4,)
    assert str(found["moment"][2]) == "1970-01-01T00:16:40.000"
    assert str(found["day"][3]) == "1970-01-03"
    assert found["exact"].tolist()[2] == 2.25


def test_we_read_back_what_we_wrote(tmp_path: Path) -> None:
    table = everything()
    (tmp_path / "stars.fits").write_bytes(written(table))
    found = read(source("fits", tmp_path / "stars.fits"))
    for name in (*INTEGERS, "full", "flag", "name", "float64", "int16?", "int64?"):
        assert found[name].to_pylist() == table[name].to_pylist(), name
        assert found.schema.field(name).type == table.schema.field(name).type, name
    for name in (f"{kind}?" for kind in INTEGERS):
        assert found[name].to_pylist() == table[name].to_pylist(), name
    assert found["vector"].to_pylist() == [[1.0, 2.0], [None, None], [None, 4.0], [5.0, 6.0]]
    assert found["counts"].to_pylist() == [[1, 2, 3], [None] * 3, [4, 5, 6], [7, 8, 9]]
    assert found["one"].to_pylist() == [1, 2, 3, 4]
    assert found["kind"].to_pylist() == table["kind"].to_pylist()


def test_units_descriptions_and_the_origin_are_in_the_header() -> None:
    schema = pa.schema(
        [
            pa.field("ra", pa.float64(), metadata={"unit": "deg", "description": "right ascension, " * 12}),
            pa.field("w", pa.float32(), metadata={"unit": "Å", "description": "über"}),
        ]
    )
    data = written(pa.table([[1.0], [2.0]], schema=schema.set(1, schema.field(1).with_type(pa.float64()))))
    with fits.open(io.BytesIO(data)) as hdus:
        hdus.verify("exception")
        head = hdus[1].header
        assert (hdus[1].name, head["TUNIT1"], head["TCOMM2"]) == ("stars", "deg", "?ber")
        assert head["TCOMM1"].strip() == ("right ascension, " * 12).strip()
        assert "TUNIT2" not in head
        history = "".join(head["HISTORY"])
        assert "version: 3" in history
        assert "? Somebody, CC BY" in history
        assert "mag < 3" in history


def test_no_rows_are_a_table_without_rows() -> None:
    table = everything().slice(0, 0)
    found = Table.read(io.BytesIO(written(table)), hdu=1)
    assert (len(found), found.colnames) == (0, table.column_names)


@given(
    st.lists(st.one_of(st.none(), st.integers(-128, 127)), max_size=20),
    st.lists(st.one_of(st.none(), st.text(ASCII, max_size=5)), max_size=20),
)
def test_any_integers_and_texts_come_back(numbers: list[int | None], texts: list[str | None]) -> None:
    rows = min(len(numbers), len(texts))
    table = pa.table({"n": pa.array(numbers[:rows], pa.int8()), "t": pa.array(texts[:rows], pa.string())})
    found = Table.read(io.BytesIO(written(table, 2)), hdu=1)
    assert found["n"].tolist() == table["n"].to_pylist()
    # Blanks at the end are not kept by FITS.
    assert [str(text) for text in np.ma.filled(found["t"], "")] == [
        (text or "").rstrip(" ") for text in texts[:rows]
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], [2, 3]]), "no form for column 'c' \\(list"),
        (pa.array([{"a": 1}, None]), "no form for column 'c' \\(struct"),
        (pa.array([b"x", None]), "no form for column 'c' \\(binary"),
        (pa.array([["a"], ["b"]], pa.list_(pa.string(), 1)), "no form for column 'c'"),
        (pa.array(["a", "é"]), "'c' holds 'é', and texts in FITS are ASCII"),
        (pa.array([-(2**63), 2**63 - 1, None], pa.int64()), "no integer that FITS can hold is left"),
        (pa.array([2**63, None], pa.uint64()), "no integer that FITS can hold is left"),
    ],
)
def test_what_fits_has_no_form_for_is_named(column: pa.Array, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        written(pa.table({"c": column}), 1)


def test_names_and_numbers_of_columns() -> None:
    with pytest.raises(SchemaMismatchError, match="ASCII, not 'ß'"):
        FitsTables().check(pa.schema([("ß", pa.int8())]))
    for name in (" ", "a "):
        with pytest.raises(SchemaMismatchError, match=f"do not end with blanks, as '{name}'"):
            FitsTables().check(pa.schema([(name, pa.int8())]))
    with pytest.raises(SchemaMismatchError, match="1 to 999 columns, not 1000"):
        FitsTables().check(pa.schema([(f"c{i}", pa.int8()) for i in range(1000)]))


def test_durations_are_integers_of_their_unit() -> None:
    spans = pa.array([5, None, -(2**62)], pa.duration("ns"))
    schema = pa.schema(
        [
            pa.field("span", spans.type),
            pa.field("told", pa.duration("s"), metadata={"unit": "s", "ucd": "time.duration"}),
        ]
    )
    table = pa.table([spans, pa.array([1, 2, 3], pa.duration("s"))], schema=schema)
    with fits.open(io.BytesIO(written(table))) as hdus:
        assert [column.format for column in hdus[1].columns] == ["K", "K"]
        assert [column.unit for column in hdus[1].columns] == ["ns", "s"]
        assert hdus[1].header["TUCD2"] == "time.duration"
    found = Table.read(io.BytesIO(written(table)), hdu=1)
    assert found["span"].tolist() == [5, None, -(2**62)]
    assert found["told"].tolist() == [1, 2, 3]


def test_times_that_no_calendar_has_are_told_as_numbers() -> None:
    table = pa.table({"t": pa.array([2**62, 0], pa.timestamp("us", "UTC"))})
    found = Table.read(io.BytesIO(written(table)), hdu=1, character_as_bytes=False)
    assert [str(each) for each in found["t"]] == [
        f"<value out of range: {2**62}>",
        "1970-01-01T00:00:00.000000",
    ]
