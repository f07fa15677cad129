"""The columns of a FITS binary table: where each stands in a row, and what Arrow type holds its values.

From the FITS standard 4.0, section 7.3: https://fits.gsfc.nasa.gov/fits_standard.html
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from astropy.io import fits

from hipslake.errors import CorruptFileError, InputError, SchemaMismatchError
from hipslake.sources.unification import described_field
from hipslake.specs.plain_yaml import Document, PlainLoader

_FORM = re.compile(r"(\d*)([LXBIJKAEDCM])(\d*)")
_POINTER = re.compile(r"([01]?)([PQ])([LXBIJKAEDCM])(?:\(\d*\))?")
_DIM = re.compile(r"\( *\d+ *(?:, *\d+ *)*\)")
_NUMBERS = {"B": "u1", "I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4", "D": ">f8", "C": ">f4", "M": ">f8"}
_ELEMENT_BYTES = {"L": 1, "A": 1, "C": 8, "M": 16}
_POINTER_BYTES = {"P": 8, "Q": 16}
_MOST_VALUES = 2**31 - 1
_BEGIN, _END = "--BEGIN-ASTROPY-SERIALIZED-COLUMNS--", "--END-ASTROPY-SERIALIZED-COLUMNS--"


class FitsColumn(NamedTuple):
    """A column of a table.

    Of an array column, `shape` is that of a cell, the slowest axis first; of a column of texts, `text_bytes`
    is the room for one text. With `pointer`, a cell points into the heap, where its values stand.
    """

    name: str
    code: str  # of TFORM: which kind of values
    pointer: str  # P or Q, or empty where the values stand in the row
    offset: int  # in a row, in bytes
    repeat: int  # values in a cell; of texts, the texts
    shape: tuple[int, ...]
    text_bytes: int
    scale: float
    zero: float
    null: int | None
    unit: str
    description: str
    ucd: str = ""

    @property
    def element_bytes(self) -> int:
        """Size of a stored value, in bytes; bits are packed and have none."""
        if self.code == "A":
            return self.text_bytes
        return _ELEMENT_BYTES.get(self.code) or np.dtype(_NUMBERS[self.code]).itemsize

    @property
    def width(self) -> int:
        """Size of a cell in the row, in bytes."""
        if self.pointer:
            return _POINTER_BYTES[self.pointer] if self.repeat else 0
        return (self.repeat + 7) // 8 if self.code == "X" else self.repeat * self.element_bytes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored type of numbers, and of the parts of complex ones: big-endian."""
        return np.dtype(_NUMBERS[self.code])

    @property
    def unsigned(self) -> bool:
        """Whether `zero` only turns signed integers into unsigned ones, or unsigned bytes into signed."""
        half = -128 if self.code == "B" else 1 << (8 * self.element_bytes - 1) if self.code in "IJK" else None
        return half is not None and self.scale == 1 and self.zero == half

    @property
    def scaled(self) -> bool:
        """Whether values are what is stored times `scale` plus `zero`."""
        return (self.scale, self.zero) != (1, 0) and not self.unsigned

    @property
    def element_type(self) -> pa.DataType:
        """The Arrow type of one value."""
        match self.code:
            case "L" | "X":
                return pa.bool_()
            case "A":
                return pa.string()
            case "C" | "M":
                part = pa.float32() if self.code == "C" else pa.float64()
                return pa.struct([("real", part), ("imaginary", part)])
        if self.scaled:
            return pa.float64()
        native = self.dtype.newbyteorder("=")
        if self.unsigned:
            native = np.dtype(f"{'i' if native.kind == 'u' else 'u'}{native.itemsize}")
        return pa.from_numpy_dtype(native)

    @property
    def field(self) -> pa.Field:
        """The Arrow field, with unit and description where the file has them."""
        kind = self.element_type
        if self.pointer and self.code != "A":
            kind = pa.list_(kind)
        for size in reversed(self.shape):
            kind = pa.list_(kind, size)
        return described_field(self.name, kind, self.unit, self.description, self.ucd)

    @property
    def decoded_width(self) -> int:
        """Size of a cell in memory, in bytes; without what it points to."""
        if self.pointer:
            return self.width
        if self.code in "LX":
            return self.repeat * 2  # a byte each, twice while they are turned into bits
        return self.repeat * max(self.element_bytes, 8 if self.scaled else 0)


def read_columns(header: fits.Header, where: str) -> tuple[FitsColumn, ...]:
    """Return the columns that a table's header describes.

    Parameters
    ----------
    header
        Of the binary table.
    where
        The file and the table, for messages.

    Raises
    ------
    CorruptFileError
        When a column's format is none, or the columns do not fill a row.
    SchemaMismatchError
        When a column has no name.
    InputError
        When a column holds what Arrow cannot; the message names it.
    """
    descriptions = _descriptions(header)
    columns: list[FitsColumn] = []
    offset = 0
    for number in range(1, header["TFIELDS"] + 1):
        column = _column(header, number, offset, descriptions, where)
        columns.append(column)
        offset += column.width
    if offset != header["NAXIS1"]:
        raise CorruptFileError(
            f"{where}: the columns take {offset} bytes of a row, but a row has {header['NAXIS1']} (NAXIS1)"
        )
    return tuple(columns)


def _column(
    header: fits.Header, number: int, offset: int, descriptions: dict[str, str], where: str
) -> FitsColumn:
    name = str(header.get(f"TTYPE{number}", "")).strip()
    if not name:
        raise SchemaMismatchError(f"{where}: column {number} has no name (TTYPE{number}); give it one")
    where = f"{where}: column {name!r}"
    count, code, pointer, text_bytes = _form(str(header[f"TFORM{number}"]).strip(), where)
    if count > _MOST_VALUES:
        raise CorruptFileError(f"{where}: {count} values in a cell are more than an array can have")
    shape: tuple[int, ...] = (count,) if count > 1 and not pointer else ()
    if f"TDIM{number}" in header and not pointer:
        shape = _shape(str(header[f"TDIM{number}"]), count, where)
    if code == "A" and not pointer:
        if f"TDIM{number}" in header:
            *shape_of_texts, text_bytes = shape
            shape = tuple(shape_of_texts)
        else:
            text_bytes = min(text_bytes or count, count)
            shape = (count // text_bytes,) if text_bytes and count // text_bytes > 1 else ()
        if text_bytes and count % text_bytes:
            raise CorruptFileError(f"{where}: {count} bytes do not hold texts of {text_bytes} each")
        count = count // text_bytes if text_bytes else 0
    scaling = code not in "ALX" and count > 0
    scale = float(header.get(f"TSCAL{number}", 1)) if scaling else 1.0
    zero = float(header.get(f"TZERO{number}", 0)) if scaling else 0.0
    column = FitsColumn(
        name=name,
        code=code,
        pointer=pointer,
        offset=offset,
        repeat=count,
        shape=shape if count else (),
        text_bytes=text_bytes,
        scale=scale,
        zero=zero,
        null=int(header[f"TNULL{number}"]) if code in "BIJK" and f"TNULL{number}" in header else None,
        unit=str(header.get(f"TUNIT{number}", "")).strip(),
        description=str(header.get(f"TCOMM{number}", "")).strip() or descriptions.get(name, ""),
        ucd=str(header.get(f"TUCD{number}", "")).strip(),
    )
    if code in "CM" and column.scaled:
        raise InputError(f"{where} holds scaled complex numbers, which are not read; store them unscaled")
    return column


def _form(form: str, where: str) -> tuple[int, str, str, int]:
    """Parse a TFORM: repeat count, type code, P or Q for pointers, and the bytes of one text."""
    if match := _FORM.match(form):
        count, code, rest = match.groups()
        return int(count or 1), code, "", int(rest) if code == "A" and rest else 0
    if match := _POINTER.match(form):
        count, pointer, code = match.groups()
        if code == "X":
            raise InputError(
                f"{where} holds bit arrays of variable length, which are not read; store them as logicals"
            )
        return int(count or 1), code, pointer, 1
    raise CorruptFileError(f"{where}: TFORM {form!r} is no format of a binary table")


def _shape(dim: str, count: int, where: str) -> tuple[int, ...]:
    axes = tuple(int(size) for size in re.findall(r"\d+", dim))
    if not _DIM.fullmatch(dim.strip()) or math.prod(axes) != count:
        raise CorruptFileError(f"{where}: TDIM {dim!r} is no shape of {count} values")
    return axes[::-1]


def _descriptions(header: fits.Header) -> dict[str, str]:
    """Return what astropy wrote of columns that FITS has no keyword for: YAML in comments."""
    lines = [str(line) for line in header.get("COMMENT", ())]
    if _BEGIN not in lines or _END not in lines:
        return {}
    text = "\n".join(lines[lines.index(_BEGIN) + 1 : lines.index(_END)]).replace("\\\n", "")
    try:
        columns = Document(text, PlainLoader).value()["datatype"]
        return {str(column["name"]): str(column.get("description") or "") for column in columns}
    except (ValueError, KeyError, TypeError, AttributeError):  # somebody's comments
        return {}
