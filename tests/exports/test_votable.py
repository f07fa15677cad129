"""VOTables are read back by astropy as they were written."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import votable
from hipslake.errors import SchemaMismatchError
from hipslake.exports.provenance import Provenance
from hipslake.exports.votable import VotableTables, votable_error
from hipslake.exports.writers import write_export
from hipslake.specs.export_formats import ExportFormat
from hypothesis import given
from hypothesis import strategies as st

ORIGIN = Provenance("stars", 3, "a <b> & c", attribution="\u00a9 Somebody", region="cone 1 2 3deg")


def read(table: pa.Table, **options: Any) -> Any:
    """Write a table, in pieces, and read it with astropy, which is strict about it."""
    sink = io.BytesIO()
    half = table.num_rows // 2
    pieces = [table.slice(0, half), table.slice(half)]
    assert VotableTables(**options).write(sink, table.schema, pieces, ORIGIN) == table.num_rows
    sink.seek(0)
    return votable.parse(sink, verify="exception")


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1)),
            st.one_of(st.none(), st.floats()),
            st.one_of(st.none(), st.floats(width=32)),
            st.one_of(st.none(), st.booleans()),
            st.one_of(st.none(), TEXTS),
        ),
        max_size=20,
    )
)
def test_values_are_read_back(rows: list[tuple[Any, ...]]) -> None:
    kinds = (pa.int64(), pa.float64(), pa.float32(), pa.bool_(), pa.string())
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    table = pa.table(columns, names=["long", "double", "float", "truth", "text"])
    found = read(table).get_first_table().array
    assert len(found) == len(rows)
    for at, name in enumerate(table.column_names):
        for row, value in zip(rows, found[name] if len(rows) else [], strict=True):
            expected = row[at]
            if name == "text":
                assert str(value).strip() == (expected or "").strip()  # astropy strips what it reads
            elif expected is None:
                assert value is np.ma.masked or (isinstance(value, float | np.floating) and math.isnan(value))
            elif isinstance(expected, float) and math.isnan(expected):
                assert value is np.ma.masked or math.isnan(value)
            else:
                assert value == expected


def test_fields_say_units_ucds_and_types() -> None:
    told = {"unit": "mag", "ucd": "phot.mag", "description": 'how <bright> & "so"'}
    schema = pa.schema(
        [
            pa.field("mag", pa.float32(), metadata=told),
            pa.field("when", pa.timestamp("us", "UTC")),
            pa.field("day", pa.date32()),
            pa.field("id", pa.uint64()),
            pa.field("price", pa.decimal128(6, 2)),
            pa.field("flux", pa.list_(pa.float64())),
            pa.field("band", pa.dictionary(pa.int8(), pa.string())),
            pa.field("key", pa.int32()),
            pa.field("raw", pa.binary()),
        ]
    )
    rows = [
        {
            "mag": 1.5,
            "when": datetime(2026, 1, 2, 3, 4, 5, 600, UTC),
            "day": date(2026, 1, 2),
            "id": 2**64 - 1,
            "price": Decimal("1.50"),
            "flux": [1.0, None, 3.5],
            "band": "g<",
            "key": 7,
            "raw": b"\xff",
        },
        dict.fromkeys(schema.names),
    ]
    parsed = read(pa.Table.from_pylist(rows, schema), ucds={"key": "meta.id;meta.main"}, chars=["key"])
    table = parsed.get_first_table()
    fields = {field.name: field for field in table.fields}
    assert (fields["mag"].unit, fields["mag"].ucd) == ("mag", "phot.mag")
    assert fields["mag"].description == told["description"]
    assert (fields["key"].datatype, fields["key"].ucd) == ("char", "meta.id;meta.main")
    assert fields["when"].xtype == "timestamp"
    first = table.array[0]
    assert str(first["when"]) == "2026-01-02T03:04:05.000600Z"
    assert str(first["day"]) == "2026-01-02"
    assert [str(first[name]) for name in ("id", "price", "band", "key", "raw")] == [
        str(2**64 - 1),
        "1.50",
        "g<",
        "7",
        "ff",
    ]
    assert first["flux"].tolist()[::2] == [1.0, 3.5]
    assert math.isnan(first["flux"][1])
    infos = {info.name: info.value for info in parsed.resources[0].infos}
    assert infos["catalog"] == "stars"
    assert infos["region"] == "cone 1 2 3deg"
    assert infos["QUERY_STATUS"] == "OK"


def test_names_of_columns_are_their_identifiers_where_xml_has_such() -> None:
    names = ["id", "B-V", "a b", "col2", "5", "\u03b1", "_x.y"]
    found = read(pa.table([[number] for number in range(7)], names=names)).get_first_table()
    assert [field.name for field in found.fields] == names
    identifiers = [field.ID for field in found.fields]
    assert identifiers == ["id", "B-V", "col2_", "col2", "col4", "col5", "_x.y"]


def test_what_xml_cannot_hold_is_replaced() -> None:
    found = read(pa.table({"text": ["a\x00b\x1f", "\ufffe", "tab\tline\nend\rx"]})).get_first_table().array
    assert [str(each) for each in found["text"]] == ["a\ufffdb\ufffd", "\ufffd", "tab\tline\nend\rx"]


def test_columns_without_a_form_are_refused() -> None:
    schema = pa.schema([("a", pa.int8()), ("nested", pa.list_(pa.struct([("x", pa.int8())])))])
    with pytest.raises(SchemaMismatchError, match="VOTable has no form for 'nested'"):
        VotableTables().check(schema)
    with pytest.raises(SchemaMismatchError, match="no null in an array of integers"):
        read(pa.table({"a": pa.array([[1, None], [2]], pa.list_(pa.int32()))}))


def test_an_export_is_a_file_and_an_empty_one_has_its_columns(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    done = write_export(f"{tmp_path}/a.vot", table.schema, [table], ExportFormat.of("a.vot"), ORIGIN)
    assert done.rows == 2
    assert votable.parse(f"{tmp_path}/a.vot", verify="exception").get_first_table().array["a"].tolist() == [
        1,
        2,
    ]
    assert [field.name for field in read(table.slice(0, 0)).get_first_table().fields] == ["a"]


def test_overflow_and_errors_are_told() -> None:
    sink = io.BytesIO()
    VotableTables().write(sink, pa.schema([("a", pa.int8())]), [], ORIGIN, overflow=True)
    sink.seek(0)
    infos = [(info.name, info.value) for info in votable.parse(sink, verify="exception").resources[0].infos]
    assert ("QUERY_STATUS", "OVERFLOW") in infos
    wrong = votable.parse(io.BytesIO(votable_error('RA is "<x>\x00"')), verify="exception")
    infos = [(info.name, info.value) for info in wrong.resources[0].infos]
    assert ("Error", 'RA is "<x>\ufffd"') in infos
    assert ("QUERY_STATUS", "ERROR") in infos
