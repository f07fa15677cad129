"""CSV damage: every mistake in a file is told with the file and the line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import (
    CorruptFileError,
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
)
from hipslake.sources.csv import text_blocks as csv_blocks

from tests.sources.reading import csv_source, csv_table, read


@pytest.mark.parametrize(
    ("content", "options", "error", "message"),
    [
        ("a,b\n1,2\n3\n5,6\n", {}, CorruptFileError, r"a\.csv: line 3: 1 values, but there are 2 columns"),
        ("a,b\n1,2\n\n3,4,5\n", {}, CorruptFileError, r"line 4: 3 values, but there are 2 columns"),
        ("a,b\n1,2\n3,x\n", {"types": {"b": "float64"}}, SchemaMismatchError, r"line 3: column 'b': .*'x'"),
        ("b,a\n1,2\n3,x\n", {"types": {"a": "int8"}}, SchemaMismatchError, r"line 3: column 'a': .*'x'"),
        ("#\na,b\n1,2\n#\n1,2,3\n", {"comment": "#"}, CorruptFileError, r"line 5: 3 values"),
        ('a,b\n1,x\n1,"x\ny"\n3,4\n', {}, CorruptFileError, r"line 3: a quoted .*newlines_in"),
        ('a,b\n1,2\n1,"x\n', {}, CorruptFileError, r"line 3: a quoted value is not closed"),
        ('a,b\n"1,2\n3,4\n"\n', {}, CorruptFileError, r"line 2: a quoted value is"),
        ('a,b\n1,"x\n', {"newlines_in_values": True}, CorruptFileError, r"line 2: a quoted value is"),
        ("a,a\n1,2\n", {}, ReservedColumnError, r"a\.csv: column 'a' stands twice"),
        ("ra,RA\n1,2\n", {}, ReservedColumnError, r"'ra' and 'RA' differ only by case"),
        ("a,,c\n1,2,3\n", {}, SchemaMismatchError, r"column 2 has no name"),
        ("a,b\n1,2\n", {"column_names": ["x"]}, SchemaMismatchError, r"header has 2 columns"),
        ("a,b\n1,2\n", {"types": {"c": "int8"}}, SchemaMismatchError, r"names c, but .* are a, b"),
        ("a,b\r1,2\r", {}, CorruptFileError, r"lines end with CR alone"),
        ("a,b\n1,2\n".encode("utf-16"), {}, CorruptFileError, r"is UTF-16"),
    ],
)  # fmt: skip
def test_damage_is_told_with_file_and_line(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    for target_bytes in (1 << 20, 4):
        with pytest.raises(error, match=message):
            read(csv_source(tmp_path, **options), target_bytes)


def test_line_is_counted_from_the_start_of_the_file_in_late_splits(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 5000 + "3\n" + "1,2\n" * 5000)
    with pytest.raises(CorruptFileError, match=r"line 5002: 1 values"):
        read(csv_source(tmp_path), 3000)


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    for size in (len(content) // 2, len(content) - 4, 9):
        with pytest.raises(CorruptFileError, match=r"a\.csv\.gz is truncated or damaged"):
            csv_table(tmp_path, content[:size], "a.csv.gz")
    broken = bytearray(content)
    broken[-6] ^= 1  # the checksum
    with pytest.raises(CorruptFileError, match=r"a\.csv\.gz is truncated or damaged"):
        csv_table(tmp_path, bytes(broken), "a.csv.gz")
    with pytest.raises(CorruptFileError, match="no gzip file"):
        csv_table(tmp_path, b"a,b\n1,2\n", "a.csv.gz")


def test_header_that_differs_names_file_and_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(
        SchemaMismatchError, match=r"b\.csv has no column 'b', which .*a\.csv has; .*a\.csv has no"
    ):
        read(csv_source(tmp_path))
    filled = read(csv_source(tmp_path, missing_columns=None))
    assert filled.to_pydict() == {"a": [1, 1], "b": [2, None], "c": [None, 2]}
    assert read(csv_source(tmp_path, missing_columns="null"), columns=["c"]).to_pydict() == {"c": [None, 2]}


def test_file_that_changed_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    reader = csv_source(tmp_path)
    split = reader.splits(reader.list_files())[0]
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(InputError, match=r"a\.csv was changed after the run listed it"):
        list(reader.read(split, reader.infer(reader.splits(reader.list_files())[0])))
    path.unlink()
    with pytest.raises(InputError, match=r"a\.csv was deleted"):
        reader.infer(split)


def test_row_that_never_ends_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "LONGEST_ROW", 1000)
    monkeypatch.setattr(csv_blocks.cut_blocks, "__kwdefaults__", {"block_bytes": 100})
    with pytest.raises(CorruptFileError, match="no end of a line"):
        csv_table(tmp_path, "a,b\n" + "1" * 5000)
