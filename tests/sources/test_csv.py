"""CSV rows: what the standard library reads, in the same order, however the files are cut."""

from __future__ import annotations

import csv
import gzip
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import (
    EmptySourceError,
)
from hipslake.sources.csv import text_blocks as csv_blocks
from hipslake.sources.csv.text_blocks import cut_blocks, cut_quoted_blocks, first_row_end
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import csv_source, csv_table, read

values = st.text(alphabet='ab1 .;"\t', max_size=6) | st.integers().map(str)
tables = st.lists(st.lists(values, min_size=3, max_size=3), max_size=12)


@settings(max_examples=examples(60))
@given(
    tables,
    st.integers(1, 60),
    st.integers(1, 40),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_any_split_and_block_size_gives_the_same_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    target_bytes: int,
    block_bytes: int,
    line_end: str,
    last_line_ends: bool,
    bom: bool,
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    text = io.StringIO()
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([["x", "y", "z"], *rows])
    content = text.getvalue() if last_line_ends else text.getvalue().removesuffix(line_end)
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbf" * bom + content.encode())
    reader = csv_source(folder, types={"x": "string", "y": "string", "z": "string"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks.cut_blocks, "__kwdefaults__", {"block_bytes": block_bytes})
        found = read(reader, target_bytes)
    assert [list(row.values()) for row in found.to_pylist()] == rows
    assert found.schema == read(reader).schema


@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_byte_ranges_give_every_line_once(lines: list[bytes], data: st.DataObject) -> None:
    content = b"\n".join(lines)
    first = data.draw(st.sampled_from([0, *[i + 1 for i, c in enumerate(content) if c == 10]]))
    cuts = sorted({0, len(content), *data.draw(st.lists(st.integers(0, len(content))))})
    found = b"".join(
        block.data
        for start, stop in pairwise(cuts)
        for block in cut_blocks(io.BytesIO(content), start, stop, first=first, uri="x", block_bytes=3)
    )
    assert found == content[first:]


@given(st.lists(st.text(alphabet='a",\n', max_size=6), max_size=8), st.integers(1, 30))
def test_quoted_blocks_are_whole_rows(texts: list[str], block_bytes: int) -> None:
    rows = [['"' + text.replace('"', '""') + '"\n' for text in texts]][0]
    content = "".join(rows).encode()
    blocks = list(
        cut_quoted_blocks(io.BytesIO(content), first=0, quote=b'"', uri="x", block_bytes=block_bytes)
    )
    assert b"".join(block.data for block in blocks) == content
    ends = {sum(len(row) for row in rows[:n]) for n in range(len(rows) + 1)}
    assert {block.offset + len(block.data) for block in blocks} <= ends


def test_blocks_carry_their_offset_in_the_file() -> None:
    content = b"head\n" + b"".join(b"%d\n" % n for n in range(50))
    for block in cut_blocks(io.BytesIO(content), 20, 90, first=5, uri="x", block_bytes=7):
        assert content[block.offset : block.offset + len(block.data)] == block.data


def test_quoted_line_ends_are_read_when_the_spec_allows_them(tmp_path: Path) -> None:
    rows = [["1", "a\nb"], ["2", 'say "hi"\r\n'], ["3", "\n\n"], ["4", ""]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["id", "text"], *rows])
    found = csv_table(tmp_path, text.getvalue(), newlines_in_values=True, quoted_nulls=False)
    assert found.to_pylist() == [{"id": int(a), "text": b} for a, b in rows]
    assert (
        len(csv_source(tmp_path, newlines_in_values=True).splits(csv_source(tmp_path).list_files(), 4)) == 1
    )


def test_gzip_members_are_one_stream_and_one_split(tmp_path: Path) -> None:
    halves = [b"a,b\n1,2\n", b"3,4\n"]
    found = csv_table(tmp_path, b"".join(gzip.compress(half) for half in halves), "a.csv.gz")
    assert found.to_pydict() == {"a": [1, 3], "b": [2, 4]}
    assert len(csv_source(tmp_path).splits(csv_source(tmp_path).list_files(), 1)) == 1


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("a;b\n1;2\n", {"delimiter": ";"}),
        ("a\tb\r\n1\t2", {"delimiter": "\t"}),
        ("1,2\n", {"header": False, "column_names": ["a", "b"]}),
        ("x,y\n1,2\n", {"column_names": ["a", "b"]}),
        ("# made by hand\n# twice\na,b\n1,2\n", {"skip_rows": 2}),
        ("# made by hand\n\na,b\n# a comment, with a comma\n1,2\n#\n", {"comment": "#"}),
        ("a|b\n'1'|'2'\n", {"delimiter": "|", "quote": "'"}),
        ("\n\r\na,b\n\n1,2\n\r\n\n", {}),
        ('"a","b"\n"1","2"\n', {}),
    ],
)
def test_dialects(tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    assert csv_table(tmp_path, content, **options).to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize("newlines", [False, True])
def test_zstd_is_one_stream_and_one_split(tmp_path: Path, newlines: bool) -> None:
    content = ("a,b\n" + "".join(f"{row},x\n" for row in range(300_000))).encode()
    codec = pa.Codec("zstd")
    halves = (content[:100_000], content[100_000:])
    (tmp_path / "a.csv.zst").write_bytes(b"".join(codec.compress(half, asbytes=True) for half in halves))
    reader = csv_source(tmp_path, newlines_in_values=newlines)
    assert len(reader.splits(reader.list_files(), 1000)) == 1
    assert read(reader, 1000)["a"].to_pylist() == list(range(300_000))


def test_gzip_may_hide_behind_any_name(tmp_path: Path) -> None:
    found = csv_table(tmp_path, gzip.compress(b"a,b\n1,2\n"), "a.csv", compression="gzip")
    assert found.num_rows == 1


def test_nulls_are_empty_values_and_quoted_ones_are_text(tmp_path: Path) -> None:
    found = csv_table(tmp_path, 'i,f,s\n1,NaN,""\n,,\nnull,2.5,x\n')
    assert found.column("i").to_pylist() == [1, None, None]
    assert str(found.column("f").to_pylist()) == "[nan, None, 2.5]"
    assert found.column("s").to_pylist() == ["", None, "x"]
    quoted = csv_table(tmp_path, 'i,s\n"1","x"\n"",""\n', quoted_nulls=True)
    assert quoted.to_pydict() == {"i": [1, None], "s": ["x", None]}


def test_quotes_inside_unquoted_values_are_text(tmp_path: Path) -> None:
    assert csv_table(tmp_path, 'a,b\n1,12" dish\n2,x\n').column("b").to_pylist() == ['12" dish', "x"]
    assert csv_table(tmp_path, 'a,b\n1,"x"\n', quote=None).column("b").to_pylist() == ['"x"']


def test_columns_may_stand_in_another_order_in_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1,x,1.5\n")
    (tmp_path / "b.csv").write_text("c,a,b\n2.5,2,y\n")
    assert read(csv_source(tmp_path)).to_pydict() == {"a": [1, 2], "b": ["x", "y"], "c": [1.5, 2.5]}
    assert read(csv_source(tmp_path), columns=["c", "a"]).to_pydict() == {"a": [1, 2], "c": [1.5, 2.5]}


def test_empty_files_among_others_are_fine(tmp_path: Path) -> None:
    for name, content in (("a", ""), ("b", "a,b\n"), ("c", "a,b\n1,2\n"), ("d", "\n"), ("e", "a,b")):
        (tmp_path / f"{name}.csv").write_text(content)
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(b""))
    assert read(csv_source(tmp_path)).to_pydict() == {"a": [1], "b": [2]}


def test_source_of_empty_files_is_an_error_and_of_headers_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n")
    with pytest.raises(EmptySourceError, match=r"every file of .* is empty"):
        read(csv_source(tmp_path))
    (tmp_path / "a.csv").write_text("a,b\n")
    assert read(csv_source(tmp_path)).num_rows == 0


@given(st.text('a"\n', max_size=30), st.integers(0, 30), st.integers(1, 8))
def test_the_first_row_ends_at_the_first_line_end_behind_an_even_number_of_quotes(
    text: str, start: int, piece: int
) -> None:
    expected = (
        at + 1 for at in range(start, len(text)) if text[at] == "\n" and text[start:at].count('"') % 2 == 0
    )
    assert first_row_end(text.encode(), start, b'"', piece) == next(expected, 0)
