"""The footer of a Parquet file without logical types, so that columns are read as they are stored.

Parquet stores a time or a decimal as a number or as bytes, and the schema in the footer says what they mean.
A reader of a footer without these notes gets the stored values, on a path that has no part in how a reader
converts them. INT96 is read as 12 bytes per value, which is how it is encoded; pyarrow else makes it a
timestamp, wrapping what does not fit.

Only the list of schema elements is rewritten, in Thrift's compact protocol, as parquet.thrift of the Parquet
format describes it; row groups follow as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

INT96_BYTES = 12

_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_INT96, _FIXED = 3, 7  # of the enum Type
_SCHEMA = 2  # field of FileMetaData
_TYPE, _LENGTH, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 2, 5, 6, 7, 8, 10
_MEANING = {_CONVERTED, _SCALE, _PRECISION, _LOGICAL}
_ARROW_SCHEMA = b"ARROW:schema"  # pyarrow's note of the types that it wrote; under another name it is ignored
_IGNORED = b"arrow.schema"


class FooterError(pa.ArrowInvalid):
    """A footer cannot be understood; `hipslake.storage.parquet_failures` adds the file."""


def stored_footer(file: Any) -> pq.FileMetaData:
    """The footer of an open file, by which `pyarrow.parquet.ParquetFile` reads the values as they are stored.

    Numbers keep their width, INT96 is 12 bytes, and all else is bytes. Lists, maps and structs stay.

    Raises
    ------
    FooterError
        The footer cannot be understood, or is encrypted.
    """
    footer = _footer_bytes(file)
    try:
        return pq.read_metadata(footer_file(_without_meaning(footer)))
    except (pa.ArrowException, OSError, IndexError, ValueError, struct.error) as error:
        raise FooterError(f"the footer cannot be understood ({error})") from error


def _footer_bytes(file: Any) -> bytes:
    size = file.seek(0, 2)
    if size is None:
        size = file.tell()
    if size < len(_MAGIC) * 2 + 4:
        raise FooterError("the file is too short for a footer")
    file.seek(size - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic == _ENCRYPTED:
        raise FooterError("the footer is encrypted")
    if magic != _MAGIC or length > size - 12:
        raise FooterError("the file has no footer")
    file.seek(size - 8 - length)
    return bytes(file.read(length))


def footer_file(footer: bytes) -> pa.BufferReader:
    """A Parquet file without data of which this is the footer, for readers of footers."""
    return pa.BufferReader(_whole(footer))


def _whole(footer: bytes) -> bytes:
    return _MAGIC + footer + struct.pack("<I", len(footer)) + _MAGIC


def _without_meaning(footer: bytes) -> bytes:
    """The footer whose leaves are of their physical types."""
    reader = _Reader(footer)
    last = 0
    while (field := reader.field(last)) is not None:
        last = field.number
        if field.number == _SCHEMA:
            start = reader.at
            elements = reader.value(_LIST)
            rewritten = _list_of(_element(element) for element in elements)
            rest = footer[reader.at :].replace(_ARROW_SCHEMA, _IGNORED)
            return footer[:start] + rewritten + rest
        reader.value(field.kind)
    raise ValueError("there is no schema in it")


class _Field(NamedTuple):
    number: int
    kind: int


_Struct = list[tuple[_Field, Any]]


def _element(fields: _Struct) -> bytes:
    """A schema element; of a leaf, only the physical type stays."""
    by_number = {field.number: value for field, value in fields}
    if by_number.get(_CHILDREN):
        return _struct_of(fields)
    kept = [(field, value) for field, value in fields if field.number not in _MEANING]
    if by_number.get(_TYPE) == _INT96:
        kept = [(field, value) for field, value in kept if field.number not in (_TYPE, _LENGTH)]
        kept = [(_Field(_TYPE, _I32), _FIXED), (_Field(_LENGTH, _I32), INT96_BYTES), *kept]
    return _struct_of(kept)


class _Reader:
    """Reads Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def field(self, last: int) -> _Field | None:
        head = self._byte()
        kind, step = head & 15, head >> 4
        if kind == _STOP:
            return None
        return _Field(last + step if step else self._zigzag(), kind)

    def value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            if count > len(self.data):
                raise ValueError("a list in it is longer than itself")
            return [self._item(head & 15) for _ in range(count)]
        if kind == _STRUCT:
            fields: _Struct = []
            last = 0
            while (field := self.field(last)) is not None:
                fields.append((field, self.value(field.kind)))
                last = field.number
            return fields
        raise ValueError(f"it has a value of an unknown kind {kind}")

    def _item(self, kind: int) -> Any:
        return self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind)

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _bytes(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise ValueError("it ends too early")
        self.at += count
        return found

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number in it is too long")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def _struct_of(fields: _Struct) -> bytes:
    parts = []
    last = 0
    for (number, kind), value in fields:
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        step = number - last
        head = bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint_of(_zigzagged(number))
        parts += [head, _value_of(kind, value)]
        last = number
    return b"".join([*parts, b"\0"])


def _value_of(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return b""
    if kind == _BYTE:
        return bytes([value])
    if kind in (_I16, _I32, _I64):
        return _varint_of(_zigzagged(value))
    if kind == _BINARY:
        return _varint_of(len(value)) + bytes(value)
    if kind == _STRUCT:
        return _struct_of(value)
    raise ValueError(f"it has a schema element with a value of kind {kind}")


def _list_of(items: Iterator[bytes]) -> bytes:
    found = list(items)
    many = len(found) >= 15
    head = bytes([15 << 4 | _STRUCT]) + _varint_of(len(found)) if many else bytes([len(found) << 4 | _STRUCT])
    return b"".join([head, *found])


def _zigzagged(number: int) -> int:
    return (number << 1) ^ (number >> 63)


def _varint_of(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
