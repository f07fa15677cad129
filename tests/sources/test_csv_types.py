"""CSV types: they hold every value, and do not depend on how the files are cut."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.specs.source_spec import _PLAIN_TYPES
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import csv_source, csv_table, read


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (["1", "-2"], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["1", "1e3", "inf", "nan"], pa.float64()),
        (["0", "18446744073709551615"], pa.uint64()),
        (["-1", "18446744073709551615"], pa.string()),
        (["123456789012345678901234567890"], pa.string()),
        (["1e30", "9223372036854775808"], pa.float64()),  # 2**63, which a float holds exactly
        (["4611686018427387905", "nan"], pa.string()),
        (["4611686018427387905", "1.5"], pa.string()),
        (["4611686018427387904", "1.5"], pa.float64()),
        (["9223372036854775809", "0.5"], pa.string()),
        (["9007199254740993", "nan"], pa.string()),
        (["true", "False"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["0x10", "1"], pa.int64()),
        (["0x10", "1.5"], pa.string()),
        (["0x10", "9223372036854775808"], pa.uint64()),
        (["0x10", "-7", "9223372036854775808"], pa.string()),
        (["2020-01-01", "1500-02-03"], pa.date32()),
        (["2020-01-01", "2020-01-01 10:00"], pa.timestamp("us")),
        (["2020-01-01", "2020-01-01T10:00:00.123456"], pa.timestamp("us")),
        (["2020-01-01 10:00:00.123456789", "2020-01-01"], pa.timestamp("ns")),
        (["1500-01-01", "2020-01-01 10:00:00.5"], pa.string()),
        (["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5+02:00"], pa.timestamp("us", "UTC")),
        (["2020-01-01T00:00:00Z", "2020-01-01T00:00:00"], pa.string()),
        (["12:30:00", "12:30:01"], pa.string()),
        (["x", "1"], pa.string()),
        (["", ""], pa.string()),
        (["1", "", "null"], pa.int64()),
    ],
)
def test_type_holds_every_value_in_any_order_and_any_split(
    tmp_path: Path, text: list[str], kind: pa.DataType
) -> None:
    for number, order in enumerate((text, text[::-1])):
        (tmp_path / "a.csv").write_text("c,row\n" + "".join(f"{value},0\n" for value in order))
        for target_bytes in (1, 7, 1000):
            assert read(csv_source(tmp_path), target_bytes).schema.field("c").type == kind, (
                number,
                target_bytes,
            )


kinds_of_text = st.sampled_from(
    ["1", "-7", "2.5", "1e400", "9223372036854775808", "99999999999999999999", "0x1f", "nan", "true", "",
     "2020-01-01", "1200-01-01", "2020-01-01 10:00", "2020-01-01T10:00:00.5", "2020-01-01T10:00Z", "12:00",
     "2020-01-01T10:00:00.123456789", "x"]
)  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(kinds_of_text, min_size=1, max_size=5))
def test_types_do_not_depend_on_the_cut(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    folder = tmp_path_factory.mktemp("types")
    (folder / "a.csv").write_text("c,row\n" + "".join(f"{value},0\n" for value in text))
    whole, cut = read(csv_source(folder)), read(csv_source(folder), 1)
    assert cut.schema == whole.schema
    assert str(cut.to_pylist()) == str(whole.to_pylist())  # as text: nan is not equal to itself


def test_floats_late_in_a_file_of_integers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\n" + "7\n" * 300_000 + "7.5\n")
    found = read(csv_source(tmp_path), 100_000)
    assert found.schema.field("v").type == pa.float64()
    assert found.num_rows == 300_001
    assert found.column("v")[-1].as_py() == 7.5


def test_text_that_is_not_utf8_is_carried_as_bytes(tmp_path: Path) -> None:
    assert csv_table(tmp_path, b"a,b\ncaf\xe9,1\nx,2\n").column("a").to_pylist() == [b"caf\xe9", b"x"]


def test_given_types_are_taken(tmp_path: Path) -> None:
    types = {
        "id": "string",
        "mag": "float32",
        "flux": "decimal128(10, 3)",
        "ok": "bool",
        "t": "timestamp[ms, tz=UTC]",
    }
    content = "id,mag,flux,ok,t,n\n007,1.5,2.125,1,2020-01-01T00:00:00Z,5\n"
    found = csv_table(tmp_path, content, types=types)
    assert found.schema.types == [
        pa.string(),
        pa.float32(),
        pa.decimal128(10, 3),
        pa.bool_(),
        pa.timestamp("ms", "UTC"),
        pa.int64(),
    ]
    row = found.to_pylist()[0]
    assert (row["id"], row["flux"], row["ok"]) == ("007", Decimal("2.125"), True)


def test_schema_is_known_without_reading_when_every_type_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    reader = csv_source(tmp_path, types={"a": "int8", "b": "float32"})
    assert reader.schema(reader.list_files()) == pa.schema([("a", pa.int8()), ("b", pa.float32())])
    assert csv_source(tmp_path, types={"a": "int8"}).schema(reader.list_files()) is None


@pytest.mark.parametrize("kind", [*_PLAIN_TYPES, "timestamp[ns]", "time32[s]", "time64[us]", "duration[ms]"])
def test_every_type_that_specs_allow_can_be_read(tmp_path: Path, kind: str) -> None:
    found = csv_table(tmp_path, "a,b\n,1\n", types={"a": kind})
    assert found.column("a").to_pylist() == [None]
