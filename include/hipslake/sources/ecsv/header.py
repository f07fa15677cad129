"""The header of an ECSV file: YAML in comment lines, then the names of the columns.

From the ECSV format, version 1.0: https://github.com/astropy/astropy-APEs/blob/main/APE6.rst
"""

from __future__ import annotations

import re
import textwrap
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError
from hipslake.sources.csv.header import CsvHeader, read_header
from hipslake.sources.fixed_arrays import is_too_large
from hipslake.sources.unification import described_field
from hipslake.specs.plain_yaml import Document, PlainLoader
from hipslake.specs.source_spec import CsvOptions

_TYPES = {
    "bool": pa.bool_(),
    **{
        f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
}
_SUBTYPE = re.compile(r"(\w+)\[(\s*(?:\d{1,18}|null)\s*(?:,\s*(?:\d{1,18}|null)\s*)*)\]")
_BOM = b"\xef\xbb\xbf"
_LONGEST = 4 << 20


class EcsvHeader(NamedTuple):
    """What stands before the first row.

    Attributes
    ----------
    csv
        The names of the columns, and where the first row starts.
    options
        How the rows are written.
    schema
        The columns with types, units and descriptions.
    json
        Names of the columns whose values are arrays, written as JSON.
    """

    csv: CsvHeader
    options: CsvOptions
    schema: pa.Schema
    json: frozenset[str]


def read_ecsv_header(
    text: BinaryIO, uri: str, *, newlines_in_values: bool, null_values: tuple[str, ...] = ("",)
) -> EcsvHeader | None:
    """Read the header of a file; None when the file is empty.

    Parameters
    ----------
    text
        The uncompressed file, at its beginning.
    null_values
        Texts that stand for null, in quotes too.

    Raises
    ------
    CorruptFileError
        When the file is no ECSV file, or its header is damaged.
    InputError
        When a column has a type that Arrow has not; the message names it.
    """
    lines = _comment_lines(text, uri)
    if not lines:
        return None
    if not lines[0].removeprefix(_BOM).startswith(b"# %ECSV"):
        raise CorruptFileError(f"{uri} is no ECSV file: it does not begin with '# %ECSV'")
    document = _header_document(lines, uri)
    options = CsvOptions(
        delimiter=document.get("delimiter", " "),
        null_values=null_values,
        quoted_nulls=True,
        skip_rows=len(lines),
        newlines_in_values=newlines_in_values,
    )
    text.seek(0)
    csv = read_header(text, options, uri)
    names = tuple(str(column["name"]) for column in document["datatype"])
    if csv is None or csv.names != names:
        found = "are missing" if csv is None else f"are {', '.join(csv.names)}"
        raise CorruptFileError(
            f"{uri}: the names of the columns {found}, but the header describes {', '.join(names)}; "
            "mend the file"
        )
    schema = pa.schema([_field(column, uri) for column in document["datatype"]])
    json = frozenset(field.name for field in schema if pa.types.is_nested(field.type))
    return EcsvHeader(csv, options, schema, json)


def _comment_lines(text: BinaryIO, uri: str) -> list[bytes]:
    """Return the lines before the one with the names; all lines where there is none."""
    lines: list[bytes] = []
    size = 0
    while size <= _LONGEST and (line := text.readline(_LONGEST + 1 - size)):
        size += len(line)
        is_comment = line.removeprefix(b"" if lines else _BOM).startswith(b"#")
        if is_comment or not lines:
            lines.append(line.removesuffix(b"\n"))
        if not is_comment:
            break
    if size > _LONGEST:
        raise CorruptFileError(f"{uri}: the header has more than {_LONGEST >> 20} MiB; is this an ECSV file?")
    return lines


def _header_document(lines: list[bytes], uri: str) -> dict[str, Any]:
    """Return what the YAML says: at least `datatype`, a list of columns with name and datatype."""
    try:
        texts = [line.decode().rstrip("\r").removeprefix("#").removeprefix(" ") for line in lines[1:]]
        document = Document(textwrap.dedent("\n".join(texts)), PlainLoader).value()
    except ValueError as error:
        raise CorruptFileError(f"{uri}: the header is no YAML: {error}; mend it") from None
    columns = document.get("datatype") if isinstance(document, dict) else None
    if not isinstance(columns, list) or not all(
        isinstance(column, dict) and {"name", "datatype"} <= column.keys() for column in columns
    ):
        raise CorruptFileError(f"{uri}: the header lists no columns with name and datatype; mend it")
    if document.get("delimiter", " ") not in (" ", ","):
        raise CorruptFileError(
            f"{uri}: the delimiter is {document['delimiter']!r}; ECSV has a space or a comma"
        )
    return dict(document)


def _field(column: dict[str, Any], uri: str) -> pa.Field:
    name, given = str(column["name"]), (column.get("unit"), column.get("description"), _ucd(column))
    kind = _type(str(column["datatype"]), column.get("subtype"), f"{uri}: column {name!r}")
    return described_field(name, kind, *("" if text is None else str(text) for text in given))


def _ucd(column: dict[str, Any]) -> object:
    """The UCD of a column, which astropy writes within `meta`: a mapping, or an `!!omap`, a list of pairs."""
    meta = column.get("meta")
    if isinstance(meta, list):
        meta = dict(pair for pair in meta if isinstance(pair, tuple) and len(pair) == 2)
    return column.get("ucd") or (meta.get("ucd") if isinstance(meta, dict) else None)


def _type(datatype: str, subtype: object, where: str) -> pa.DataType:
    if subtype is None or subtype == "json":  # any JSON at all stays the text that it is
        return _plain(datatype, where)
    match = _SUBTYPE.fullmatch(subtype) if isinstance(subtype, str) else None
    if datatype != "string" or match is None:
        raise InputError(f"{where} has subtype {subtype!r}, which is not read; write the column as numbers")
    kind = _plain(match[1], where)
    sizes = [None if size.strip() == "null" else int(size) for size in match[2].split(",")]
    if is_too_large(size for size in sizes if size is not None):
        raise CorruptFileError(
            f"{where}: subtype {subtype!r} is more than an array can have; mend the header"
        )
    for size in reversed(sizes):
        kind = pa.list_(kind) if size is None else pa.list_(kind, size)
    return kind


def _plain(datatype: str, where: str) -> pa.DataType:
    if datatype not in _TYPES:
        raise InputError(
            f"{where} has datatype {datatype!r}, which is not read; there are {', '.join(_TYPES)}: write the "
            "column as one of them"
        )
    return _TYPES[datatype]
