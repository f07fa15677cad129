"""The binary table of a FITS file: found among the HDUs, with its columns and where its bytes lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from astropy.io import fits
from astropy.io.fits.verify import VerifyError

from hipslake.errors import CorruptFileError, InputError
from hipslake.sources.fits.binary_columns import FitsColumn, read_columns
from hipslake.sources.fits.bytes import FitsBytes
from hipslake.specs.source_spec import FitsOptions

_BLOCK = 2880
_CARD = 80
_END = b"END" + b" " * (_CARD - 3)
_LONGEST_HEADER = 16 << 20
_MOST_BYTES = 1 << 62
_SIZES = re.compile(r"NAXIS\d*|BITPIX|PCOUNT|GCOUNT")
_DAMAGE = (KeyError, TypeError, ValueError, OverflowError, VerifyError)  # what astropy raises about cards


class FitsTable(NamedTuple):
    """A binary table."""

    columns: tuple[FitsColumn, ...]
    rows: int
    row_bytes: int
    start: int  # of the first row, in the uncompressed file
    heap_start: int
    stop: int  # behind the heap

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow fields."""
        return pa.schema([column.field for column in self.columns])


class _Hdu(NamedTuple):
    number: int
    header: fits.Header
    start: int  # of the data
    stop: int  # of the data, without padding
    kind: str
    name: str
    in_tiles: bool  # an image or a table that is compressed in tiles, and so no table of its own rows

    @property
    def is_table(self) -> bool:
        """Whether it is a binary table of rows."""
        return self.kind in ("BINTABLE", "A3DTABLE") and not self.in_tiles

    @property
    def kind_text(self) -> str:
        """What it is, for messages."""
        return "compressed in tiles" if self.in_tiles else self.kind


def find_table(data: FitsBytes, options: FitsOptions, uri: str) -> FitsTable | None:
    """Find the table that the options name, or else the first one; None when the file is empty.

    Raises
    ------
    CorruptFileError
        When the file is no FITS file, or a header is damaged.
    InputError
        When there is no such table.
    """
    passed: list[str] = []
    for hdu in _hdus(data, uri):
        if _is_asked_for(hdu, options.hdu):
            return _table(hdu, uri)
        passed.append(f"{hdu.number} {hdu.name or '(no name)'}: {hdu.kind_text}")
    if not passed:
        return None
    what = "binary table" if options.hdu is None else f"HDU {options.hdu!r}"
    raise InputError(
        f"{uri} has no {what}; it has {'; '.join(passed)}. Name a binary table in source.options.hdu"
    )


def _is_asked_for(hdu: _Hdu, asked: int | str | None) -> bool:
    if asked is None:
        return hdu.is_table
    return hdu.number == asked if isinstance(asked, int) else hdu.name.casefold() == asked.strip().casefold()


def _hdus(data: FitsBytes, uri: str) -> Iterator[_Hdu]:
    at, number = 0, 0
    while (found := _header_text(data, at, number, uri)) is not None:
        try:
            hdu = _hdu(number, fits.Header.fromstring(found), at + _padded(len(found)))
        except _DAMAGE as error:
            raise CorruptFileError(f"{uri}: the header of HDU {number} is damaged: {error}") from error
        yield hdu
        at, number = hdu.start + _padded(hdu.stop - hdu.start), number + 1


def _hdu(number: int, header: fits.Header, start: int) -> _Hdu:
    for key in header:
        if _SIZES.fullmatch(key) and not isinstance(header[key], int):
            raise ValueError(f"{key} is {header[key]!r:.80}, and no integer")
    size = header.data_size
    if not (isinstance(size, int) and 0 <= size < _MOST_BYTES):
        raise ValueError(f"its data have {size} bytes")
    return _Hdu(
        number=number,
        header=header,
        start=start,
        stop=start + size,
        kind=str(header.get("XTENSION", "primary")).strip(),
        name=str(header.get("EXTNAME", "")).strip(),
        in_tiles=bool(header.get("ZIMAGE", False) or header.get("ZTABLE", False)),
    )


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _header_text(data: FitsBytes, at: int, number: int, uri: str) -> bytes | None:
    """Read the cards of the header that begins at a byte, END with them. None: the file ends."""
    text = data.read(at, at + _BLOCK)
    if at > 0 and not text.startswith(b"XTENSION"):
        return None  # the end of the file, or what the standard calls special records
    if at == 0 and not text:
        return None
    if at == 0 and not text.startswith(b"SIMPLE  ="):
        raise CorruptFileError(f"{uri} is no FITS file: it does not begin with SIMPLE")
    end = _end(text, 0)
    while end < 0:
        more = data.read(at + len(text), at + len(text) + _BLOCK)
        if len(more) < _BLOCK or len(text) > _LONGEST_HEADER:
            raise CorruptFileError(
                f"{uri}: the header of HDU {number} has no END; the file is truncated or damaged: replace it"
            )
        text, seen = text + more, len(text)
        end = _end(text, seen)
    return text[: end + _CARD]


def _end(text: bytes, start: int) -> int:
    """Return where the END card stands in a header, -1 if it does not."""
    at = text.find(_END, start)
    while at >= 0 and at % _CARD:
        at = text.find(_END, at + 1)
    return at


def _table(hdu: _Hdu, uri: str) -> FitsTable:
    where = f"{uri}: HDU {hdu.number}" + (f" ({hdu.name})" if hdu.name else "")
    if not hdu.is_table:
        raise InputError(f"{where} is no binary table ({hdu.kind_text}); name one in source.options.hdu")
    header = hdu.header
    try:
        columns = read_columns(header, where)
        rows, row_bytes = int(header["NAXIS2"]), int(header["NAXIS1"])
        gap = int(header.get("THEAP", rows * row_bytes))
        if rows < 0 or row_bytes < 0 or gap < rows * row_bytes:
            raise ValueError(f"{rows} rows of {row_bytes} bytes, and the heap at byte {gap}")
    except _DAMAGE as error:
        raise CorruptFileError(f"{where}: the header is damaged: {error}") from error
    return FitsTable(columns, rows, row_bytes, hdu.start, hdu.start + gap, hdu.stop)
