"""VOTables, spoilt, and of hostile fields and rows."""

from __future__ import annotations

import base64
import io
from functools import cache
from random import Random
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from tests.fuzz.mutation import NUMBERS, TEXTS, hostile_text
from tests.fuzz.source_cases import by_words, case_of, read_as
from tests.fuzz.target import Target


@cache
def _votable() -> list[bytes]:
    from astropy.io.votable import from_table, writeto
    from astropy.table import Table

    table = Table(
        {
            "id": np.arange(5),
            "ra": np.linspace(0, 350, 5),
            "mag": np.arange(5, dtype="f4"),
            "name": np.array(["a", "bc", "é", "", "x"]),
            "ok": np.array([True, False] * 2 + [True]),
            "pair": np.arange(10.0).reshape(5, 2),
            "z": np.arange(5) * 1j,
        }
    )
    made = []
    for form in ("tabledata", "binary", "binary2"):
        sink = io.BytesIO()
        writeto(from_table(table), sink, tabledata_format=form)
        made.append(sink.getvalue())
    rows = b"<TR><TD>1</TD><TD>1 2</TD><TD>?</TD></TR>"
    made.append(
        b'<VOTABLE><RESOURCE><TABLE><FIELD name="a" datatype="long"><VALUES null="-1"/></FIELD>'
        b'<FIELD name="b" datatype="short" arraysize="*" unit="km/s"/><FIELD name="c" datatype="bit"/>'
        b"<DATA><TABLEDATA>" + rows * 3 + b"</TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>"
    )
    return made


_VOTABLE_WORDS = (
    *(
        "<TR>",
        "</TR>",
        "<TD>",
        "</TD>",
        "<TD/>",
        "<DATA>",
        "</DATA>",
        "<TABLE>",
        "</TABLE>",
        "<TABLE ref='x'>",
    ),
    *(
        "<FIELD name='q' datatype='int'/>",
        "<FIELD/>",
        "<VALUES null='0x'/>",
        "<STREAM href='file:///etc/passwd'>",
    ),
    *(
        "arraysize='*'",
        "arraysize='0'",
        "arraysize='0x*'",
        "arraysize='99999x99999'",
        "arraysize='2147483647'",
    ),
    *(
        "arraysize='3x4*'",
        "datatype='unicodeChar'",
        "datatype='bit'",
        "datatype='floatComplex'",
        "datatype='x'",
    ),
    *(
        "<BINARY>",
        "</BINARY>",
        "<BINARY2>",
        "<FITS>",
        "</STREAM>",
        "<STREAM encoding='base64'>",
        "<TABLEDATA>",
    ),
    *(
        "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]>",
        "&b;",
        "&#0;",
        "&lt;",
        "<![CDATA[",
    ),
    *(
        "<!DOCTYPE x SYSTEM 'file:///etc/passwd'>",
        "<?xml version='1.0' encoding='utf-7'?>",
        "xmlns:a='b'",
        "a:TD",
    ),
)


def _votable_made(random: Random, data: bytes) -> bytes:
    """Sound XML of hostile fields, and rows of any values, as text or as bytes."""
    if random.random() < 0.3:
        return by_words(_VOTABLE_WORDS)(random, data)
    kinds = ("unsignedByte", "short", "int", "long", "float", "double", "floatComplex", "doubleComplex")
    kinds += ("char", "unicodeChar", "boolean", "bit", "char", "x")
    sizes = (
        "",
        "1",
        "2",
        "*",
        "3*",
        "2x2",
        "2x*",
        "0",
        "0x*",
        "5",
        "2147483647",
        "65536x65536",
        "-1",
        "1x",
        "16*",
    )
    fields = []
    for at in range(random.randint(1, 4)):
        size = random.choice(sizes) if random.random() < 0.5 else ""
        told = {
            "name": f"c{at}",
            "datatype": random.choice(kinds[:-1]),
            **({"arraysize": size} if size else {}),
        }
        if random.random() < 0.1:
            told[random.choice(("name", "datatype", "arraysize", "unit", "ID"))] = hostile_text(random)
        null = f"<VALUES null={quoteattr(random.choice(NUMBERS))}/>" if random.random() < 0.2 else ""
        fields.append(
            f"<FIELD {' '.join(f'{key}={quoteattr(text)}' for key, text in told.items())}>{null}</FIELD>"
        )
    form = random.choice(("TABLEDATA", "BINARY", "BINARY2"))
    if form == "TABLEDATA":
        cells = (
            "",
            "1",
            "0",
            "true",
            "?",
            "1 2",
            "1 2 3 4",
            "NaN",
            "+Inf",
            "x",
            "2.5e3",
            *NUMBERS,
            *TEXTS[:50],
        )
        rows = [[escape(random.choice(cells)) for _ in fields] for _ in range(random.randint(0, 5))]
        body = "".join(f"<TR>{''.join(f'<TD>{cell}</TD>' for cell in row)}</TR>" for row in rows)
    else:
        lengths = (0, 1, 2, 3, 5, 255, 65536, -1, 2**31 - 1)
        pieces = [
            random.choice(lengths).to_bytes(4, "big", signed=True)
            if random.random() < 0.5
            else random.randbytes(8)
            for _ in range(random.randint(0, 12))
        ]
        body = f"<STREAM encoding='base64'>{base64.encodebytes(b''.join(pieces)).decode()}</STREAM>"
    table = f"<TABLE>{''.join(fields)}<DATA><{form}>{body}</{form}></DATA></TABLE>"
    return f"<VOTABLE><RESOURCE>{table}</RESOURCE></VOTABLE>".encode("utf-8", "replace")


def _votable_options(random: Random) -> dict[str, Any]:
    return (
        {"table": random.choice((0, 1, 5, "x"))}
        if random.random() < 0.15
        else {"nan_is_null": random.random() < 0.5}
    )


TARGET = Target(
    "votable", case_of(_votable, ".vot", _votable_made, _votable_options), read_as("votable"), share=12
)
