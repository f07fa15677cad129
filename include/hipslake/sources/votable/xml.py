"""The XML of a VOTable, read as a stream: the fields of one table, then its rows as they stand there."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Literal
from xml.parsers import expat

from hipslake.errors import CorruptFileError, InputError
from hipslake.sources.source_file import LONGEST_ROW, SourceFile
from hipslake.sources.votable.fields import VotableField, read_field

Serialization = Literal["TABLEDATA", "BINARY", "BINARY2"]

_PIECE_BYTES = 64 << 10
_MOST_DEPTH = 100
_MOST_NAMES = 10_000  # of elements and attributes, and of tables; expat keeps each
_MOST_ELEMENTS = 1_000_000  # outside of rows
_MOST_PASSED = 5_000_000  # in rows of other tables, of any file
_PASSED_RATIO = 10  # of them per byte of a file, at most
_LONGEST_TOKEN = 4 << 20  # bytes of a tag with its attributes, or of a comment; expat keeps it until it ends
_LONGEST_HEADER = 16 << 20


class VotableParser:
    """Incremental parser: takes the bytes of a file, and collects the fields and rows of one table.

    Parameters
    ----------
    table
        Its number, counted from 0 through the file, or its ID or name; None: the first one.
    file
        That is read.
    with_rows
        Whether its rows are read, too; else its fields alone.

    Attributes
    ----------
    fields : tuple of VotableField or None
        None until all of them are known.
    serialization : str
        How the rows are written; empty where there are none.
    rows : list of list of str
        Cells of the rows met, of TABLEDATA; the caller empties the list.
    """

    def __init__(self, table: int | str | None, file: SourceFile, *, with_rows: bool = True) -> None:
        self.fields: tuple[VotableField, ...] | None = None
        self.serialization: Serialization | Literal[""] = ""
        self.rows: list[list[str]] = []
        self._asked, self._uri = 0 if table is None else table, file.uri
        self._with_rows = with_rows
        self._passed: list[str] = []  # names of the tables before
        self._bytes = 0  # that were read
        self._began = 0  # where what is being read began: the file, the table, or a row of it
        self._complaint = ""  # what a service says went wrong
        self._inside = False  # the table that is asked for
        self._found: list[VotableField] = []
        self._attributes: Mapping[str, str] | None = None  # of the FIELD that is open
        self._null: str | None = None
        self._description = ""
        self._text: list[str] = []
        self._row: list[str] = []
        self._base64: list[str] = []
        self._within: Literal["header", "rows", "stream", "passed rows"] = "header"
        self._elements = 0  # met in headers
        self._passed_elements, self._most_passed = 0, max(_MOST_PASSED, _PASSED_RATIO * file.size)
        self._depth = 0
        self._passed_depth = 0  # of the DATA that is passed over
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the file.

        Raises
        ------
        CorruptFileError
            When the bytes are no VOTable.
        InputError
            When the rows stand where they are not read.
        """
        for at in range(0, len(data), _PIECE_BYTES):  # expat goes on to the end of what it is given
            piece = data[at : at + _PIECE_BYTES]
            self._parse(piece, last=False)
            self._bytes += len(piece)
            if not self._inside:
                self._text.clear()  # another table's rows may be one text of any size
            self._check_sizes()

    def close(self) -> None:
        """End the parsing; the file has no more bytes.

        Raises
        ------
        CorruptFileError
            When it does not end as XML does.
        InputError
            When the table was not met.
        """
        if not self._bytes:  # an empty file among others is a night without data, not damage
            return
        self._parse(b"", last=True)
        if self.fields is None:
            tables = (
                ", ".join(f"{at} {name or '(no name)'}" for at, name in enumerate(self._passed)) or "none"
            )
            raise InputError(
                f"{self._uri} has no table {self._asked!r}; its tables are {tables}{self._complaint}. Name "
                "one in source.options.table"
            )

    def take_bytes(self) -> bytes:
        """Return the decoded bytes of BINARY or BINARY2 that were parsed since the last call."""
        in_stream = self._within == "stream"
        if in_stream:
            self._base64 += self._text
            self._text.clear()
        text = "".join("".join(self._base64).split())
        whole = len(text) - len(text) % 4 if in_stream else len(text)
        self._base64 = [text[whole:]]
        try:
            return binascii.a2b_base64(text[:whole], strict_mode=True) if whole else b""
        except ValueError as error:  # also of characters that are not ASCII
            raise CorruptFileError(f"{self._uri}: the STREAM is no base64: {error}; replace it") from None

    def _parse(self, data: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(data, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: of an unknown encoding
            raise CorruptFileError(
                f"{self._uri} is truncated, damaged, or no XML: {error}; replace it"
            ) from None

    def _check_sizes(self) -> None:
        """Refuse elements and texts beyond the limits, before they fill the memory."""
        if self._bytes - self._parser.CurrentByteIndex > _LONGEST_TOKEN:
            raise self._endless("a tag, an attribute or a comment", _LONGEST_TOKEN)
        if len(self._parser.intern) > _MOST_NAMES or len(self._passed) > _MOST_NAMES:
            raise CorruptFileError(
                f"{self._uri} has more than {_MOST_NAMES} tables, or names of elements; replace it"
            )
        if self._within == "header" and self._bytes - self._began > _LONGEST_HEADER:
            raise self._endless("the header", _LONGEST_HEADER)
        if len(self._row) > len(self._found):
            self._check_row()
        if self._within == "rows" and self._bytes - self._began > LONGEST_ROW:
            raise self._endless("a row", LONGEST_ROW)

    def _endless(self, what: str, most: int) -> CorruptFileError:
        return CorruptFileError(
            f"{self._uri}: line {self._parser.CurrentLineNumber}: {what} of more than {most >> 20} MiB does "
            "not end; replace it"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._text.clear()
        if self._depth == 0 and name != "VOTABLE":
            raise CorruptFileError(f"{self._uri} is no VOTable: its root element is {name}")
        self._go_down()
        self._elements += 1
        if self._elements > _MOST_ELEMENTS:
            raise CorruptFileError(
                f"{self._uri} has more than {_MOST_ELEMENTS} elements outside of rows; replace it"
            )
        if name == "INFO" and attributes.get("name") == "QUERY_STATUS" and attributes.get("value") == "ERROR":
            self._complaint = "; QUERY_STATUS is ERROR: "
        if name == "TABLE":
            self._inside = self.fields is None and self._is_asked_for(attributes)
            self._passed.append(attributes.get("name", attributes.get("ID", "")))
            self._enter("header")
            if self._inside and "ref" in attributes:
                raise InputError(
                    f"{self._uri}: the table takes its fields from table {attributes['ref']!r}, which is not "
                    "read; write the fields into it"
                )
        elif self._inside:
            self._start_in_table(name, attributes)
        elif name == "DATA":
            self._passed_depth = self._depth
            self._enter("passed rows")

    def _enter(self, within: Literal["header", "rows", "stream", "passed rows"]) -> None:
        """Go on in another part of the file, whose length is counted from here."""
        self._within = within
        self._began = self._parser.CurrentByteIndex
        start, end = {
            "rows": (self._start_cell, self._end_cell),
            "passed rows": (self._start_passed, self._end_passed),
        }.get(within, (self._start, self._end))
        self._parser.StartElementHandler, self._parser.EndElementHandler = start, end

    def _go_down(self) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise CorruptFileError(
                f"{self._uri}: elements are nested more than {_MOST_DEPTH} deep; replace it"
            )

    def _start_in_table(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "FIELD":
                self._attributes, self._null, self._description = attributes, None, ""
            case "VALUES" if self._attributes is not None and "null" in attributes:
                self._null = attributes["null"]
            case "DATA":
                self.fields = tuple(self._found)
                self._passed_depth = self._depth
                self._enter("header" if self._with_rows else "passed rows")
            case "TABLEDATA":
                self.serialization = name
                self._enter("rows")
            case "BINARY" | "BINARY2":
                self.serialization = name
            case "FITS" | "PARQUET" if self._with_rows:
                raise InputError(f"{self._uri}: rows within {name} are not read; write them as TABLEDATA")
            case "STREAM":
                if "href" in attributes or attributes.get("encoding", "base64") != "base64":
                    raise InputError(
                        f"{self._uri}: the rows lie in another file, or are no base64; write them "
                        "as TABLEDATA, or within the file"
                    )
                self._enter("stream")

    def _start_cell(self, tag: str, attributes: dict[str, str]) -> None:
        """Within TABLEDATA, which has few elements and very many of them."""
        self._text.clear()
        self._go_down()
        if "encoding" in attributes:
            raise InputError(f"{self._uri}: encoded cells are not read; write them as text")

    def _end_cell(self, tag: str) -> None:
        self._depth -= 1
        if tag.endswith("TD"):
            self._row.append("".join(self._text))
        elif tag.endswith("TR"):
            self._check_row()
            self.rows.append(self._row)
            self._row = []
            self._began = self._parser.CurrentByteIndex
        else:
            self._depth += 1
            self._enter("header")
            self._end(tag)

    def _start_passed(self, tag: str, attributes: dict[str, str]) -> None:
        """Within the rows of a table that is not asked for."""
        self._go_down()
        self._passed_elements += 1
        if self._passed_elements > self._most_passed:
            raise InputError(
                f"{self._uri}: more than {self._most_passed} elements in rows of other tables come of so "
                "few bytes; write the table into a file of its own"
            )

    def _end_passed(self, tag: str) -> None:
        self._depth -= 1
        if self._depth < self._passed_depth:
            self._text.clear()
            self._enter("header")

    def _end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.rpartition(":")[2]
        if name == "INFO" and self._complaint.endswith(": "):
            self._complaint += "".join(self._text).strip() or "(no reason given)"
        if self._inside:
            self._end_in_table(name)

    def _end_in_table(self, name: str) -> None:
        match name:
            case "DESCRIPTION" if self._attributes is not None:
                self._description = "".join(self._text)
            case "FIELD" if self._attributes is not None:
                self._found.append(read_field(self._attributes, self._null, self._description, self._uri))
                self._attributes = None
            case "STREAM":
                self._base64 += self._text
                self._enter("header")
            case "TABLE":
                self.fields = tuple(self._found)
                self._inside = False
                self._enter("header")

    def _check_row(self) -> None:
        if not self._found:
            raise CorruptFileError(f"{self._uri}: the table has rows, but no FIELD; mend it")
        if len(self._row) != len(self._found):
            raise CorruptFileError(
                f"{self._uri}: line {self._parser.CurrentLineNumber}: a row with {len(self._row)} cells, but "
                f"there are {len(self._found)} fields; mend it"
            )

    def _is_asked_for(self, attributes: Mapping[str, str]) -> bool:
        if isinstance(self._asked, int):
            return len(self._passed) == self._asked
        return self._asked.strip() in (attributes.get("ID"), attributes.get("name"))
