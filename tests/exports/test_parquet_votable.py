"""VOTables in the footers of Parquet files, as astropy and its VOTable parser read them."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.io import votable
from astropy.table import Table
from hipslake.exports.parquet_votable import CONTENT, VERSION, FooterVotable
from hipslake.exports.provenance import Provenance
from hipslake.exports.votable_columns import NAMESPACE
from hipslake.exports.writers import write_rows
from hipslake.specs.export_formats import ExportFormat
from hypothesis import given
from hypothesis import strategies as st

SAID = {
    "ra": {"unit": "deg", "ucd": "pos.eq.ra;meta.main", "description": 'Right ascension, "ICRS" <&>'},
    "flux": {"unit": "nJy", "ucd": "phot.flux;em.opt.G"},
    "id": {"description": "Identifier,\nünique"},
}
COLUMNS: dict[str, list[Any]] = {
    "id": [1, 2, 3],
    "ra": [0.5, 1.5, 2.5],
    "flux": [1.0, -2.0, 0.0],
    "band": ["g", "r", "é"],
    "good": [True, False, True],
    "little": [1, -1, 0],
    "list": [[1.0], [2.0, 3.0], [4.0]],
}
TYPES = {"little": pa.int8(), "flux": pa.float32(), "list": pa.list_(pa.float64())}


def table(columns: dict[str, list[Any]], said: dict[str, dict[str, str]]) -> pa.Table:
    fields = [
        pa.field(name, TYPES.get(name) or pa.array(values).type, metadata=said.get(name))
        for name, values in columns.items()
    ]
    return pa.table(columns, schema=pa.schema(fields))


def written(path: Path, rows: pa.Table) -> Path:
    with path.open("wb") as file:
        write_rows(file, rows.schema, [rows], ExportFormat.PARQUET, Provenance("stars", 3))
    return path


def votable_entries(schema: pa.Schema, known: dict[str, dict[str, str]] | None = None) -> dict[str, str]:
    return FooterVotable(schema, known).entries()


def fields_of(entries: dict[str, str]) -> list[Any]:
    document = votable.parse(io.BytesIO(entries[CONTENT].encode()), verify="exception")
    return list(document.get_first_table().fields)


def test_astropy_shows_units_ucds_and_descriptions_beside_the_values(tmp_path: Path) -> None:
    rows = table(COLUMNS, SAID)
    found = Table.read(written(tmp_path / "a.parquet", rows), format="parquet.votable")
    assert found.colnames == rows.column_names
    for name in rows.column_names:
        said, column = SAID.get(name, {}), found[name]
        assert (str(column.unit) if column.unit else None) == said.get("unit")
        assert column.meta.get("ucd") == said.get("ucd")
        assert (column.description or None) == said.get("description")
        assert [np.asarray(value).tolist() for value in column] == COLUMNS[name]


def test_each_column_is_a_field_in_its_order_whatever_its_type() -> None:
    kinds = {
        "struct": pa.struct([("a", pa.int8())]),
        "map": pa.map_(pa.string(), pa.int8()),
        "lists": pa.list_(pa.list_(pa.int8())),
        "unsigned": pa.uint64(),
        "time": pa.timestamp("us", "UTC"),
        "night": pa.date32(),
        "decimal": pa.decimal128(20, 3),
        "bytes": pa.binary(),
        "none": pa.null(),
        "words": pa.dictionary(pa.int8(), pa.string()),
        "moment": pa.time64("ns"),
        "long": pa.duration("ms"),
        "fixed": pa.list_(pa.float32(), 3),
        "a b&<": pa.float16(),
        "col9": pa.bool_(),
    }
    schema = pa.schema([pa.field(name, kind, metadata={"ucd": "meta"}) for name, kind in kinds.items()])
    entries = votable_entries(schema)
    assert entries[VERSION] == "1.0"
    assert [field.name for field in fields_of(entries)] == list(kinds)
    assert len({field.ID for field in fields_of(entries)}) == len(kinds)
    assert all(field.datatype and field.ucd == "meta" for field in fields_of(entries))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("time", [dt.datetime(2026, 1, 2), None]),
        ("words", ["a", "bb"]),
        ("unsigned", [2**64 - 1, 0]),
        ("lists", [[1.5], [2.5, 3.5]]),
        ("blobs", [b"a", b"bb"]),
        ("long", [dt.timedelta(1), dt.timedelta(2)]),
        ("none", [None, None]),
        ("night", [dt.date(2026, 1, 2), dt.date(2026, 1, 3)]),
        ("flags", [True, None]),
        ("counts", [1, None]),
    ],
)
def test_astropy_opens_what_it_would_open_without(tmp_path: Path, name: str, values: list[Any]) -> None:
    kind = pa.uint64() if name == "unsigned" else None
    column = pa.array(values, kind)
    rows = pa.table(
        [[1.0] * len(values), column],
        schema=pa.schema([pa.field("ra", pa.float64(), metadata=SAID["ra"]), pa.field(name, column.type)]),
    )
    path = written(tmp_path / "a.parquet", rows)
    plain = Table.read(path, format="parquet")
    found = Table.read(path, format="parquet.votable")
    assert str(found["ra"].unit) == "deg"
    assert [str(value) for value in found[name]] == [str(value) for value in plain[name]]


def test_exports_to_parquet_have_it_beside_their_origin(tmp_path: Path) -> None:
    rows = table(COLUMNS, SAID)
    path = written(tmp_path / "a.parquet", rows)
    assert pq.read_metadata(path).metadata[b"hipslake.version"] == b"3"
    assert pq.read_schema(path).equals(rows.schema)
    assert pq.read_table(path).equals(rows)


def test_texts_are_declared_as_long_as_the_longest_in_all_row_groups() -> None:
    schema = pa.schema([pa.field("band", pa.string(), metadata={"ucd": "instr.bandpass"})])
    found = FooterVotable(schema)
    assert fields_of(found.entries())[0].arraysize == "*"
    for texts, longest in (([None, ""], 1), (["ééé", "g"], 3), (["rr"], 3)):
        found.add(pa.table({"band": texts}, schema=schema))
        assert fields_of(found.entries())[0].arraysize == f"{longest}*"


def test_nothing_is_written_where_nothing_is_said() -> None:
    plain = pa.schema([("ra", pa.float64()), pa.field("dec", pa.float64(), metadata={"note": "x"})])
    assert votable_entries(plain) == {}
    assert votable_entries(plain, {"ra": {"ucd": "pos.eq.ra"}}) == {}


def test_what_is_known_stands_where_the_metadata_are_silent() -> None:
    schema = pa.schema(
        [pa.field("ra", pa.float64(), metadata={"ucd": "meta"}), pa.field("dec", pa.float64())]
    )
    known = {"ra": {"ucd": "pos.eq.ra", "unit": "deg"}, "dec": {"ucd": "pos.eq.dec"}}
    found = fields_of(votable_entries(schema, known))
    assert [(field.ucd, str(field.unit or "")) for field in found] == [("meta", "deg"), ("pos.eq.dec", "")]


def test_a_ucd_that_no_votable_can_hold_is_left_out() -> None:
    schema = pa.schema([pa.field("a", pa.float64(), metadata={"ucd": "not a ucd", "unit": "m"})])
    assert fields_of(votable_entries(schema))[0].ucd is None


@given(
    texts=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=6, unique=True),
    said=st.text(max_size=30),
)
def test_any_name_and_any_description_is_sound_xml(texts: list[str], said: str) -> None:
    schema = pa.schema([pa.field(name, pa.int32(), metadata={"description": said}) for name in texts])
    entries = votable_entries(schema)
    if not said:
        assert entries == {}
        return
    fields = list(ElementTree.fromstring(entries[CONTENT].encode()).iter(f"{{{NAMESPACE}}}FIELD"))
    shown = [field.get("name") for field in fields]
    assert shown == [_xml(name) for name in texts]
    assert len({field.get("ID") for field in fields}) == len(texts)
    assert entries == votable_entries(schema)


def _xml(text: str) -> str:
    """A text without what XML 1.0 has no signs for."""
    whole = text.encode("utf-8", "replace").decode()
    return "".join(sign if sign in "\t\n\r" or sign >= " " else "\ufffd" for sign in whole).translate(
        {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}
    )
