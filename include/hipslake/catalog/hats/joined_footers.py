"""`dataset/_metadata`: the row groups of many Parquet files in one footer, of parts that can be taken over.

A footer is a Thrift struct in the compact protocol: version, schema, number of rows, list of row groups, and
what comes after it. The structs of a list stand one after the other, and none depends on those before it. So
the row groups of a file are a run of bytes, the same in whatever footer they stand; a file that stays from
one version to the next need not be opened. How many bytes each file has is told in a list beside the footer.

Source: Apache Parquet, `parquet.thrift`; Apache Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.checksums import CHECKSUMS, checksum_of, listed_checksums
from hipslake.catalog.leaf import footer_votable
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

FOOTERS = "dataset/_metadata"
PARTS = "dataset/_metadata.parts.json"

_TOLD = "rows, row groups and bytes"
_MAGIC = b"PAR1"
_LIST, _STRUCTS = 0x19, 0x0C
_NOTHING = bytes([0, _LIST, _STRUCTS])  # no row; field 4, which is a list; no struct in it
_MANY = 15  # from so many structs on their number stands after the list's header


class FooterPart(NamedTuple):
    """The row groups of a file in a joined footer.

    Attributes
    ----------
    rows, row_groups : int
    content : bytes
        In Thrift's compact protocol.
    """

    rows: int
    row_groups: int
    content: bytes


@dataclass(frozen=True)
class FooterJoin:
    """Joins the footers of files that have one schema.

    Attributes
    ----------
    schema : pyarrow.Schema
    """

    schema: pa.Schema

    @cached_property
    def empty(self) -> bytes:
        """The content of a footer without row groups."""
        return self._footer_of(())

    @cached_property
    def _parsed(self) -> pq.FileMetaData:
        return pq.read_metadata(pa.BufferReader(self.empty))

    @cached_property
    def _around(self) -> tuple[bytes, bytes]:
        """What a footer has before the number of its rows, and after its row groups."""
        empty, one = _thrift(self.empty), _thrift(self._footer_of([self.schema.empty_table()]))
        differ = next(at for at, (left, right) in enumerate(zip(empty, one, strict=False)) if left != right)
        before = differ - _NOTHING.index(_STRUCTS)  # the number of row groups is what differs first
        if not empty.startswith(_NOTHING, before):
            raise CatalogFormatError("Parquet footers are not laid out as parquet.thrift says")
        return empty[:before], empty[before + len(_NOTHING) :]

    def _footer_of(self, row_groups: Iterable[pa.Table]) -> bytes:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, self.schema, version="2.6") as writer:
            for rows in row_groups:
                writer.write_table(rows)
            writer.add_key_value_metadata(footer_votable(self.schema).entries())
        return _content(pq.read_metadata(pa.BufferReader(sink.getvalue())))

    def takes(self, footer: pq.FileMetaData) -> bool:
        """Whether a file has the schema."""
        return bool(footer.schema.equals(self._parsed.schema))

    def part(self, footer: pq.FileMetaData, path: str) -> FooterPart:
        """The row groups of a file's footer.

        Parameters
        ----------
        footer : pyarrow.parquet.FileMetaData
            Of a file that the join `takes`.
        path : str
            Where the file lies, relative to the folder of the joined footer.
        """
        alone = pq.read_metadata(pa.BufferReader(self.empty))
        footer.set_file_path(path)
        alone.append_row_groups(footer)
        part = self._only_part(_content(alone))
        assert (part.rows, part.row_groups) == (footer.num_rows, footer.num_row_groups)
        return part

    def _only_part(self, content: bytes) -> FooterPart:
        before, after = self._around
        thrift = _thrift(content)
        if not (thrift.startswith(before) and thrift.endswith(after)):
            raise CatalogFormatError("a Parquet footer is not laid out as others of its schema")
        middle = thrift[len(before) : len(thrift) - len(after)]
        rows, at = _varint(middle, 0)
        row_groups, at = middle[at + 1] >> 4, at + 2
        if row_groups == _MANY:
            row_groups, at = _varint(middle, at)
        return FooterPart(rows // 2, row_groups, middle[at:])

    def joined(self, parts: Sequence[FooterPart]) -> bytes:
        """The content of a footer with the row groups of some files, in their order.

        Raises
        ------
        CatalogFormatError
            A part is none of this schema.
        """
        rows, row_groups = sum(part.rows for part in parts), sum(part.row_groups for part in parts)
        before, after = self._around
        header = bytes([min(row_groups, _MANY) << 4 | _STRUCTS])
        size = header if row_groups < _MANY else header + _in_varint(row_groups)
        groups = (part.content for part in parts)
        thrift = b"".join((before, _in_varint(2 * rows), bytes([_LIST]), size, *groups, after))
        content = b"".join((_MAGIC, thrift, len(thrift).to_bytes(4, "little"), _MAGIC))
        if _counts(content) != (rows, row_groups):
            raise CatalogFormatError(f"row groups of {len(parts)} files are not those of one schema")
        return content


def breadth_first(partitions: pa.Table) -> NDArray[np.int64]:
    """The order of leaf files in a joined footer, int64[n]: by the order of their pixels, and then these."""
    return np.lexsort((partitions["npix"].to_numpy(), partitions["order"].to_numpy()))


def parts_file(parts: Iterable[FooterPart]) -> bytes:
    """The content of the file that tells how large the parts of a joined footer are, in their order."""
    told = [[part.rows, part.row_groups, len(part.content)] for part in parts]
    return json.dumps({_TOLD: told}, separators=(",", ":")).encode()


def known_parts(
    storage: Storage, place: Callable[[str], str], join: FooterJoin, names: Sequence[str]
) -> dict[str, FooterPart]:
    """The parts of a joined footer that was written before, by what names their files.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    place : callable
        The path of a file beside the footer, of its name.
    join : FooterJoin
    names : sequence of str
        Of the files, in the order of the footer.

    Returns
    -------
    dict of str to FooterPart
        Empty where the files had another schema, and where the footer is not the one that the checksums
        beside it name.
    """
    with suppress(FileNotFoundError):
        listing, told, content = in_threads(storage, storage.read, map(place, (CHECKSUMS, PARTS, FOOTERS)))
        listed = listed_checksums(listing) or {}
        if listed.get(place(PARTS)) == checksum_of(told) and listed.get(place(FOOTERS)) == checksum_of(
            content
        ):
            return _parts_in(content, dict(zip(names, json.loads(told)[_TOLD], strict=True)), join)
    return {}


def _parts_in(content: bytes, told: Mapping[str, list[int]], join: FooterJoin) -> dict[str, FooterPart]:
    try:
        together = join._only_part(content).content
    except CatalogFormatError:  # of another schema
        return {}
    parts, at = {}, 0
    for name, (rows, row_groups, size) in told.items():
        parts[name] = FooterPart(rows, row_groups, together[at : at + size])
        at += size
    return parts


def _content(footer: pq.FileMetaData) -> bytes:
    """A footer as a file of its own."""
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    return bytes(sink.getvalue().to_pybytes())


def _thrift(content: bytes) -> bytes:
    """The Thrift struct in a file that is only a footer."""
    return content[len(_MAGIC) : -len(_MAGIC) - 4]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of seven bits a byte, the least first; and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _in_varint(value: int) -> bytes:
    """The inverse of `_varint`."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _counts(content: bytes) -> tuple[int, int] | None:
    """The rows and row groups that a footer has; None if it cannot be read."""
    try:
        read = pq.read_metadata(pa.BufferReader(content))
    except (OSError, pa.ArrowException):
        return None
    return read.num_rows, read.num_row_groups
