"""The fields of a VOTable: what they hold, what Arrow type holds that, and arrays of their values.

From the VOTable format, version 1.5: https://www.ivoa.net/documents/VOTable/
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError, InputError, SchemaMismatchError
from hipslake.sources.fixed_arrays import is_too_large
from hipslake.sources.unification import described_field

_NUMBERS = {
    "unsignedByte": "u1",
    "short": ">i2",
    "int": ">i4",
    "long": ">i8",
    "float": ">f4",
    "double": ">f8",
    "floatComplex": ">f4",
    "doubleComplex": ">f8",
}
_TEXTS = {"char": 1, "unicodeChar": 2}  # bytes of a character
_MOST_VALUES = 2**31 - 1
_ARRAYSIZE = re.compile(r"(?:\d+x)*(?:\d+\*?|\*)")


class VotableField(NamedTuple):
    """A field, which becomes a column.

    Of an array, `shape` is that of a cell, the slowest axis first, without the one that varies. `room` is how
    many characters a text has in binary data, None where each says it itself.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    varies: bool  # whether cells are arrays, or texts, that say themselves how long they are
    room: int | None
    null: int | None
    unit: str
    description: str
    ucd: str = ""

    @property
    def is_text(self) -> bool:
        """Whether cells are texts."""
        return self.datatype in _TEXTS

    @property
    def is_complex(self) -> bool:
        """Whether values are complex numbers."""
        return self.datatype.endswith("Complex")

    @property
    def is_flag(self) -> bool:
        """Whether values are true or false."""
        return self.datatype in ("boolean", "bit")

    @property
    def values(self) -> int:
        """How many values a cell has; where it varies, how many its length counts as one."""
        return math.prod(self.shape)

    @property
    def value_bytes(self) -> int:
        """Size of a value in binary data, in bytes; bits are packed and have none."""
        if self.is_text:
            return _TEXTS[self.datatype]
        return 1 if self.is_flag else self.dtype.itemsize * (2 if self.is_complex else 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of numbers, and of the parts of complex ones, in binary data: big-endian."""
        return np.dtype(_NUMBERS[self.datatype])

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of a value."""
        if self.is_text:
            return pa.string()
        if self.is_flag:
            return pa.bool_()
        part = pa.from_numpy_dtype(self.dtype.newbyteorder("="))
        return pa.struct([("real", part), ("imaginary", part)]) if self.is_complex else part

    @property
    def field(self) -> pa.Field:
        """The Arrow field, with unit and description where the file has them."""
        kind = self.value_type
        for size in reversed(self.shape):
            kind = pa.list_(kind, size)
        if self.varies and not self.is_text:
            kind = pa.list_(kind)
        return described_field(self.name, kind, self.unit, self.description, self.ucd)


def read_field(attributes: Mapping[str, str], null: str | None, description: str, uri: str) -> VotableField:
    """Return the field that a FIELD element describes.

    Parameters
    ----------
    attributes
        Of the element.
    null
        The attribute `null` of its VALUES.
    description
        The text of its DESCRIPTION.
    uri
        The file, for messages.

    Raises
    ------
    SchemaMismatchError
        When it has no name.
    CorruptFileError, InputError
        When its type or its arraysize is none, or not read; the message names it.
    """
    name = attributes.get("name", attributes.get("ID", "")).strip()
    if not name:
        raise SchemaMismatchError(f"{uri}: a FIELD has no name; give it one")
    where, datatype = f"{uri}: column {name!r}", attributes.get("datatype", "")
    if datatype not in (*_NUMBERS, *_TEXTS, "boolean", "bit"):
        raise CorruptFileError(f"{where}: datatype {datatype!r} is none of VOTable; mend the FIELD")
    arraysize = attributes.get("arraysize", "").replace(" ", "")
    if arraysize and not _ARRAYSIZE.fullmatch(arraysize):
        raise CorruptFileError(f"{where}: arraysize {arraysize!r} is no size of an array; mend the FIELD")
    varies = arraysize.endswith("*")
    axes = [int(axis) for axis in re.findall(r"\d+", arraysize)]
    if math.prod(axes) > _MOST_VALUES or (is_too_large(axes) and not varies and datatype not in _TEXTS):
        raise CorruptFileError(
            f"{where}: arraysize {arraysize!r} is more than an array can have; mend the FIELD"
        )
    if 0 in axes and datatype not in _TEXTS:
        raise InputError(f"{where}: arraysize {arraysize!r} has no room for a value; leave the FIELD out")
    if varies and axes and not arraysize.endswith("x*"):
        axes.pop()  # 16*: at most so many
    room: int | None = None
    if datatype in _TEXTS:
        if "x" in arraysize:
            raise InputError(
                f"{where} holds arrays of texts, which are not read; store each in its own FIELD"
            )
        axes, room = [], None if varies else axes[0] if axes else 1
    scalar = not varies and axes in ([], [1])
    return VotableField(
        name=name,
        datatype=datatype,
        shape=() if scalar else tuple(reversed(axes)),
        varies=varies,
        room=room,
        null=_null(null, where) if datatype in ("unsignedByte", "short", "int", "long") else None,
        unit=attributes.get("unit", "").strip(),
        description=" ".join(description.split()),
        ucd=attributes.get("ucd", "").strip(),
    )


def _null(text: str | None, where: str) -> int | None:
    if text is None or not text.strip():
        return None
    try:
        number = int(text, 0)
    except ValueError:
        raise CorruptFileError(f"{where}: null {text!r} is no integer; mend its VALUES") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise CorruptFileError(f"{where}: null {text!r} is more than 64 bits can hold; mend its VALUES")
    return number


def with_nulls(values: pa.Array, field: VotableField, *, nan_is_null: bool) -> pa.Array:
    """Return values with nulls for the field's null value, and for NaN if `nan_is_null`."""
    if field.is_complex:
        parts = [_without_nan(part, nan_is_null) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(field.value_type))
    if field.null is not None:
        is_null = pc.equal(values.cast(pa.int64()), field.null)
        values = pc.if_else(is_null, pa.scalar(None, values.type), values)
    return _without_nan(values, nan_is_null)


def _without_nan(values: pa.Array, nan_is_null: bool) -> pa.Array:
    if not nan_is_null or not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def cells(
    values: pa.Array, counts: NDArray[np.int64], null: NDArray[np.bool_], field: VotableField, where: str
) -> pa.Array:
    """Return the cells of a column.

    Parameters
    ----------
    values
        Of all cells that are not null, one cell after the other.
    counts
        How many values each cell has, int64[n]; 0 where it is null.
    null
        Which cells are null, bool[n].
    field
        What the column holds.
    where
        The file and the rows, for messages.

    Raises
    ------
    CorruptFileError
        When a cell has not as many values as its field says.
    """
    size = field.values
    wrong = ~null & ((counts % size != 0) if field.varies else (counts != size)) if size else counts > 0
    if wrong.any():
        row = int(np.argmax(wrong))
        shape = " x ".join(str(axis) for axis in field.shape) or "one"
        raise CorruptFileError(
            f"{where}: column {field.name!r}: the cell in row {row + 1} of these has {counts[row]} values, "
            f"not {shape}{' or a multiple' if field.varies else ''}; mend it"
        )
    if not field.varies and null.any():
        values = values.take(_places(counts, null, size))
    for axis in reversed(field.shape if field.varies else field.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    mask = pa.array(null) if null.any() else None
    if field.varies:
        offsets = np.concatenate(([0], np.cumsum(counts // max(size, 1)))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)
    if field.shape:
        return pa.FixedSizeListArray.from_arrays(values, field.shape[0], mask=mask)
    return values


def _places(counts: NDArray[np.int64], null: NDArray[np.bool_], size: int) -> pa.Array:
    """Return the index of each value of every cell; null for the values of cells that are null."""
    before = np.cumsum(counts) - counts
    places: NDArray[Any] = (before[:, None] + np.arange(size)).reshape(-1)
    return pa.array(places, mask=np.repeat(null, size))
