"""Source files, spoilt: every reader gets sound files with some places changed, and some made up anew."""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hipslake.errors import SpecError, StorageError
from hipslake.sources import open_source
from hipslake.specs.source import SourceSpec
from pydantic import ValidationError

from tests.fuzz.mutation import NUMBERS, TEXTS, hostile_text, hostile_value, respelt, spoilt
from tests.fuzz.target import Case, Target

Corpus = Callable[[], list[bytes]]
_MOST_ROWS = 5_000_000  # a sound file of some bytes may say that it has many: so many are read


def _read(format_: str) -> Callable[[Case, Path], None]:
    def read(case: Case, folder: Path) -> None:
        """Read a file as the jobs do: list, split, infer, unify, read."""
        (folder / f"a{case.ending}").write_bytes(case.data)
        target_bytes = case.told.get("target_bytes", 1 << 28)
        given = {"uri": f"{folder}/*", "format": format_, "options": case.told.get("options", {})}
        try:
            source = open_source(SourceSpec.model_validate(given))
        except ValidationError as error:
            raise SpecError(str(error)) from None  # as whoever reads a spec file does
        try:
            files = source.list_files()
            splits = source.splits(files, target_bytes)[:50]
            schema = source.schema(files)
            if schema is None:
                schema = source.unify([(split.file.uri, source.infer(split)) for split in splits])
            rows = 0
            for split in splits:
                for batch in source.read(split, schema):
                    batch.validate()
                    rows += batch.num_rows
                    if rows > _MOST_ROWS:
                        return
        except StorageError as error:
            raise AssertionError(f"the file is damaged, but the run would try again: {error}") from error

    return read


def _case(
    corpus: Corpus,
    ending: str,
    remade: Callable[[Random, bytes], bytes],
    options: Callable[[Random], dict[str, Any]],
) -> Callable[[Random], Case]:
    def make(random: Random) -> Case:
        sound = corpus()
        data = random.choice(sound)
        told = {"options": options(random), "target_bytes": random.choice((1, 100, 3000, 1 << 28))}
        if random.random() < 0.6:
            data = remade(random, data)
        if random.random() < 0.3 or data in sound:
            data = spoilt(random, data, sound, most=random.choice((1, 2, 6)))
        match random.randrange(12):
            case 0:
                packed = gzip.compress(data, 1, mtime=0)
                return Case(spoilt(random, packed) if random.random() < 0.5 else packed, f"{ending}.gz", told)
            case 1:
                packed = pa.Codec("zstd").compress(data, asbytes=True)
                return Case(
                    spoilt(random, packed) if random.random() < 0.5 else packed, f"{ending}.zst", told
                )
        return Case(data, ending, told)

    return make


def _table(random: Random, rows: int) -> pa.Table:
    """Rows of many types, with nulls."""
    values = {
        "id": pa.array(range(rows), pa.int64()),
        "ra": pa.array([random.uniform(0, 360) for _ in range(rows)]),
        "dec": pa.array([random.uniform(-90, 90) for _ in range(rows)], pa.float32()),
        "flag": pa.array([random.choice((True, False, None)) for _ in range(rows)]),
        "name": pa.array([random.choice(("a", "é", "", None)) for _ in range(rows)]),
        "when": pa.array([random.randrange(10**15) for _ in range(rows)], pa.timestamp("us", "UTC")),
        "bytes": pa.array([random.randbytes(3) for _ in range(rows)]),
        "list": pa.array([[1.5] * random.randrange(4) for _ in range(rows)]),
        "word": pa.array([random.choice("xyz") for _ in range(rows)]).dictionary_encode(),
        "price": pa.array([random.randrange(10**6) for _ in range(rows)]).cast(pa.decimal128(21, 2)),
        "pair": pa.array(
            [{"a": 1, "b": None} for _ in range(rows)], pa.struct([("a", pa.int8()), ("b", pa.string())])
        ),
    }
    return pa.table(values)


@cache
def _parquet() -> list[bytes]:
    random = Random(1)
    made = []
    for rows, form in ((0, {}), (5, {}), (300, {"row_group_size": 100}), (50, {"version": "1.0"})):
        for checked in (True, False):
            for more in ({"compression": "zstd"}, {"compression": "none", "use_dictionary": False}):
                sink = io.BytesIO()
                kept = {"write_page_checksum": checked, "store_schema": checked}
                pq.write_table(_table(random, rows), sink, **kept, **form, **more)
                made.append(sink.getvalue())
    return made


def _footer(random: Random, data: bytes) -> bytes:
    """Change the footer alone, which says where everything stands; or pages alone, and leave their places."""
    size = int.from_bytes(data[-8:-4], "little")
    begin = len(data) - 8 - size
    footer, pages = data[begin:-8], data[4:begin]
    if random.random() < 0.5:
        footer = spoilt(random, footer, most=2)
    else:
        changed = spoilt(random, pages, most=3)[: len(pages)].ljust(len(pages), b"\0")
        data = data[:4] + changed + data[begin:]
    length = len(footer) if random.random() < 0.9 else random.choice((0, 1, 2**31 - 1, 2**32 - 1))
    return data[:begin] + footer + length.to_bytes(4, "little") + b"PAR1"


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


_ECSV = (
    b"""# %ECSV 1.0
# ---
# datatype:
# - {name: id, datatype: int64, unit: mag, description: a number}
# - {name: ra, datatype: float64, unit: deg}
# - {name: ok, datatype: bool}
# - {name: list, datatype: string, subtype: 'float64[null]'}
# - {name: grid, datatype: string, subtype: 'int16[2,2]'}
# meta: !!omap
# - {a: 1}
# schema: astropy-2.0
id ra ok list grid
1 2.5 True [1,2] [[1,2],[3,4]]
2 "" False [] [[0,0],[0,0]]
""",
    b"""# %ECSV 1.0
# ---
# delimiter: ','
# datatype:
# - {name: a, datatype: float16}
# - {name: b, datatype: string}
a,b
1.5,"x, y"
nan,
""",
)
_ECSV_WORDS = (
    *(
        "datatype",
        "subtype",
        "float128",
        "object",
        "json",
        "int8",
        "uint64",
        "string",
        "bool",
        "float64[null]",
    ),
    *(
        "int64[0]",
        "int64[2147483647,2147483647]",
        "delimiter: 'x'",
        "delimiter: [1]",
        "delimiter:",
        "!!omap",
        "!!set",
    ),
    *(
        "!!python/object/apply:os.system ['true']",
        "!astropy.table.Column {}",
        "!numpy.ndarray {}",
        "&a [*a]",
        "*a",
    ),
    *(
        "!!timestamp x",
        "!!int ''",
        "!!binary '*'",
        "!!bool x",
        "<<: *a",
        "name: [1]",
        "name: null",
        "? [a]",
        "%",
    ),
)


def _ecsv_made(random: Random, data: bytes) -> bytes:
    """A sound header of hostile columns, and hostile rows."""
    if random.random() < 0.4:
        return _by_words(_ECSV_WORDS)(random, data)
    types = ("int8", "uint64", "float16", "float32", "float64", "bool", "string", "float128", "")
    shapes = (
        "float64[null]",
        "int16[2,2]",
        "int8[0]",
        "bool[null,2]",
        "string[3]",
        "uint64[2147483647]",
        "json",
        "x",
    )
    columns: list[dict[str, Any]] = []
    for at in range(random.randint(1, 4)):
        column = {"name": random.choice((f"c{at}", *TEXTS[:40])), "datatype": random.choice(types)}
        if random.random() < 0.4:
            column |= {"datatype": "string", "subtype": random.choice(shapes)}
        if random.random() < 0.3:
            column |= {random.choice(("unit", "description", "format")): hostile_value(random)}
        columns.append(column)
    comma = random.choice((" ", ","))
    header = {"delimiter": comma, "datatype": columns} if random.random() < 0.9 else {"datatype": columns}
    told = yaml.safe_dump(header, allow_unicode=True, default_flow_style=random.choice((None, True, False)))
    cells = (
        "1",
        "-7",
        "2.5",
        "True",
        "x",
        "",
        '""',
        '"[1,2]"',
        '"[[1,2],[3,4]]"',
        '"[null]"',
        '"{""a"": 1}"',
        '"["',
    )
    lines = [comma.join(str(column["name"]) for column in columns)]
    for _ in range(random.randint(0, 5)):
        lines.append(comma.join(random.choice((*cells, *cells, *NUMBERS)) for _ in columns))
    text = (
        "# %ECSV 1.0\n# ---\n" + "".join(f"# {line}\n" for line in told.split("\n")) + "\n".join(lines) + "\n"
    )
    return text.encode("utf-8", "surrogatepass")


def _by_words(words: tuple[str, ...]) -> Callable[[Random, bytes], bytes]:
    def remade(random: Random, data: bytes) -> bytes:
        text = respelt(random, data.decode("utf-8", "surrogateescape"), words, most=random.choice((1, 2, 4)))
        return text.encode("utf-8", "surrogatepass" if random.random() < 0.5 else "replace")

    return remade


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
        return _by_words(_VOTABLE_WORDS)(random, data)
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


@cache
def _fits() -> list[bytes]:
    from astropy.io import fits

    lists = np.empty(20, object)
    lists[:] = [np.arange(at % 4) for at in range(20)]
    columns = [
        fits.Column("id", "J", array=np.arange(20), null=-1),
        fits.Column("ra", "D", array=np.linspace(0, 350, 20), unit="deg"),
        fits.Column("name", "6A", array=np.arange(20).astype("S6")),
        fits.Column("list", "PI", array=lists),
        fits.Column("ok", "L", array=np.arange(20) % 2 == 0),
        fits.Column("bits", "11X", array=np.zeros((20, 11), bool)),
        fits.Column("grid", "6E", dim="(3,2)", array=np.zeros((20, 2, 3), "f4")),
        fits.Column("z", "M", array=np.arange(20) * 1j),
        fits.Column("count", "J", bzero=2**31, array=np.arange(20, dtype="u4")),
        fits.Column("scaled", "E", bscale=0.5, bzero=3.0, array=np.arange(20.0)),
        fits.Column("texts", "12A", dim="(4,3)", array=np.full((20, 3), b"ab")),
    ]
    made = []
    for chosen in (columns, columns[:3], columns[3:4], columns[5:7]):
        sink = io.BytesIO()
        fits.BinTableHDU.from_columns(chosen).writeto(sink)
        made.append(sink.getvalue())
    sink = io.BytesIO()
    image = fits.CompImageHDU(np.zeros((30, 40), "i2"), name="TILES")
    fits.HDUList(
        [fits.PrimaryHDU(np.zeros(5, "i2")), image, fits.BinTableHDU.from_columns(columns[:2])]
    ).writeto(sink)
    return [*made, sink.getvalue()]


_CARDS = (
    *(
        "NAXIS1",
        "NAXIS2",
        "PCOUNT",
        "GCOUNT",
        "TFIELDS",
        "THEAP",
        "BITPIX",
        "NAXIS",
        "XTENSION",
        "SIMPLE",
        "EXTEND",
    ),
    *(
        "TFORM1",
        "TFORM2",
        "TFORM4",
        "TTYPE1",
        "TTYPE2",
        "TDIM1",
        "TDIM7",
        "TNULL1",
        "TSCAL1",
        "TZERO1",
        "TUNIT1",
    ),
    *("EXTNAME", "ZIMAGE", "GROUPS", "NAXIS3", "CONTINUE", "COMMENT", "HIERARCH", "TCOMM1", "END"),
)
_FORMS = (
    *(
        "1J",
        "0J",
        "J",
        "99999999999999999999J",
        "2147483647D",
        "2147483648B",
        "PJ",
        "QD(5)",
        "1PX",
        "2PJ",
        "PA(3)",
    ),
    *(
        "0PJ",
        "12A4",
        "12A0",
        "0A",
        "3X",
        "0X",
        "C",
        "2M",
        "L",
        "9Z",
        "",
        "J J",
        "-1J",
        "1.5J",
        "rJ",
        "16A99999999999",
    ),
)


def _fits_cards(random: Random, data: bytes) -> bytes:
    """Put other values into the cards of the headers; each keeps its 80 bytes."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(0, max(len(data), 1), 80) if random.random() < 0.3 else _card(random, data)
        name = data[at : at + 8].decode("latin-1") if random.random() < 0.7 else random.choice(_CARDS)
        value = random.choice((*NUMBERS[:-10], *(f"'{form}'" for form in _FORMS), "T", "F", "", *TEXTS[:30]))
        card = f"{name[:8]:8}= {value}"[:80].encode("latin-1", "replace").ljust(80)
        data = data[:at] + card + data[at + 80 :]
    return data


def _card(random: Random, data: bytes) -> int:
    """Where a card of the table's header stands."""
    places = [data.find(name.encode().ljust(8) + b"=") for name in random.sample(_CARDS, 5)]
    return next((at for at in places if at >= 0), 0)


def _fits_options(random: Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if random.random() < 0.2:
        given["hdu"] = random.choice((0, 1, 2, 99, "TILES", "é"))
    if random.random() < 0.3:
        given |= {"encoding": "latin-1", "nan_is_null": False}
    return given


def _votable_options(random: Random) -> dict[str, Any]:
    return (
        {"table": random.choice((0, 1, 5, "x"))}
        if random.random() < 0.15
        else {"nan_is_null": random.random() < 0.5}
    )


def _ecsv_options(random: Random) -> dict[str, Any]:
    return {"newlines_in_values": random.random() < 0.5}


TARGETS = (
    Target("csv", _case(lambda: list(_CSV), ".csv", _csv_made, _csv_options), _read("csv"), share=12),
    Target("ecsv", _case(lambda: list(_ECSV), ".ecsv", _ecsv_made, _ecsv_options), _read("ecsv"), share=8),
    Target("fits", _case(_fits, ".fits", _fits_cards, _fits_options), _read("fits"), share=12),
    Target(
        "votable",
        _case(_votable, ".vot", _votable_made, _votable_options),
        _read("votable"),
        share=12,
    ),
    Target("parquet", _case(_parquet, ".parquet", _footer, lambda random: {}), _read("parquet"), share=12),
)
