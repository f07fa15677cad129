"""Avro object container files: a header with the schema, then blocks of records, each behind a marker.

From the Avro specification, version 1.12: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError
from hipslake.sources.source_file import SourceFile, check_expansion

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LONGEST_HEADER = 16 << 20
_LONGEST_BLOCK = 256 << 20  # bytes that a block may become
_BLOCK_RATIO = 1000  # bytes of records per byte of the file, at most
_PIECE = 1 << 20
_LONGEST_NUMBER = 10  # bytes of a long


class AvroHeader(NamedTuple):
    """What stands before the first block.

    Attributes
    ----------
    schema
        As the file writes it, parsed as JSON.
    codec
        How blocks are compressed.
    sync
        The 16 bytes that stand behind the header and behind each block.
    stop
        The byte where the first block starts.
    """

    schema: Any
    codec: str
    sync: bytes
    stop: int


class AvroBlock(NamedTuple):
    """The records of a block, as they are encoded one after the other."""

    start: int  # of the block in the file, bytes
    records: int
    data: bytes


def read_header(data: BinaryIO, file: SourceFile) -> AvroHeader | None:
    """Read the header of a file; None if the file is empty.

    Parameters
    ----------
    data
        The file, at its beginning.

    Raises
    ------
    CorruptFileError
        It is no Avro container file, or truncated or damaged in its header.
    InputError
        It is compressed in a way that is not read.
    """
    numbers = _Numbers(data, file)
    found = data.read(len(MAGIC))
    if not found:
        return None
    if found != MAGIC:
        raise CorruptFileError(
            f"{file.uri} is no Avro object container file: it does not begin with 'Obj' and 1; alerts of a "
            "stream, which have no header, are to be written into such files first"
        )
    metadata: dict[bytes, bytes] = {}
    while count := numbers.next():
        if count < 0:  # then the size in bytes follows
            numbers.next()
        for _ in range(abs(count)):
            key = numbers.text(_LONGEST_HEADER)
            metadata[key] = numbers.text(_LONGEST_HEADER)
            if data.tell() > _LONGEST_HEADER:
                raise CorruptFileError(f"{file.uri}: the header has more than {_LONGEST_HEADER >> 20} MiB")
    sync = numbers.bytes(_SYNC_BYTES)
    try:
        schema = json.loads(metadata[b"avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"{file.uri}: the header holds no schema ({error!r}); replace it") from None
    codec = metadata.get(b"avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _UNPACKED:
        raise InputError(
            f"{file.uri}: its blocks are compressed by {codec!r}, which is not read; there are "
            f"{', '.join(_UNPACKED)}: write the file anew with one of them"
        )
    return AvroHeader(schema, codec, sync, data.tell())


def blocks(
    data: BinaryIO, header: AvroHeader, file: SourceFile, start: int, stop: int
) -> Iterator[AvroBlock]:
    """Yield the blocks of a file that start in [start, stop), bytes.

    Cut at any bytes, the ranges of a file give each of its blocks once, in order.

    Raises
    ------
    CorruptFileError
        The file is truncated or damaged.
    InputError
        A block grows to very many times the size of the file.
    """
    numbers = _Numbers(data, file)
    at = header.stop if start <= header.stop else _behind_marker(data, header, start)
    unpack = _UNPACKED[header.codec]
    grown = 0
    while at < min(stop, file.size):
        data.seek(at)
        records, size = numbers.next(), numbers.next()
        if records < 0 or not 0 <= size <= file.size - data.tell():
            raise CorruptFileError(
                f"{file.uri} is truncated or damaged: the block at byte {at} tells of {records} records in "
                f"{size} bytes, but the file ends at byte {file.size}; replace it"
            )
        stored = numbers.bytes(size)
        if (found := numbers.bytes(_SYNC_BYTES)) != header.sync:
            raise CorruptFileError(
                f"{file.uri} is damaged: the block at byte {at} does not end with the marker of the file "
                f"({found.hex()}, not {header.sync.hex()}); replace it"
            )
        try:
            content = unpack(stored)
        except _GrownError:
            raise InputError(
                f"{file.uri}: the block at byte {at} unpacks to more than {_LONGEST_BLOCK >> 20} MiB; write "
                "the file with smaller blocks"
            ) from None
        except (zlib.error, lzma.LZMAError, pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise CorruptFileError(
                f"{file.uri} is damaged: the block at byte {at} cannot be unpacked ({error}); replace it"
            ) from None
        grown += len(content)
        check_expansion(grown, file, _BLOCK_RATIO, "records")
        yield AvroBlock(at, records, content)
        at = data.tell()


def _behind_marker(data: BinaryIO, header: AvroHeader, start: int) -> int:
    """The first byte from `start` on that stands behind a marker: there a block starts, or the file ends."""
    at = max(start - _SYNC_BYTES, header.stop - _SYNC_BYTES)
    data.seek(at)
    carry = b""
    while piece := data.read(_PIECE):
        text = carry + piece
        if (found := text.find(header.sync)) >= 0:
            return at + found + _SYNC_BYTES
        carry = text[1 - _SYNC_BYTES :]
        at += len(text) - len(carry)
    return at + len(carry)


class _Numbers:
    """Numbers and bytes of a file, as Avro encodes them."""

    def __init__(self, data: BinaryIO, file: SourceFile) -> None:
        self._data, self._file = data, file

    def next(self) -> int:
        """A long: seven bits of each byte, the lowest first, with the sign in the lowest bit."""
        value = 0
        for at in range(_LONGEST_NUMBER):
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << (7 * at)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise CorruptFileError(
            f"{self._file.uri} is damaged: a number before byte {self._data.tell()} has no end; replace it"
        )

    def text(self, most: int) -> bytes:
        size = self.next()
        if not 0 <= size <= most:
            raise CorruptFileError(f"{self._file.uri} is damaged: a text of its header has {size} bytes")
        return self.bytes(size)

    def bytes(self, size: int) -> bytes:
        found = self._data.read(size)
        if len(found) < size:
            raise CorruptFileError(
                f"{self._file.uri} is truncated: it ends at byte {self._data.tell()}, within a block or its "
                "header; replace it"
            )
        return found


class _GrownError(Exception):
    """A block becomes larger than it may."""


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflating.decompress(data, _LONGEST_BLOCK)
    if inflating.unconsumed_tail:
        raise _GrownError
    if not inflating.eof:
        raise ValueError("it ends too early")
    return content


def _by_parts(make: Callable[[], Any]) -> Callable[[bytes], bytes]:
    def unpacked(data: bytes) -> bytes:
        unpacking = make()
        content: bytes = unpacking.decompress(data, _LONGEST_BLOCK)
        if not unpacking.eof:
            raise _GrownError if len(content) >= _LONGEST_BLOCK else ValueError("it ends too early")
        return content

    return unpacked


def _of_zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        content: bytes = stream.read(_LONGEST_BLOCK + 1)
    if len(content) > _LONGEST_BLOCK:
        raise _GrownError
    return content


def _of_snappy(data: bytes) -> bytes:
    """What was compressed by Snappy: its size stands before it, and its CRC-32 behind it."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LONGEST_BLOCK:
        raise _GrownError
    content: bytes = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is another")
    return content


_UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _inflated,
    "bzip2": _by_parts(bz2.BZ2Decompressor),
    "xz": _by_parts(lzma.LZMADecompressor),
    "snappy": _of_snappy,
    "zstandard": _of_zstandard,
}
