"""Small files that stand for very much: of any size, in each reader's own weak places.

Nesting, lengths without end, ratios of compression, and forms of numbers. `tests/sources/test_bombs.py` holds
the worst that were found; here are all sizes and places between.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.source_cases import read_as
from tests.fuzz.target import Case, Target

MIB = 1 << 20
_MOST = 48 * MIB

Made = tuple[bytes, dict[str, Any]]


def _many(random: Random, piece: bytes) -> bytes:
    """A piece again and again, to a size of any magnitude."""
    return piece * max(1, int(_MOST ** random.uniform(0.4, 1.0)) // len(piece))


def _number(random: Random) -> str:
    """A number, in any form of YAML, of any length."""
    digits = int(10 ** random.uniform(0, 5.5))
    return random.choice(
        (
            lambda: ":".join(["59"] * (digits // 3 + 1)),
            lambda: "-" + ":".join(["1"] * (digits // 2 + 1)) + ".5",
            lambda: "9" * digits,
            lambda: "0x" + "f" * digits,
            lambda: "0b" + "1" * digits,
            lambda: "0" + "7" * digits,
            lambda: "0x" + "_" * digits,
            lambda: "1." + "3" * digits + "e" + "9" * random.randint(1, 9),
            lambda: "1" + "_" * digits,
            lambda: "." + "0" * digits,
        )
    )()


def _votable(random: Random) -> Made:
    pieces = (
        b"<GROUP>",
        b"<TR><TD>",
        b"<TR>",
        b"<TD>1</TD>",
        b"<TABLE/>",
        b"<TABLE>",
        b"<RESOURCE>",
        b"<!--",
        b"x",
        b" ",
        b"\n",
        b"&lt;",
        b"<PARAM name='a'/>",
        b"<INFO/>",
        b"<VALUES>",
        b"<![CDATA[",
        b"]]>",
        b"<a:b>",
        b"<!ELEMENT a ANY>",
        b"<TR/>",
        b"<DESCRIPTION>",
        b"<STREAM>",
        b"9" * 100,
        b"<FIELD name='a' datatype='int'/>",
    )
    openings = (
        b"",
        b"<!--",
        b'<INFO name="',
        b"<",
        b"<!DOCTYPE VOTABLE [",
        b"<DATA><TABLEDATA><TR><TD>",
        b"<DATA><TABLEDATA>",
        b"<DATA><BINARY2><STREAM encoding='base64'>",
        b"<?x ",
        b'<FIELD name="a" datatype="char" arraysize="',
    )
    head = b'<VOTABLE><RESOURCE><TABLE><FIELD name="a" datatype="long"/><FIELD name="b" datatype="char" '
    head = random.choice((b"<VOTABLE>", b"<VOTABLE><RESOURCE>", b"", head + b'arraysize="*"/>'))
    if random.random() < 0.2:
        body = b"".join(b'<INFO n%d="1"/>' % n for n in range(int(10 ** random.uniform(2, 5.5))))
    else:
        body = _many(random, random.choice(pieces))
    return head + random.choice(openings) + body, {"table": random.choice((0, 0, 1, "x"))}


def _ecsv(random: Random) -> Made:
    key = random.choice(("name", "datatype", "unit", "description", "subtype", "meta", "? x", "0x1"))
    size = int(10 ** random.uniform(0, 5.5))
    value = random.choice(
        (
            lambda: _number(random),
            lambda: "[" * size,
            lambda: "{a: " * size,
            lambda: "[" * (size // 2) + "]" * (size // 2),
            lambda: "&a [" + ", ".join(["*a"] * min(size, 1000)) + "]",
            lambda: '"' + "x" * size,
            lambda: "'" + "''" * size + "'",
            lambda: "!!" + random.choice(("int", "float", "binary", "timestamp", "set")) + " " + "1" * size,
            lambda: "\\\n# " * min(size, 100_000),
            lambda: "[" + _number(random) + "]",
        )
    )()
    column = f"{{name: a, datatype: int8, {key}: {value}}}"
    head = f"# %ECSV 1.0\n# ---\n# datatype:\n# - {column}\n"
    if random.random() < 0.2:
        head = (
            f"# %ECSV 1.0\n# ---\n# datatype:\n# - {{name: a, datatype: int8}}\n# meta: {{{key}: {value}}}\n"
        )
    if random.random() < 0.2:
        names = [f"a{n}" for n in range(int(10 ** random.uniform(0, 4)))]
        columns = "".join(f"# - {{name: {name}, datatype: int8}}\n" for name in names)
        head = f"# %ECSV 1.0\n# ---\n# datatype:\n{columns}{' '.join(names)}\n"
    rows = (
        _many(random, random.choice((b"1\n", b'"', b'"\n', b"1 ", b"\n", b" ", b"[1,")))
        if random.random() < 0.4
        else b"1\n"
    )
    return head.encode() + b"a\n" + rows, {"newlines_in_values": random.random() < 0.5}


def _csv(random: Random) -> Made:
    opening = random.choice((b"", b'"', b"a,b\n", b'a,b\n"', b"a,b\n1,2\n", b"\xef\xbb\xbf", b'"a'))
    pieces = (
        b",",
        b"\n",
        b'"',
        b'""',
        b'"\n',
        b"1,",
        b"1,2\n",
        b"x",
        b"\r",
        b"\r\n",
        b'"a",',
        b"\0",
        b"a,",
        b"9",
        b"1e",
    )
    return opening + _many(random, random.choice(pieces)), {"newlines_in_values": random.random() < 0.5}


def _fits(random: Random) -> Made:
    from astropy.io import fits

    form = random.choice(("PB()", "QD()", "J", "10A", "3X"))
    values: Any = np.array([np.zeros(3)] * 2, dtype=object) if form[0] in "PQ" else None
    table = fits.BinTableHDU.from_columns([fits.Column("v", form, array=values)], nrows=2)
    if random.random() < 0.4:
        lines = [f"{word}: \\" for word in ("- {name: v, description", "datatype")][: random.randint(1, 2)]
        number = _number(random)[:200_000]
        table.header["COMMENT"] = "--BEGIN-ASTROPY-SERIALIZED-COLUMNS--"
        for line in ("datatype:", *lines):
            table.header["COMMENT"] = line
        for at in range(0, len(number), 69):
            table.header.add_comment(number[at : at + 69] + "\\")
        table.header["COMMENT"] = "--END-ASTROPY-SERIALIZED-COLUMNS--"
    sink = io.BytesIO()
    table.writeto(sink)
    data = sink.getvalue()
    for key in ("NAXIS1", "NAXIS2", "PCOUNT", "THEAP", "TFIELDS"):
        at = data.find(key.ljust(8).encode() + b"=", 2880)
        if at >= 0 and random.random() < 0.3:
            told = str(int(10 ** random.uniform(0, 18))).rjust(20).encode()
            data = data[: at + 10] + told + data[at + 30 :]
    if random.random() < 0.2:
        data = data[:2880] + _many(
            random, random.choice((b" " * 80, b"COMMENT x".ljust(80), b"HISTORY".ljust(80)))
        )
    return data + _many(random, random.choice((b"\0", b"\xff", b"\0\0\0\x7f"))), {}


def _parquet(random: Random) -> Made:
    rows = int(10 ** random.uniform(1, 5.5))
    size = int((64 * MIB) ** random.uniform(0.3, 1.0))
    word: Any = random.choice(("a", "é")) * (size // 2)
    words = pa.array([word, "b"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), words)
    if random.random() < 0.4:
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32))
        column = pa.ListArray.from_arrays(offsets, column)
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"id": np.zeros(rows, np.int64), "t": column}),
        sink,
        compression=random.choice(("zstd", "gzip", "snappy")),
        write_statistics=random.random() < 0.5,
        store_schema=random.random() < 0.5,
        dictionary_pagesize_limit=1 << 30,
        row_group_size=random.choice((rows, max(1, rows // 3))),
    )
    return sink.getvalue(), {}


_BOMBS: dict[str, tuple[Callable[[Random], Made], str]] = {
    "votable": (_votable, ".vot"),
    "ecsv": (_ecsv, ".ecsv"),
    "csv": (_csv, ".csv"),
    "fits": (_fits, ".fits"),
    "parquet": (_parquet, ".parquet"),
}


def _bomb(random: Random) -> Case:
    kind = random.choice(list(_BOMBS))
    make, ending = _BOMBS[kind]
    data, options = make(random)
    packing = random.randrange(4) if kind != "parquet" else 0
    if packing == 1:
        data, ending = gzip.compress(data, 6, mtime=0), f"{ending}.gz"
    elif packing == 2:
        data, ending = pa.Codec("zstd").compress(data, asbytes=True), f"{ending}.zst"
    return Case(data, ending, {"format": kind, "options": options, "target_bytes": 1 << 28})


def _read(case: Case, folder: Path) -> None:
    read_as(case.told["format"])(case, folder)


TARGET = Target("bombs", _bomb, _read)
