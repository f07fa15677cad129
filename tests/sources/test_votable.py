"""VOTable: what astropy wrote comes out as it was, as text and as bytes, whole or in small pieces."""

from __future__ import annotations

import base64
import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.io.votable import from_table, writeto
from astropy.table import MaskedColumn, Table
from hipslake.errors import (
    CorruptFileError,
    EmptySourceError,
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
)
from hipslake.sources import Source
from hipslake.sources.votable import source as votable_module
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import read, source, told

NAMESPACE = 'version="1.4" xmlns="http://www.ivoa.net/xml/VOTable/v1.3"'


def votable_source(folder: Path, **options: Any) -> Source:
    return source("votable", f"{folder}/*", **options)


def document(fields: str, data: str) -> str:
    return f"<VOTABLE {NAMESPACE}><RESOURCE><TABLE>{fields}<DATA>{data}</DATA></TABLE></RESOURCE></VOTABLE>"


INT = '<FIELD name="v" datatype="int"/>'


def text_rows(*rows: str) -> str:
    return "<TABLEDATA>" + "".join(f"<TR><TD>{row}</TD></TR>" for row in rows) + "</TABLEDATA>"


def text_table(folder: Path, field: str, *cells: str, **options: Any) -> pa.Table:
    """A table of one field, written as text."""
    (folder / "a.vot").write_text(document(f'<FIELD name="v" {field}/>', text_rows(*cells)))
    return read(votable_source(folder, **options))


def binary_table(folder: Path, fields: str, content: bytes, *, kind: str = "BINARY2") -> pa.Table:
    lines = base64.encodebytes(content).decode()
    data = f'<{kind}><STREAM encoding="base64">\n{lines}</STREAM></{kind}>'
    (folder / "a.vot").write_text(document(fields, data))
    return read(votable_source(folder))


def masked(values: Any, mask: list[int], **told: Any) -> MaskedColumn:
    return MaskedColumn(values, mask=np.array(mask, bool), **told)


@pytest.mark.parametrize("kind", ["tabledata", "binary2"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_table_of_astropy_comes_out_with_values_nulls_units_and_descriptions(
    tmp_path: Path, kind: str, suffix: str
) -> None:
    table = Table(
        {
            "id": np.array([2**62 + 1, -1, 0]),
            "mag": masked(np.array([12.5, 1, 3], "f4"), [0, 1, 0], unit="mag", description="G <band> & more"),
            "n": masked(np.array([1, 2, 3], "i2"), [0, 0, 1], unit="count"),
            "byte": np.array([0, 255, 7], "u1"),
            "name": masked(["Σ", "b & b", "ccc"], [0, 0, 1]),
            "ok": masked([True, False, True], [0, 0, 1]),
            "cube": np.arange(12.0).reshape(3, 2, 2),
            "z": np.array([1 + 2j, 0, -1j], "c8"),
        }
    )
    path = tmp_path / "a.vot"
    writeto(from_table(table), str(path), tabledata_format=kind)
    if suffix:
        content = path.read_bytes()
        path.unlink()
        zstd = pa.Codec("zstd").compress(content, asbytes=True)
        (tmp_path / f"a.vot{suffix}").write_bytes(gzip.compress(content) if suffix == ".gz" else zstd)
    found = read(votable_source(tmp_path))
    assert found.to_pydict() == {
        "id": [2**62 + 1, -1, 0],
        "mag": [12.5, None, 3.0],
        "n": [1, 2, None],
        "byte": [0, 255, 7],
        "name": ["Σ", "b & b", None],
        "ok": [True, False, None],
        "cube": table["cube"].tolist(),
        "z": [{"real": z.real, "imaginary": z.imag} for z in (1 + 2j, 0j, -1j)],
    }
    assert found.schema.types[:-1] == [
        *(pa.int64(), pa.float32(), pa.int16(), pa.uint8(), pa.string(), pa.bool_()),
        pa.list_(pa.list_(pa.float64(), 2), 2),
    ]
    assert told(found, "mag") == ("mag", "G <band> & more")
    assert told(found, "n") == ("count", None)


@pytest.mark.parametrize(
    ("field", "cells", "values"),
    [
        ('datatype="int"', ["1", " +2 ", "", "-2147483648"], [1, 2, None, -(2**31)]),
        ('datatype="double"', ["1e3", "NaN", "+Inf", "-Inf", ""], [1000.0, None, np.inf, -np.inf, None]),
        ('datatype="boolean"', ["T", "true", "1", "?", ""], [True, True, True, None, None]),
        ('datatype="boolean"', ["f", "FALSE", "0"], [False, False, False]),
        ('datatype="bit"', ["1", "0", ""], [True, False, None]),
        ('datatype="char" arraysize="*"', ["a &amp; b", "", "é"], ["a & b", None, "é"]),
        ('datatype="char" arraysize="*"', ["<![CDATA[<x>]]>"], ["<x>"]),
        ('datatype="unicodeChar" arraysize="9"', ["Σείριος"], ["Σείριος"]),
        ('datatype="char" arraysize="*" xtype="timestamp"', ["2026-11-21T00:00:00"], ["2026-11-21T00:00:00"]),
        ('datatype="short" arraysize="2"', ["1 2", "", " 3\n4 "], [[1, 2], None, [3, 4]]),
        ('datatype="float" arraysize="*"', ["1 NaN", "", "3"], [[1, None], None, [3]]),
        ('datatype="int" arraysize="3*"', ["1", "", "1 2 3"], [[1], None, [1, 2, 3]]),
        ('datatype="int" arraysize="3x2"', ["1 2 3 4 5 6", ""], [[[1, 2, 3], [4, 5, 6]], None]),
        ('datatype="int" arraysize="2x*"', ["1 2 3 4", "", "5 6"], [[[1, 2], [3, 4]], None, [[5, 6]]]),
        ('datatype="int" arraysize="1"', ["1", ""], [1, None]),
        ('datatype="boolean" arraysize="*"', ["T F ?"], [[True, False, None]]),
    ],
)  # fmt: skip
def test_text_becomes_values(tmp_path: Path, field: str, cells: list[str], values: list[Any]) -> None:
    assert text_table(tmp_path, field, *cells)["v"].to_pylist() == values


def test_values_that_the_field_calls_null_are_null(tmp_path: Path) -> None:
    fields = '<FIELD name="v" datatype="int"><VALUES null="-99"/></FIELD>'
    rows = "<TABLEDATA><TR><TD>-99</TD></TR><TR><TD>1</TD></TR></TABLEDATA>"
    (tmp_path / "a.vot").write_text(document(fields, rows))
    assert read(votable_source(tmp_path))["v"].to_pylist() == [None, 1]
    assert binary_table(tmp_path, fields, struct.pack(">ii", -99, 1), kind="BINARY")["v"].to_pylist() == [
        None,
        1,
    ]


def test_nan_is_null_unless_the_spec_keeps_it(tmp_path: Path) -> None:
    kept = text_table(tmp_path, 'datatype="float"', "NaN", "", nan_is_null=False)
    assert str(kept["v"].to_pylist()) == "[nan, None]"


BINARY_FIELDS = """
<FIELD name="id" datatype="long"/><FIELD name="text" datatype="char" arraysize="*"/>
<FIELD name="flag" datatype="boolean"/><FIELD name="wide" datatype="unicodeChar" arraysize="*"/>
<FIELD name="bits" datatype="bit" arraysize="11"/><FIELD name="list" datatype="float" arraysize="*"/>
<FIELD name="few" datatype="bit" arraysize="*"/><FIELD name="fixed" datatype="char" arraysize="4"/>
<FIELD name="pair" datatype="short" arraysize="2"/>"""


def binary_row(
    number: int, text: str, flag: bytes, wide: str, bits: list[bool], floats: list[float], nulls: bytes
) -> bytes:
    packed, few = np.packbits(bits).tobytes(), np.packbits(bits[:3]).tobytes()
    utf16 = wide.encode("utf-16-be")
    return b"".join(
        [
            nulls,
            struct.pack(">q", number),
            struct.pack(">i", len(text.encode())) + text.encode(),
            flag,
            struct.pack(">i", len(utf16) // 2) + utf16,
            packed,
            struct.pack(f">i{len(floats)}f", len(floats), *floats),
            struct.pack(">i", 3) + few,
            b"ab\0z",
            struct.pack(">hh", number % 7, -1),
        ]
    )


@settings(max_examples=examples(25))
@given(st.integers(1, 60), st.integers(1, 5000), st.integers(0, 1000))
def test_bytes_become_values_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, rows: int, chunk_bytes: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("binary")
    rng = np.random.default_rng(seed)
    content, expected = [], []
    for row in range(rows):
        bits, flags = (rng.random(11) < 0.5).tolist(), (rng.random(9) < 0.3).tolist()
        floats = rng.integers(0, 9, row % 4).astype(float).tolist()
        text, wide = "é" * (row % 3) + "x", "Σ𝄞"[: row % 3] + "y"
        content.append(
            binary_row(row, text, b"T?F"[row % 3 :][:1], wide, bits, floats, np.packbits(flags).tobytes())
        )
        values = [row, text, (True, None, False)[row % 3], wide, bits, floats, bits[:3], "ab", [row % 7, -1]]
        expected.append([None if null else value for value, null in zip(values, flags, strict=True)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votable_module, "_CHUNK_BYTES", chunk_bytes)
        found = binary_table(folder, BINARY_FIELDS, b"".join(content))
    assert [list(row.values()) for row in found.to_pylist()] == expected


def test_rows_of_text_come_in_order_from_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"<TR><TD>{row}</TD><TD>star &lt;{row}&gt;</TD></TR>\n" for row in range(500))
    fields = '<FIELD name="a" datatype="int"/><FIELD name="b" datatype="char" arraysize="*"/>'
    (tmp_path / "a.vot").write_text(document(fields, f"<TABLEDATA>{rows}</TABLEDATA>"))
    for size in (1, 7, 1000):
        monkeypatch.setattr(votable_module, "_CHUNK_BYTES", size)
        found = read(votable_source(tmp_path))
        assert found["a"].to_pylist() == list(range(500))
        assert found["b"].to_pylist() == [f"star <{row}>" for row in range(500)]


def several(folder: Path) -> None:
    def table(name: str, attributes: str) -> str:
        field = f'<FIELD name="{name}" datatype="int"/>'
        return f"<TABLE {attributes}>{field}<DATA><TABLEDATA><TR><TD>1</TD></TR></TABLEDATA></DATA></TABLE>"

    first, second = table("a", ""), table("b", 'ID="t2" name="second"')
    third = table("c", 'name="third"')
    (folder / "a.vot").write_text(
        f"<?xml version='1.0'?><VOTABLE {NAMESPACE}><RESOURCE>{first}<RESOURCE>{second}</RESOURCE></RESOURCE>"
        f"<RESOURCE>{third}</RESOURCE></VOTABLE>"
    )


@pytest.mark.parametrize(
    ("table", "column"),
    [(None, "a"), (0, "a"), (1, "b"), ("t2", "b"), ("second", "b"), (2, "c"), ("third", "c")],
)
def test_the_table_is_named_by_number_id_or_name_and_else_the_first(
    tmp_path: Path, table: int | str | None, column: str
) -> None:
    several(tmp_path)
    assert read(votable_source(tmp_path, table=table)).to_pydict() == {column: [1]}


def test_a_table_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    several(tmp_path)
    with pytest.raises(
        InputError, match=r"a\.vot has no table 'x'; its tables are 0 \(no name\), 1 second, 2"
    ):
        read(votable_source(tmp_path, table="x"))


def test_the_answer_of_a_service_that_failed_is_told_as_such(tmp_path: Path) -> None:
    info = '<INFO name="QUERY_STATUS" value="ERROR">no such column</INFO>'
    (tmp_path / "a.vot").write_text(f"<VOTABLE {NAMESPACE}><RESOURCE>{info}</RESOURCE></VOTABLE>")
    with pytest.raises(InputError, match="QUERY_STATUS is ERROR: no such column"):
        read(votable_source(tmp_path))


def test_prefixes_of_namespaces_do_not_matter(tmp_path: Path) -> None:
    text_table(tmp_path, 'datatype="int"', "1")
    plain = (tmp_path / "a.vot").read_text().replace("xmlns=", "xmlns:v=")
    (tmp_path / "a.vot").write_text(plain.replace("</", "\0").replace("<", "<v:").replace("\0", "</v:"))
    assert read(votable_source(tmp_path)).to_pydict() == {"v": [1]}


def test_tables_without_rows_and_empty_files_are_fine_among_others(tmp_path: Path) -> None:
    (tmp_path / "b.vot").touch()
    (tmp_path / "d.vot.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(EmptySourceError):
        read(votable_source(tmp_path))
    field = '<FIELD name="v" datatype="int"/>'
    (tmp_path / "c.vot").write_text(
        f"<VOTABLE {NAMESPACE}><RESOURCE><TABLE>{field}</TABLE></RESOURCE></VOTABLE>"
    )
    assert text_table(tmp_path, 'datatype="int"').to_pydict() == {"v": []}
    assert text_table(tmp_path, 'datatype="int"', "1").to_pydict() == {"v": [1]}


def test_selected_columns_come_alone_and_rows_count_without_any(tmp_path: Path) -> None:
    text_table(tmp_path, 'datatype="int"', "1", "2")
    (tmp_path / "b.vot").write_text((tmp_path / "a.vot").read_text().replace('name="v"', 'name="w"'))
    filled = votable_source(tmp_path, missing_columns="null")
    assert read(filled, columns=["w"])["w"].to_pylist() == [None, None, 1, 2]


@pytest.mark.parametrize(
    ("field", "data", "error", "message"),
    [
        ('name="v" datatype="whole"', "", CorruptFileError, r"a\.vot: column 'v': datatype 'whole' is none"),
        (
            'name="v" datatype="int" arraysize="x"',
            "",
            CorruptFileError,
            r"column 'v': arraysize 'x' is no size",
        ),
        ('name="v" datatype="int" arraysize="99999x99999"', "", CorruptFileError, r"'99999x99999' is more"),
        ('name="v" datatype="char" arraysize="3x*"', "", InputError, r"column 'v' holds arrays of texts"),
        ('datatype="int"', "", SchemaMismatchError, r"a FIELD has no name"),
        ('name="v" datatype="int"', text_rows("q"), CorruptFileError, r"from row 1 on: column 'v': .*'q'"),
        ('name="v" datatype="boolean"', text_rows("q"), CorruptFileError, r"column 'v': 'q' is no boolean"),
        ('name="v" datatype="floatComplex"', text_rows("1"), CorruptFileError, r"one part only"),
        (
            'name="v" datatype="int" arraysize="2"',
            text_rows("1 2", "1 2 3"),
            CorruptFileError,
            r"column 'v': the cell in row 2 of these has 3 values, not 2",
        ),
        (
            'name="v" datatype="int"',
            "\n" + text_rows("1</TD><TD>2"),
            CorruptFileError,
            r"line 2: a row with 2 cells, but there are 1 fields",
        ),
        (
            'name="v" datatype="int"',
            text_rows("1").replace("<TD>", "<TD encoding='base64'>"),
            InputError,
            r"encoded cells are not read",
        ),
        ('name="v" datatype="int"', "<FITS/>", InputError, r"rows within FITS are not read"),
        (
            'name="v" datatype="int"',
            '<BINARY2><STREAM href="file:///etc/passwd"/></BINARY2>',
            InputError,
            r"the rows lie in another file",
        ),
        ('name="v" datatype="int"', "<BINARY><STREAM>@@@@</STREAM></BINARY>", CorruptFileError, "no base64"),
    ],
)
def test_damage_is_told_with_file_and_column(
    tmp_path: Path, field: str, data: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "a.vot").write_text(document(f"<FIELD {field}/>", data))
    with pytest.raises(error, match=message):
        read(votable_source(tmp_path))


def test_names_that_differ_only_by_case_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.vot").write_text(document(INT + INT.replace('"v"', '"V"'), ""))
    with pytest.raises(ReservedColumnError, match=r"a\.vot: column 'v' and 'V' differ only by case"):
        read(votable_source(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello", r"a\.vot is truncated, damaged, or no XML: .*line 1"),
        ("<?xml version='1.0' encoding='utf-9'?><VOTABLE/>", r"a\.vot is .*no XML: unknown encoding"),
        ("<?xml version='1.0' encoding='shift-jis'?><VOTABLE/>", r"a\.vot is .*no XML: multi-byte"),
        ("<html></html>", r"a\.vot is no VOTable: its root element is html"),
    ],
)
def test_a_file_that_is_none_of_votable_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.vot").write_text(content)
    with pytest.raises(CorruptFileError, match=message):
        read(votable_source(tmp_path))


def test_bytes_that_end_within_a_row_are_told(tmp_path: Path) -> None:
    row = binary_row(1, "x", b"T", "y", [True] * 11, [1.0], b"\0\0")
    with pytest.raises(CorruptFileError, match=r"a\.vot is truncated: it ends in row 2"):
        binary_table(tmp_path, BINARY_FIELDS, row + row[:-1])
    with pytest.raises(CorruptFileError, match=r"is truncated: it ends in row 2"):
        binary_table(tmp_path, INT, bytes(6), kind="BINARY")
    negative = b"\0\0" + bytes(8) + b"\xff\xff\xff\xff"
    with pytest.raises(CorruptFileError, match=r"column 'text': a length is negative"):
        binary_table(tmp_path, BINARY_FIELDS, negative)


@settings(max_examples=examples(60))
@given(st.floats(0, 1))
def test_a_file_that_ends_anywhere_is_named(tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    folder = tmp_path_factory.mktemp("cut")
    text_table(folder, 'datatype="int"', *map(str, range(50)))
    content = (folder / "a.vot").read_bytes()
    (folder / "a.vot").write_bytes(content[: int((len(content) - 1) * share)])
    with pytest.raises(InputError, match=r"a\.vot|is empty"):
        read(votable_source(folder))


def test_entities_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE v [<!ENTITY a0 "x">{entities}]>'
    made = document(
        '<FIELD name="v" datatype="char" arraysize="*"/>', "<TABLEDATA><TR><TD>&a9;</TD></TR></TABLEDATA>"
    )
    (tmp_path / "a.vot").write_text(bomb + made)
    with pytest.raises(CorruptFileError, match=r"a\.vot is truncated, damaged, or no XML"):
        read(votable_source(tmp_path))
