"""Points from which on a large compressed file can be unpacked, so that many tasks read parts of it.

A file is divided only where these are certain: in any other case it is read from its beginning to its end, by
one task, and what is wrong with it is said there.
"""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO, Literal, NamedTuple

from hipslake.sources.file_listing import located
from hipslake.sources.source_file import SeekPoint, SourceFile

log = logging.getLogger(__name__)

_BUFFER_BYTES = 8 << 20
_LEAST_SPACING = 64 << 10
_MOST_SPACING = 1 << 30
_MOST_CHUNK = 4 << 20
_LENGTH_BYTES = 4  # at the end of a member, of its content
_INDEX = struct.Struct("<5sBBQQIII")  # of indexed_gzip: magic, version, flags, sizes, spacing, window, points
_POINT = struct.Struct(
    "<QQBB"
)  # bytes before it, their content, bits of the last byte that follow, a window?
_INDEX_VERSION = 1

_FRAME = 0xFD2FB528
_SKIPPED, _SKIPPED_MASK = 0x184D2A50, 0xFFFFFFF0
_OF_FLAG = (0, 1, 2, 4)  # bytes of a dictionary's number
_REPEATED = 1  # a block of one byte, which stands for many


def seek_points(file: SourceFile, kind: Literal["gzip", "zstd"], spacing: int) -> list[SeekPoint]:
    """Points in a compressed file, after its beginning; none if it cannot be divided.

    Of gzip the whole file is unpacked for that, and its checksums are looked at. Of Zstandard only the
    headers of its frames and blocks are read.

    Parameters
    ----------
    file : SourceFile
    kind : {"gzip", "zstd"}
    spacing : int
        Bytes of content between two points, at least.
    """
    spacing = min(max(spacing, _LEAST_SPACING), _MOST_SPACING)
    storage, name = located(file)
    with storage.open(name) as raw:
        points = _of_gzip(raw, file, spacing) if kind == "gzip" else _of_zstandard(raw, file)
    kept: list[SeekPoint] = []
    for point in points:
        if point.content >= spacing + (kept[-1].content if kept else 0):
            kept.append(point)
    return kept


def _of_gzip(raw: BinaryIO, file: SourceFile, spacing: int) -> list[SeekPoint]:
    try:
        index = _index_of_one_member(raw, spacing) or _index_of_members(raw, file, spacing)
    except ModuleNotFoundError:
        log.info(
            "%s is read by one task: many can if the Python package indexed_gzip is installed.", file.uri
        )
        return []
    return list(_points_in(index)) if index else []


def _index_of_one_member(raw: BinaryIO, spacing: int) -> bytes | None:
    """The index of a file that is one whole member, of which the checksum is right; else, None.

    Three times as fast as `_index_of_members`. To rapidgzip a file that ends too early can seem well, so
    the length that the last bytes tell has to be that of the content.
    """
    try:
        from rapidgzip import RapidgzipFile
    except ModuleNotFoundError:
        return None
    raw.seek(-_LENGTH_BYTES, io.SEEK_END)
    told = int.from_bytes(raw.read(_LENGTH_BYTES), "little")
    raw.seek(0)
    written = io.BytesIO()
    chunk = min(max(spacing // 4, _LEAST_SPACING), _MOST_CHUNK)
    try:
        with RapidgzipFile(raw, parallelization=1, chunk_size=chunk) as index:
            if index.seek(0, io.SEEK_END) % (1 << 8 * _LENGTH_BYTES) != told:
                return None
            index.export_index(written)
    except (OSError, ValueError, RuntimeError):  # what is wrong is found out by the other way, and said there
        return None
    return written.getvalue()


def _index_of_members(raw: BinaryIO, file: SourceFile, spacing: int) -> bytes | None:
    """The index of a file of one member or several; None if it seems to be damaged."""
    import indexed_gzip

    raw.seek(0)
    written = io.BytesIO()
    try:
        with indexed_gzip.IndexedGzipFile(fileobj=raw, spacing=spacing) as index:
            index.build_full_index()
            index.export_index(fileobj=written)
    except (OSError, ValueError, indexed_gzip.ZranError) as error:
        log.info("%s is read by one task, as it seems to be damaged: %s", file.uri, error)
        return None
    return written.getvalue()


def _points_in(index: bytes) -> Iterator[SeekPoint]:
    """The points of an index that indexed_gzip wrote, without the beginning and the end."""
    magic, version, _, _, content, _, window_bytes, count = _INDEX.unpack_from(index)
    if magic != b"GZIDX" or version != _INDEX_VERSION:
        return
    at = _INDEX.size + count * _POINT.size
    for stored, before, bits, has_window in _POINT.iter_unpack(index[_INDEX.size : at]):
        window = index[at : at + window_bytes] if has_window else b""
        at += len(window)
        if 0 < before < content:  # without a window a member begins there
            yield SeekPoint(8 * stored - bits, before, window)


class _Frame(NamedTuple):
    start: int  # bytes
    content: int | None  # bytes; None if it does not say so


def _of_zstandard(raw: Any, file: SourceFile) -> list[SeekPoint]:
    with io.BufferedReader(_Whole(raw), _BUFFER_BYTES) as data:
        frames = list(_frames(data, file.size))
    if any(frame.content is None for frame in frames):
        return []
    content, points = 0, []
    for frame, following in pairwise(frames):
        content += frame.content or 0
        points.append(SeekPoint(8 * following.start, content, b""))
    return points


def _frames(data: Any, size: int) -> Iterator[_Frame]:
    """The frames of a file; where it is not what it should be, one that says nothing of its content."""
    at = 0
    while at < size:
        data.seek(at)
        magic = int.from_bytes(data.read(4), "little")
        if magic & _SKIPPED_MASK == _SKIPPED:
            at += 8 + int.from_bytes(data.read(4), "little")
            continue
        if magic != _FRAME:
            yield _Frame(at, None)
            return
        start = at
        content, at, has_checksum = _frame_header(data, at + 4)
        yield _Frame(start, content)
        is_last = False
        while not is_last:
            data.seek(at)
            head = data.read(3)
            if len(head) < 3:
                yield _Frame(at, None)
                return
            block = int.from_bytes(head, "little")
            is_last = bool(block & 1)
            at += 3 + (1 if block >> 1 & 3 == _REPEATED else block >> 3)
        at += 4 * has_checksum
    if at > size:
        yield _Frame(at, None)


def _frame_header(data: Any, at: int) -> tuple[int | None, int, bool]:
    """The bytes of a frame's content, where its first block stands, and whether a checksum ends it."""
    flags = data.read(1)[0]
    is_single, size_flag = bool(flags & 0x20), flags >> 6
    data.read((0 if is_single else 1) + _OF_FLAG[flags & 3])
    size = (1 if is_single else 0) if size_flag == 0 else 1 << size_flag
    content = int.from_bytes(data.read(size), "little") + (256 if size_flag == 1 else 0) if size else None
    return content, data.tell(), bool(flags & 4)


class _Whole(io.RawIOBase):
    """A file as a raw one, so that it is read ahead; it stays open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
