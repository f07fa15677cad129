"""Small files that stand for very much, or take very long: refused in little time and memory.

Each is read in a process of its own, which may take 10 s of the processor and 512 MiB, as a kernel measures.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.io import fits

from tests.peers.running import run_peer

MIB = 1 << 20
_IMPORTED = (
    "hipslake.sources.votable.source",
    "hipslake.sources.fits.source",
    "hipslake.sources.ecsv.source",
)
_READ = """
import resource, sys
from hipslake.errors import HipslakeError
from hipslake.sources import open_source
from hipslake.sources.csv.source import CsvSource
from hipslake.sources.ecsv.source import EcsvSource
from hipslake.sources.fits.source import FitsSource
from hipslake.sources.votable.source import VotableSource
from hipslake.specs.source_spec import SourceSpec
import astropy.io.fits, yaml

uri, kind, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
before = resource.getrusage(resource.RUSAGE_SELF)
source = open_source(SourceSpec.model_validate({"uri": uri, "format": kind, "options": options}))
try:
    splits = source.splits(source.list_files())
    schema = source.schema(source.list_files())
    if schema is None:
        schema = source.unify([(split.file.uri, source.infer(split)) for split in splits])
    rows = sum(batch.num_rows for split in splits for batch in source.read(split, schema))
    print("read", rows)
except HipslakeError as error:
    print(type(error).__name__, str(error)[:300])
after = resource.getrusage(resource.RUSAGE_SELF)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(f"{seconds} {(after.ru_maxrss - before.ru_maxrss) << 10}")
"""


def outcome(path: Path, kind: str, **options: object) -> str:
    """What reading a file says, if it takes no more than it may."""
    said = run_peer(sys.executable, "-c", _READ, str(path), kind, repr(options), imported=_IMPORTED)
    told, _, spent = said.strip().rpartition("\n")
    seconds, memory = map(float, spent.split())
    assert seconds < 10, told
    assert memory < 512 * MIB, f"{memory / MIB:.0f} MiB: {told}"
    return told


def votable(head: bytes = b"", rows: bytes = b"") -> bytes:
    return (
        b'<VOTABLE>%s<RESOURCE><TABLE><FIELD name="a" datatype="long"/><FIELD name="b" datatype="char" '
        b'arraysize="*"/><DATA><TABLEDATA>%s</TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>' % (head, rows)
    )


# Made when a test asks: they are hundreds of megabytes each.
VOTABLES = {
    "elements in each other": (lambda: votable(b"<GROUP>" * 25_000_000), "nested more than 100 deep"),
    "cells in each other": (lambda: votable(rows=b"<TR><TD>" * 10_000_000), "nested more than 100 deep"),
    "an attribute without end": (lambda: b'<VOTABLE a="' + b"x" * (60 * MIB), "an attribute .* does not end"),
    "a comment without end": (lambda: votable(b"<!--" + b"x" * (60 * MIB)), "a comment .* does not end"),
    "attributes of ever new names": (
        lambda: votable(b"".join(b'<INFO n%d="1"/>' % n for n in range(400_000))),
        "more than 10000 tables, or names",
    ),
    "tables without end": (
        lambda: b"<VOTABLE><RESOURCE>" + b"<TABLE/>" * 5_000_000,
        "more than 10000 tables",
    ),
    "a row of ever more cells": (
        lambda: votable(rows=b"<TR>" + b"<TD>1</TD>" * 10_000_000),
        r"a row with \d+ cells, but there are 2 fields",
    ),
    "a row without end": (
        lambda: votable(rows=b"<TR><TD>" + b"words " * 12_000_000),
        "a row .* does not end",
    ),
    "a header without end": (
        lambda: b"<VOTABLE><RESOURCE><TABLE>" + b"<PARAM name='a'/>" * 1_500_000,
        "the header .* does not end",
    ),
    "rows without cells": (lambda: votable(rows=b"<TR/>" * 10_000_000), "a row with 0 cells"),
    "rows of a table without fields": (
        lambda: b"<VOTABLE><TABLE><DATA><TABLEDATA>" + b"<TR/>" * 10_000_000,
        "rows, but no FIELD",
    ),
    "rows before the tables": (
        lambda: votable(b"<TR></TR>" * 6_000_000),
        "elements outside of rows|header .* not end",
    ),
    "rows before the first row": (
        lambda: votable().replace(b"<TABLEDATA>", b"<TR/>" * 10_000_000 + b"<TABLEDATA>"),
        "elements outside of rows",
    ),
    "rows after the stream": (
        lambda: votable().replace(
            b"<TABLEDATA></TABLEDATA>", b"<BINARY><STREAM></STREAM>" + b"<TR/>" * 10_000_000
        ),
        "elements outside of rows",
    ),
    "words after the stream": (
        lambda: votable().replace(
            b"<TABLEDATA></TABLEDATA>", b"<BINARY><STREAM></STREAM>" + b"words " * 10_000_000
        ),
        "the header .* does not end",
    ),
    "rows of a table before": (
        lambda: (
            b"<VOTABLE><TABLE><DATA><TABLEDATA>"
            + b"<TR/>" * 10_000_000
            + b"</TABLEDATA></DATA></TABLE></VOTABLE>"
        ),
        "elements in rows of other tables",
    ),
    "a document type without end": (
        lambda: b"<!DOCTYPE VOTABLE [" + b"<!ELEMENT a ANY>" * 4_000_000,
        "the header .* does not end|no VOTable|no XML",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VOTABLES)
def test_votables_of_hostile_shape_are_refused(tmp_path: Path, name: str) -> None:
    make, expected = VOTABLES[name]
    path = tmp_path / "a.xml.gz"
    path.write_bytes(gzip.compress(make(), 1))
    table = {"tables without end": "stars", "rows of a table before": 1}.get(name, 0)
    told = outcome(path, "votable", table=table)
    assert re.search(expected, told), told


def test_numbers_of_base_60_without_end_are_refused_in_ecsv(tmp_path: Path) -> None:
    path = tmp_path / "a.ecsv"
    number = ":".join(["59"] * 70_000)
    path.write_text(
        f"# %ECSV 1.0\n# ---\n# datatype:\n# - {{name: a, datatype: int8, description: {number}}}\na\n1\n"
    )
    assert "a number has more than 400 digits" in outcome(path, "ecsv")


def test_large_ecsv_headers_are_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "a.ecsv"
    names = [f"a{n}" for n in range(5_000)]
    columns = "".join(f"# - {{name: {name}, datatype: int8, description: of some words}}\n" for name in names)
    path.write_text(
        f"# %ECSV 1.0\n# ---\n# datatype:\n{columns}{' '.join(names)}\n{' '.join('1' for _ in names)}\n"
    )
    assert outcome(path, "ecsv") == "read 1"


def test_numbers_of_base_60_without_end_in_fits_comments_are_somebodys_comments(tmp_path: Path) -> None:
    table = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=np.arange(3))])
    number = ":".join(["59"] * 120_000)
    for line in ("--BEGIN-ASTROPY-SERIALIZED-COLUMNS--", "datatype:", "- {name: a, description: \\"):
        table.header["COMMENT"] = line
    for at in range(0, len(number), 69):
        table.header.add_comment(number[at : at + 69] + "\\")
    table.header["COMMENT"] = "}"
    table.header["COMMENT"] = "--END-ASTROPY-SERIALIZED-COLUMNS--"
    table.writeto(tmp_path / "a.fits")
    assert outcome(tmp_path / "a.fits", "fits") == "read 3"


def test_a_quote_without_end_in_a_csv_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'"a' + b"\n" * (40 * MIB)))
    assert "no line ends in 16 MiB" in outcome(path, "csv", newlines_in_values=True)


@pytest.mark.parametrize(
    "line",
    [b"\r\n", *(pytest.param(line, marks=pytest.mark.slow) for line in (b"\n", b"#\n", b"# a comment\n"))],
)
def test_millions_of_lines_before_a_csv_header_are_passed_over_in_time(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(line * (15 * MIB // len(line)) + b"a,b\n1,2\n"))
    told = outcome(path, "csv", comment="#")
    assert told == "read 1" or "far more than" in told, told
    (tmp_path / "b.csv").write_bytes(line * 1_000_000 + b"a,b\n1,2\n")
    assert outcome(tmp_path / "b.csv", "csv", comment="#") == "read 1"


def test_a_pattern_longer_than_any_path_is_refused(tmp_path: Path) -> None:
    from hipslake.errors import InputError
    from hipslake.sources.file_listing import list_files

    with pytest.raises(InputError, match="a path has at most 4096"):
        list_files(f"{tmp_path}/{'[' * 70_000}")


def test_a_heap_without_end_is_not_unpacked(tmp_path: Path) -> None:
    heap = fits.Column("v", "PB()", array=np.array([np.zeros(3, "u1")] * 2, dtype=object))
    table = fits.BinTableHDU.from_columns([heap])
    table.writeto(tmp_path / "a.fits")
    content = (tmp_path / "a.fits").read_bytes()
    content = content.replace(b"PCOUNT  =                    6", b"PCOUNT  =           8000000000")
    path = tmp_path / "a.fits.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)
        for _ in range(40):
            file.write(bytes(32 * MIB))
    assert "rows and a heap of more than 1024 MiB" in outcome(path, "fits")


def test_cells_that_all_point_to_one_heap_are_refused(tmp_path: Path) -> None:
    rows, size = 30_000, 1_000_000
    header = fits.BinTableHDU.from_columns(
        [fits.Column("v", "PB()", array=np.array([np.zeros(1, "u1")], dtype=object))]
    ).header
    header["NAXIS2"], header["PCOUNT"] = rows, size
    pointers = np.tile(np.array([size, 0], ">i4"), rows).tobytes()
    data = pointers + bytes(size)
    path = tmp_path / "a.fits"
    primary = fits.PrimaryHDU().header.tostring().encode()
    path.write_bytes(primary + header.tostring().encode() + data + bytes(-len(data) % 2880))
    assert "values in the heap of more than" in outcome(path, "fits")


@pytest.mark.parametrize("nested", [False, True])
def test_a_dictionary_of_a_huge_word_is_refused(tmp_path: Path, nested: bool) -> None:
    rows = 100_000
    words = pa.array(["a" * (64 * MIB), "b"])
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), words)
    column = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), text) if nested else text
    pq.write_table(
        pa.table({"id": [0] * rows, "t": column}),
        tmp_path / "a.parquet",
        compression="zstd",
        write_statistics=False,
        store_schema=False,
        dictionary_pagesize_limit=1 << 30,
    )
    assert (tmp_path / "a.parquet").stat().st_size < 20_000
    assert "values of column 't" in outcome(tmp_path / "a.parquet", "parquet")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("letters", "rows", "varied"), [(330_000, 18_000, False), (12_000, 270_000, True)])
def test_small_dictionaries_whose_words_very_many_rows_name_are_refused(
    tmp_path: Path, letters: int, rows: int, varied: bool, nested: bool
) -> None:
    """Found by fuzzing: 1333 bytes that stood for 6 GB, with a dictionary of no unusual size."""
    words = pa.array(["a" * letters, "b"])
    numbers = np.arange(rows, dtype=np.int32) % 2 if varied else np.zeros(rows, np.int32)
    text = pa.DictionaryArray.from_arrays(pa.array(numbers), words)
    column = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), text) if nested else text
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"id": [0] * rows, "t": column}), path, compression="zstd", row_group_size=rows // 3
    )
    assert path.stat().st_size < 50_000
    assert "values of column 't" in outcome(path, "parquet")


@pytest.mark.parametrize("groups", [1, 4, 300])
def test_words_that_make_less_than_a_gigabyte_are_read_in_little_memory(tmp_path: Path, groups: int) -> None:
    rows = 120_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["ab" * 3_500, "b"]))
    table = pa.table({"id": [0] * rows, "t": text})
    pq.write_table(table, tmp_path / "a.parquet", compression="snappy", row_group_size=rows // groups)
    assert outcome(tmp_path / "a.parquet", "parquet") == f"read {rows}"


def test_texts_of_usual_dictionaries_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = [f"word {number} of some letters" for number in range(20_000)]
    column = pa.array([None] * 70_000 + [words[at] for at in rng.integers(0, 20_000, 230_000)])
    pq.write_table(pa.table({"t": column}), tmp_path / "a.parquet", compression="zstd")
    assert outcome(tmp_path / "a.parquet", "parquet") == "read 300000"


def test_a_dictionary_of_large_words_that_few_rows_name_is_read(tmp_path: Path) -> None:
    words = pa.array(["a" * (8 * MIB), "b"])
    text = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 8, pa.int32()), words)
    pq.write_table(
        pa.table({"id": list(range(16)), "t": text}),
        tmp_path / "a.parquet",
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
    )
    assert outcome(tmp_path / "a.parquet", "parquet") == "read 16"


def test_sizes_in_a_footer_that_contradict_the_schema_do_not_end_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"word": ["a", "b", None]}), path)
    optional, required = b"\x15\x0c\x25\x02\x18\x04word", b"\x15\x0c\x25\x00\x18\x04word"
    data = path.read_bytes()
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    told = outcome(path, "parquet")
    assert (
        "a.parquet is damaged in row group 0, column 'word': Definition level histogram size mismatch" in told
    )
