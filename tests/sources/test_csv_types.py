"""CSV types: they hold every value, and do not depend on how the files are cut."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.predicates.type_names import PLAIN_TYPES
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
        (["007", "7"], pa.string()),
        (["7", "", "-07"], pa.string()),
        (["+05", "5"], pa.string()),
        (["00", "1"], pa.string()),
        (["1.5", "01"], pa.string()),
        (["  007", "1"], pa.string()),
        (["00000000000000000001", "18446744073709551615"], pa.string()),
        (["099999999999999999999", "1e30"], pa.string()),
        (["0", "0.5", "-0.5", "05.25", "1e05"], pa.float64()),
        (["0", "10", "100"], pa.int64()),
        (["+5", "-3"], pa.float64()),
        (["-0", "5"], pa.float64()),
        (["-0", "9007199254740993"], pa.string()),
        (["2020-01-01 05:00", "2020-10-01"], pa.timestamp("us")),
        (["00:10:00", "1"], pa.string()),
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
     "2020-01-01T10:00:00.123456789", "x", "007", "-00", "-0", "+7", "05.5"]
)  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(kinds_of_text, min_size=1, max_size=5))
def test_types_do_not_depend_on_the_cut(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    folder = tmp_path_factory.mktemp("types")
    (folder / "a.csv").write_text("c,row\n" + "".join(f"{value},0\n" for value in text))
    whole, cut = read(csv_source(folder)), read(csv_source(folder), 1)
    assert cut.schema == whole.schema
    assert str(cut.to_pylist()) == str(whole.to_pylist())  # as text: nan is not equal to itself


_WRITTEN = st.one_of(
    st.from_regex(r"[+-]?[0-9]{1,20}", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{1,5}\.[0-9]{0,3}", fullmatch=True),
    st.sampled_from(["0", "-0", "00", "1e5", "nan", "2020-01-01", "2020-01-01 05:06", "05:06:07", "true"]),
)


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(_WRITTEN, st.integers(0, 3), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([",", "|", " ", ";"]),
    st.integers(1, 200),
)
def test_no_two_whole_numbers_become_one(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[str, int, bool]],
    delimiter: str,
    target_bytes: int,
) -> None:
    """Whatever file a value stands in, however it is quoted and padded with blanks, wherever files end."""
    if any(delimiter in text for text, _, _ in written):
        return
    folder = tmp_path_factory.mktemp("written")
    for number, (text, blanks, quoted) in enumerate(written):
        padded = text if delimiter == " " else " " * blanks + text
        value = f'"{padded}"' if quoted else padded
        (folder / f"{number}.csv").write_text(f"c{delimiter}row\n{value}{delimiter}{number}\n")
    texts = [text for text, _, _ in written]
    found = read(csv_source(folder, delimiter=delimiter), target_bytes).column("c")
    if any(re.fullmatch(r"[+-]?0[0-9]+", text) for text in texts):
        assert found.type == pa.string()
    if pa.types.is_string(found.type):
        assert [value.strip() for value in found.to_pylist()] == texts
        return
    whole = [(text, value) for text, value in zip(texts, found.to_pylist(), strict=True) if text.isdigit()]
    assert len({str(value) for _, value in whole}) == len({text for text, _ in whole})
    if "-0" in texts:
        assert str(found.to_pylist()[texts.index("-0")]) == "-0.0"


def test_a_leading_zero_late_in_the_last_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v,w\n" + "7,1.5\n" * 200_000)
    (tmp_path / "b.csv").write_text("v,w\n" + "7,1.5\n" * 200_000 + "007,2\n")
    found = read(csv_source(tmp_path), 300_000)
    assert found.schema.types == [pa.string(), pa.float64()]
    assert found.column("v")[-1].as_py() == "007"


def test_what_is_asked_for_as_a_number_is_one_with_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ra,de,id,name\n05,-00,05,x\n12.5,7,6,05\n")
    reader = csv_source(tmp_path)
    found = [(split.file.uri, reader.infer(split)) for split in reader.splits(reader.list_files(), 7)]
    assert reader.unify(found).types == [pa.string()] * 4
    asked = reader.unify(found, numbers=("ra", "de", "name"))
    assert asked.types == [pa.float64(), pa.float64(), pa.string(), pa.string()]


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


@pytest.mark.parametrize("kind", [*PLAIN_TYPES, "timestamp[ns]", "time32[s]", "time64[us]", "duration[ms]"])
def test_every_type_that_specs_allow_can_be_read(tmp_path: Path, kind: str) -> None:
    found = csv_table(tmp_path, "a,b\n,1\n", types={"a": kind})
    assert found.column("a").to_pylist() == [None]
