"""Objects behind fsspec: S3 and its kin, HTTP (to read), memory (for tests).

An object is put in one piece, so it appears whole or not at all; there are no real folders, links or moves.
"""

from __future__ import annotations

import errno
import glob as globbing
import io
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
from fsspec.utils import glob_translate

from hipslake.errors import NotReadableError, NotWritableError
from hipslake.storage.access import client_options
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.entry import Entry, time_in
from hipslake.storage.failures import storage_errors, store_code
from hipslake.storage.request_pool import MOST_REQUESTS
from hipslake.storage.waiting import HTTP, HTTP_TRACES, S3, WaitingFiles, client_timeout

MOST_UNSIZED = 1 << 30
"""Bytes that are taken from a server which does not say how many there are: its answer may have no end."""

_PIECE = 1 << 20
_MOST_AT_ONCE = 64 << 20  # bytes of one request, which has to end in time; longer reads are several
_TAKEN = {"PreconditionFailed", "412"}  # the answers of stores to If-None-Match on a name that exists
_UNDECIDED = {"ConditionalRequestConflict", "409"}  # the answer of S3 while others ask for the same name
_MARKING = ("s3", "s3a")  # stores that keep a few words with an object
_MARK = "hipslake-mark"
_NO_SUCH_RANGE = 416
_EMPTY = {"InvalidRange", str(_NO_SUCH_RANGE)}  # the answers of stores to a range of an empty object
_ASKS = 8
_MAGIC = re.compile(r"[*?\[]")
_NO_LISTING = ("http", "https")  # web servers: what they say of a folder is a page, if anything
_AT_ONCE = {"s3": {"max_concurrency": 1}}  # else s3fs asks for the size first, and may mix two contents
_OF_CONTENT = re.compile(r"\"?[0-9a-f]{32}(-[0-9]+)?\"?")
_AHEAD = 8 << 20  # bytes that are fetched at once while a file is read from start to end


def _limited(protocol: str) -> dict[str, Any]:
    """The arguments by which fsspec's client of a protocol keeps the limits of each request."""
    if protocol in S3:
        from hipslake.storage.s3_session import LimitedSession

        limits = {"http_session_cls": LimitedSession, "max_pool_connections": MOST_REQUESTS}
        return {"config_kwargs": limits}
    if protocol in HTTP:
        return {"client_kwargs": {"timeout": client_timeout(), "trace_configs": HTTP_TRACES}}
    return {}


def read_unsized(fs: Any, uri: str) -> bytes:
    """The content of an object whose size its server does not tell.

    Raises
    ------
    NotReadableError
        It has no end so soon.
    """
    pieces, size = [], 0
    with fs.open(uri, "rb", block_size=0) as stream:
        while piece := stream.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_UNSIZED:
                raise NotReadableError(
                    f"{uri}: the server does not say how long it is, and sends more than "
                    f"{MOST_UNSIZED >> 20} MiB; have it tell Content-Length, or copy the file"
                )
    return b"".join(pieces)


class RangedFile(io.RawIOBase):
    """An object of a store, opened for reading: every read is a request for exactly its range.

    Of more than 64 MiB it is several.

    Parquet readers know what they need, and use it as it is; sequential readers put a buffer before it. A
    server that knows no ranges sends the whole object, which is then kept.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
    uri : str
    size : int, optional
        Its size in bytes, where that is known; else the server is asked. If it has another by now, reading it
        is an error.

    Raises
    ------
    FileNotFoundError
        There is no such object; where its size was given, the first read says so.
    """

    def __init__(self, fs: Any, uri: str, size: int | None = None) -> None:
        super().__init__()
        self._fs, self._uri, self._at = fs, uri, 0
        self._whole: bytes | None = None
        self._size = self._ask_size() if size is None else size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, stop) if stop > self._at else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _ask_size(self) -> int:
        with storage_errors(self._uri, "read", foreign=True):
            info = self._fs.info(self._uri)
            if info["type"] == "directory":
                raise FileNotFoundError(errno.ENOENT, "a folder, not a file", self._uri)
            if info["size"] is not None:
                return int(info["size"])
            self._whole = read_unsized(self._fs, self._uri)  # a web server makes the answer up as it goes
            return len(self._whole)

    def _range(self, start: int, stop: int) -> bytes:
        if stop - start > _MOST_AT_ONCE and self._whole is None:
            starts = range(start, stop, _MOST_AT_ONCE)
            return b"".join(self._range(at, min(at + _MOST_AT_ONCE, stop)) for at in starts)
        if self._whole is None:
            with storage_errors(self._uri, "read", foreign=True):
                data = bytes(self._fs.cat_file(self._uri, start=start, end=stop))
                if len(data) == stop - start:
                    return data
                if len(data) != self._size:
                    raise OSError(
                        f"bytes {start} to {stop} of {self._size} were asked for, and {len(data)} came: it "
                        "was replaced meanwhile, or the answer was cut off"
                    )
            self._whole = data
        return self._whole[start:stop]


class RangedHandler(pafs.FSSpecHandler):  # type: ignore[misc]
    """fsspec for pyarrow, which reads files by ranges of its own choice."""

    def get_file_info(self, paths: list[str]) -> list[Any]:
        with storage_errors(self.fs.unstrip_protocol(paths[0]) if paths else "", "read", foreign=True):
            return list(super().get_file_info(paths))

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(RangedFile(self.fs, self.fs.unstrip_protocol(path)), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)


class ObjectFiles:
    """The fsspec side of `hipslake.storage.folder`; its methods are documented there."""

    def __init__(self, protocol: str) -> None:
        # No listings cache: other processes write here too. fsspec itself keeps one client per process.
        self._protocol = protocol
        options = {**client_options(protocol), **_limited(protocol)}
        self._fs = WaitingFiles(fsspec.filesystem(protocol, use_listings_cache=False, **options), protocol)

    def open(self, uri: str) -> BinaryIO:
        return io.BufferedReader(RangedFile(self._fs, uri), _AHEAD)

    def read(self, uri: str) -> bytes:
        return bytes(self._fs.cat_file(uri, **_AT_ONCE.get(self._protocol, {})))

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        return bytes(self._fs.cat_file(uri, start=start, end=stop)) if start < stop else b""

    def read_tail(self, uri: str, most: int) -> bytes:
        return bytes(self._fs.cat_file(uri, start=-most))[-most:]  # a server may know no ranges

    def entry(self, uri: str, path: str) -> Entry:
        return self._entry_of(path, uri, self._fs.info(uri))

    def is_same(self, one: str, other: str) -> bool:
        # An ETag that is an MD5 (of one part, or of those of several) is that of the content.
        tags = [str(info.get("ETag", "")) for info in (self._fs.info(one), self._fs.info(other))]
        return tags[0] == tags[1] and _OF_CONTENT.fullmatch(tags[0]) is not None

    def written(self, uri: str) -> float | None:
        return time_in(self._fs.info(uri))

    def is_file(self, uri: str) -> bool:
        # `info` of a name that is free also lists: it might be a folder.
        try:
            self._fs.cat_file(uri, start=0, end=1)
        except (FileNotFoundError, IsADirectoryError) as error:
            if store_code(error) == "NoSuchBucket":
                raise
            return False
        except Exception as error:
            if store_code(error) not in _EMPTY and getattr(error, "status", None) != _NO_SUCH_RANGE:
                raise
        return True

    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]:
        if self._protocol in _NO_LISTING:
            return
        try:
            infos = self._fs.find(uri, detail=True).values() if recursive else self._fs.ls(uri, detail=True)
        except FileNotFoundError as error:
            if store_code(error) == "NoSuchBucket":
                raise
            return
        for info in infos:
            path = self._below(uri, info["name"])
            if path and not info["name"].endswith("/"):  # else the marker object of a folder
                yield self._entry_of(path, f"{uri}/{path}", info)

    def glob(self, uri: str, pattern: str) -> Iterable[Entry]:
        if self._protocol in _NO_LISTING:
            for name, info in self._fs.glob(f"{globbing.escape(uri)}/{pattern}", detail=True).items():
                yield self._entry_of(self._below(uri, name), name, info)
            return
        # fsspec's own glob passes over folders that it may not or cannot list.
        folders = pattern.split("/")[:-1]
        fixed = next((at for at, name in enumerate(folders) if _MAGIC.search(name)), len(folders))
        above = "".join(f"{name}/" for name in folders[:fixed])
        matches = re.compile(glob_translate(pattern)).match
        deep = fixed < len(folders) or "**" in pattern
        for entry in self.list(f"{uri}/{above}".rstrip("/"), recursive=deep):
            if matches(above + entry.path):
                yield entry._replace(path=above + entry.path)

    @contextmanager
    def replacing(self, uri: str, *, durable: bool) -> Iterator[BinaryIO]:
        # fsspec's own buffered writers publish what was written so far when an exception passes through them.
        with _spooling() as (spool, file):
            yield file
            file.close()
            with storage_errors(uri, "write", foreign=True):
                self._fs.put_file(str(spool), uri)

    @contextmanager
    def creating(self, uri: str, note: Callable[[str], None]) -> Iterator[BinaryIO]:
        mark = secrets.token_hex(16)
        with _spooling() as (spool, file):
            yield file
            file.close()
            note(mark)
            with storage_errors(uri, "write", foreign=True):
                taken = not self._if_free(lambda: self._put_marked(spool, uri, mark))
                # Also by the first try of a request whose answer was lost.
                if taken and self.mark_of(uri) != mark:
                    raise NotWritableError(f"{uri} exists by now; give another URI")

    def mark_of(self, uri: str) -> str | None:
        if self._protocol not in _MARKING:
            self._fs.info(uri)  # says if there is none
            return None
        return str(self._fs.metadata(uri).get(_MARK, "")) or None

    def _put_marked(self, spool: Path, uri: str, mark: str) -> None:
        marked = {"Metadata": {_MARK: mark}} if self._protocol in _MARKING else {}
        self._fs.put_file(str(spool), uri, mode="create", **marked)

    def write(self, uri: str, data: Any, *, durable: bool) -> None:
        self._fs.pipe_file(uri, bytes(data))

    def create(self, uri: str, data: bytes) -> bool:
        return self._if_free(lambda: self._fs.pipe_file(uri, data, mode="create"))

    @staticmethod
    def _if_free(put: Callable[[], Any]) -> bool:
        """Put an object on the condition that there is none; False if there is."""
        for ask in range(_ASKS):
            try:
                put()
                return True
            except FileExistsError:
                return False
            except OSError as error:
                code = store_code(error)
                if code in _TAKEN:
                    return False
                if code not in _UNDECIDED or ask == _ASKS - 1:
                    raise
                wait_for_others(ask + 1, first=0.05)
        raise AssertionError

    def delete(self, uri: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(uri)

    def delete_tree(self, uri: str) -> None:
        if _MAGIC.search(uri):  # fsspec would take it for a pattern, and delete what matches
            for entry in [*self.list(uri, recursive=True)]:
                self.delete(f"{uri}/{entry.path}")
            return
        with suppress(FileNotFoundError):
            self._fs.rm(uri, recursive=True)

    def delete_empty(self, uri: str) -> None:
        """A folder in a store is what lies in it."""

    def link(self, source: str, target: str, *, durable: bool) -> bool:
        self.copy(source, target, durable=durable)
        return False

    def copy(self, source: str, target: str, *, durable: bool) -> None:
        self._fs.cp_file(source, target)

    def symlink(self, uri: str, target: str) -> bool:
        return False

    def symlink_target(self, uri: str) -> str | None:
        return None

    def arrow_filesystem(self) -> Any:
        return pafs.PyFileSystem(RangedHandler(self._fs))

    def arrow_file(self, uri: str, size: int | None) -> Any:
        return pa.PythonFile(RangedFile(self._fs, uri, size), mode="r")

    def arrow_path(self, uri: str) -> str:
        return str(self._fs._strip_protocol(uri))

    def _entry_of(self, path: str, uri: str, info: dict[str, Any]) -> Entry:
        # A web server may not tell the size: what comes counts.
        if info["type"] != "directory" and info["size"] is None:
            info = {**info, "size": len(read_unsized(self._fs, uri))}
        return Entry.from_info(path, info)

    def _below(self, uri: str, name: str) -> str:
        return self.arrow_path(name).removeprefix(self.arrow_path(uri)).strip("/")


@contextmanager
def _spooling() -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file, which is to become an object."""
    with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
        spool = Path(folder, "object")
        with spool.open("wb") as file:
            yield spool, file
