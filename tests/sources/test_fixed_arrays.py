"""Arrays of a fixed size whose nulls would fill the memory: refused, or decoded a few rows at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import CorruptFileError
from hipslake.sources.fixed_arrays import MOST_VALUES

from tests.sources.reading import read, source
from tests.sources.test_votable import document

ROWS = 40


def ecsv_text(subtype: str, rows: list[str]) -> str:
    columns = f"# - {{name: a, datatype: int64}}\n# - {{name: v, datatype: string, subtype: '{subtype}'}}\n"
    header = f"# %ECSV 1.0\n# ---\n# delimiter: ','\n# datatype:\n{columns}"
    return f"{header}a,v\n" + "".join(f"{row}\n" for row in rows)


def votable_text(arraysize: str, rows: int) -> str:
    field = f'<FIELD name="v" datatype="int" arraysize="{arraysize}"/>'
    return document(field, f"<TABLEDATA>{'<TR><TD/></TR>' * rows}</TABLEDATA>")


def table_of(folder: Path, format_: str, content: str) -> pa.Table:
    (folder / "a").write_text(content)
    return read(source(format_, f"{folder}/a"))


@pytest.mark.parametrize("sizes", ["2147483647", "100000,100000", "null,16777216", "0,2147483648"])
def test_an_ecsv_array_that_is_larger_than_a_row_may_be_is_refused(tmp_path: Path, sizes: str) -> None:
    with pytest.raises(CorruptFileError, match="more than an array can have"):
        table_of(tmp_path, "ecsv", ecsv_text(f"uint64[{sizes}]", ["1,"]))


@pytest.mark.parametrize("arraysize", ["2147483647", "100000x20000", "16777216"])
def test_a_votable_array_that_is_larger_than_a_row_may_be_is_refused(tmp_path: Path, arraysize: str) -> None:
    with pytest.raises(CorruptFileError, match="more than an array can have"):
        table_of(tmp_path, "votable", votable_text(arraysize, 1))


def test_texts_and_arrays_of_a_votable_may_say_that_they_have_any_length(tmp_path: Path) -> None:
    assert table_of(tmp_path, "votable", votable_text("1000000000*", 2))["v"].to_pylist() == [None, None]


@pytest.mark.parametrize("format_", ["ecsv", "votable"])
def test_many_nulls_of_large_arrays_are_decoded_a_few_rows_at_a_time(tmp_path: Path, format_: str) -> None:
    size = MOST_VALUES // 4
    content = {"ecsv": ecsv_text(f"int8[{size}]", ["1,"] * ROWS), "votable": votable_text(f"{size}", ROWS)}
    (tmp_path / "a").write_text(content[format_])
    found = source(format_, f"{tmp_path}/a")
    files = found.list_files()
    schema = found.schema(files)
    assert schema is not None
    counts = [batch.num_rows for split in found.splits(files) for batch in found.read(split, schema)]

    assert sum(counts) == ROWS
    assert max(counts) <= MOST_VALUES // size


def test_nulls_within_a_list_of_large_arrays_are_refused_when_they_fill_the_memory(tmp_path: Path) -> None:
    size = MOST_VALUES // 4
    with pytest.raises(CorruptFileError, match="fill the memory"):
        table_of(tmp_path, "ecsv", ecsv_text(f"int8[null,{size}]", [f'1,"[{",".join(["null"] * 5)}]"']))


@pytest.mark.parametrize(
    ("sizes", "value"),
    [
        ("4096", [None] * 4096),
        ("64,64", [[None] * 64] * 64),
        ("null,1024", [[None] * 1024] * 9),
    ],
)
def test_a_masked_array_is_read_however_many_of_its_values_are_null(
    tmp_path: Path, sizes: str, value: list[object]
) -> None:
    text = ecsv_text(f"float64[{sizes}]", [f'1,"{json.dumps(value)}"', "2,"])
    assert table_of(tmp_path, "ecsv", text)["v"].to_pylist() == [value, None]


def test_nulls_within_lists_of_many_rows_are_decoded_a_few_rows_at_a_time(tmp_path: Path) -> None:
    size, each = MOST_VALUES // 64, 32  # each row is half of what is decoded at once
    cell = f"[{','.join(['null'] * each)}]"
    (tmp_path / "a").write_text(ecsv_text(f"int8[null,{size}]", [f'1,"{cell}"'] * ROWS))
    found = source("ecsv", f"{tmp_path}/a")
    files = found.list_files()
    schema = found.schema(files)
    assert schema is not None
    counts = [batch.num_rows for split in found.splits(files) for batch in found.read(split, schema)]
    assert sum(counts) == ROWS
    assert max(counts) <= 2
