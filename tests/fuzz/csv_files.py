"""CSV files, spoilt, and made up with hostile dialects."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.mutation import NUMBERS, hostile_text
from tests.fuzz.source_cases import case_of, read_as
from tests.fuzz.target import Target

_CSV = (
    b"id,ra,dec,name\n" + b"".join(b"%d,%d.5,-1.25e1,star %d\n" % (i, i, i) for i in range(40)),
    b'id,ra,dec,note\n1,2.5,3,"a ""quoted"" one, with a comma"\n2,3.5,4,\n3,,,"x\ny"\n',
    b"\xef\xbb\xbfid;when;ok\r\n1;2026-11-21;true\r\n2;2026-11-21T03:30:00.123456789Z;false\r\n",
    "# a comment\nid\tname\t名前\n9223372036854775808\té\t🔭\n0x1F\tNaN\t-inf\n".encode(),
    b"a,b\n\n\n1,2\n",
    b"",
)


def _csv_made(random: Random, data: bytes) -> bytes:
    """A file of hostile cells, with lines of all lengths."""
    comma, end = random.choice((b",", b";", b"\t", b" ")), random.choice((b"\n", b"\r\n", b"\r"))
    width = random.randint(1, 5)
    cells = [
        [hostile_text(random, NUMBERS).encode("utf-8", "surrogatepass") for _ in range(width)]
        for _ in range(random.randint(1, 6))
    ]
    if random.random() < 0.6:
        cells = [[cell.strip() or b"x" for cell in row] for row in cells]
        cells[0] = [b"c%d" % at for at in range(width)]
    return end.join(comma.join(row) for row in cells) + random.choice((end, b""))


def _csv_options(random: Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if random.random() < 0.5:
        given["delimiter"] = random.choice((",", ",", ";", "\t", " ", "|", "\x00", '"'))
    if random.random() < 0.3:
        given["quote"] = random.choice((None, None, "'", '"', ",", "\x00"))
    if random.random() < 0.2:
        given["comment"] = random.choice(("#", ",", "i", " "))
    elif random.random() < 0.3:
        given["newlines_in_values"] = given.get("quote", '"') is not None
    if random.random() < 0.2:
        given |= {"header": False, "column_names": ["a", "b", "c"][: random.randint(1, 3)]}
    if random.random() < 0.3:
        kinds = ("int8", "uint64", "float32", "bool", "string", "binary", "timestamp[ns, tz=UTC]", "date32")
        kinds += (
            "time64[us]",
            "duration[s]",
            "decimal128(5, 2)",
            "timestamp[s, tz=No/Where]",
            "large_string",
        )
        given["types"] = {random.choice(("id", "a", "ra", "c0")): random.choice(kinds)}
    if random.random() < 0.2:
        given |= {"skip_rows": random.choice((0, 1, 2, 50)), "quoted_nulls": random.random() < 0.5}
    return given


TARGET = Target("csv", case_of(lambda: list(_CSV), ".csv", _csv_made, _csv_options), read_as("csv"), share=12)
