"""The footer and the pages of a Parquet file by the published format, read in plain Python."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
Struct = dict[int, Any]


def page_rows(path: str, column: str) -> list[int]:
    """The rows of each data page of a column in the first row group."""
    data = Path(path).read_bytes()
    first = [each[3] for each in _locations(data, column)]
    rows = _footer(data)[4][0][3]
    return [stop - start for start, stop in pairwise([*first, rows])]


def page_kinds(path: str, column: str) -> set[int]:
    """The kinds of the data pages of a column in the first row group: 0 is of version 1, 3 of version 2."""
    data = Path(path).read_bytes()
    return {_Compact(data, each[1]).struct()[1] for each in _locations(data, column)}


def bloom_bytes(path: str) -> dict[str, int]:
    """The bytes of the Bloom filter of each column that has one, in the first row group."""
    chunks = [chunk[3] for chunk in _footer(Path(path).read_bytes())[4][0][1]]
    return {b".".join(chunk[3]).decode(): chunk[15] for chunk in chunks if 15 in chunk}


def _locations(data: bytes, column: str) -> list[Struct]:
    """Of each data page: where it lies (1), its bytes (2), and its first row (3)."""
    for chunk in _footer(data)[4][0][1]:
        if b".".join(chunk[3][3]).decode() == column:
            found: list[Struct] = _Compact(data, chunk[4]).struct()[1]
            return found
    raise AssertionError(f"there is no column {column}")


def _footer(data: bytes) -> Struct:
    [size] = struct.unpack("<I", data[-8:-4])
    return _Compact(data, len(data) - 8 - size).struct()


@dataclass
class _Compact:
    """Thrift's compact protocol: structs as dicts by the numbers of their fields."""

    data: bytes
    at: int

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while kind := self._byte():
            number = number + (kind >> 4) if kind >> 4 else self._signed()
            found[number] = self._value(kind & 15)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15) for _ in range(size)]
        return self.struct() if kind == _STRUCT else self._signed()

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            one = self._byte()
            found |= (one & 127) << shift
            shift += 7
            if one < 128:
                return found

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
