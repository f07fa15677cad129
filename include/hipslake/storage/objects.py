"""Objects behind fsspec: HTTP (to read), memory (for tests), other stores, and of S3 what obstore cannot do.

An object is put in one piece, so it appears whole or not at all; there are no real folders, links or moves.
"""

from __future__ import annotations

import glob as globbing
import io
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs

from hipslake.errors import NotWritableError
from hipslake.storage.access import client_options
from hipslake.storage.entry import Entry, time_in
from hipslake.storage.failures import storage_errors, store_code
from hipslake.storage.object_rules import AHEAD, MARK, OF_CONTENT, if_free, matching, spooling
from hipslake.storage.ranged_file import RangedFile, RangedHandler, read_unsized
from hipslake.storage.request_loop import MOST_REQUESTS
from hipslake.storage.waiting import HTTP, HTTP_TRACES, S3, WaitingFiles, client_timeout

_MARKING = ("s3", "s3a")  # stores that keep a few words with an object
_NO_SUCH_RANGE = 416
_EMPTY = {"InvalidRange", str(_NO_SUCH_RANGE)}  # the answers of stores to a range of an empty object
_THREADS = 16  # of one call
_MAGIC = re.compile(r"[*?\[]")
_NO_LISTING = ("http", "https")  # web servers: what they say of a folder is a page, if anything
_AT_ONCE = {"s3": {"max_concurrency": 1}}  # else s3fs asks for the size first, and may mix two contents


def _limited(protocol: str) -> dict[str, Any]:
    """The arguments by which fsspec's client of a protocol keeps the limits of each request."""
    if protocol in S3:
        from hipslake.storage.s3_session import LimitedSession

        limits = {"http_session_cls": LimitedSession, "max_pool_connections": MOST_REQUESTS}
        return {"config_kwargs": limits}
    if protocol in HTTP:
        return {"client_kwargs": {"timeout": client_timeout(), "trace_configs": HTTP_TRACES}}
    return {}


class ObjectFiles:
    """The fsspec side of `hipslake.storage.folder`; its methods are documented there."""

    def __init__(self, protocol: str) -> None:
        # No listings cache: other processes write here too. fsspec itself keeps one client per process.
        self._protocol = protocol
        options = {**client_options(protocol), **_limited(protocol)}
        self._fs = WaitingFiles(fsspec.filesystem(protocol, use_listings_cache=False, **options), protocol)

    @property
    def client(self) -> Any:
        """The client, a file system of fsspec."""
        return self._fs

    def open(self, uri: str) -> BinaryIO:
        return io.BufferedReader(RangedFile(self._fs, uri), AHEAD)

    def read(self, uri: str) -> bytes:
        return bytes(self._fs.cat_file(uri, **_AT_ONCE.get(self._protocol, {})))

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        try:
            return bytes(self._fs.cat_file(uri, start=start, end=stop)) if start < stop else b""
        except Exception as error:
            if not _is_beyond(error):
                raise
            return b""

    def range_buffer(self, uri: str, start: int, stop: int) -> bytes:
        return self.read_range(uri, start, stop)

    def read_tail(self, uri: str, most: int) -> bytes:
        try:
            return bytes(self._fs.cat_file(uri, start=-most))[-most:]  # a server may know no ranges
        except Exception as error:
            if not _is_beyond(error):
                raise
            return b""

    def awaited_range(self, uri: str, start: int, stop: int) -> None:
        """fsspec's clients wait in threads."""

    def write_all(self, files: Sequence[tuple[str, Any]], *, durable: bool) -> None:
        _side_by_side(lambda each: self.write(*each, durable=durable), files)

    def delete_all(self, uris: Sequence[str]) -> None:
        _side_by_side(self.delete, uris)

    def entry(self, uri: str, path: str) -> Entry:
        return self._entry_of(path, uri, self._fs.info(uri))

    def is_same(self, one: str, other: str) -> bool:
        tags = [str(info.get("ETag", "")) for info in (self._fs.info(one), self._fs.info(other))]
        return tags[0] == tags[1] and OF_CONTENT.fullmatch(tags[0]) is not None

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
            if not _is_beyond(error):
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
        yield from matching(self, uri, pattern)

    @contextmanager
    def replacing(self, uri: str, *, durable: bool) -> Iterator[BinaryIO]:
        # fsspec's own buffered writers publish what was written so far when an exception passes through them.
        with spooling() as (spool, file):
            yield file
            file.close()
            with storage_errors(uri, "write", foreign=True):
                self._fs.put_file(str(spool), uri)

    @contextmanager
    def creating(self, uri: str, note: Callable[[str], None]) -> Iterator[BinaryIO]:
        with spooling() as (spool, file):
            yield file
            file.close()
            self.create_marked(spool, uri, secrets.token_hex(16), note)

    def create_marked(self, spool: Path, uri: str, mark: str, note: Callable[[str], None]) -> None:
        """Make an object of a file unless its name is taken, with a mark; see `creating`."""
        note(mark)
        with storage_errors(uri, "write", foreign=True):
            taken = not if_free(lambda: self._put_marked(spool, uri, mark))
            # Also by the first try of a request whose answer was lost.
            if taken and self.mark_of(uri) != mark:
                raise NotWritableError(f"{uri} exists by now; give another URI")

    def mark_of(self, uri: str) -> str | None:
        if self._protocol not in _MARKING:
            self._fs.info(uri)  # says if there is none
            return None
        return str(self._fs.metadata(uri).get(MARK, "")) or None

    def _put_marked(self, spool: Path, uri: str, mark: str) -> None:
        marked = {"Metadata": {MARK: mark}} if self._protocol in _MARKING else {}
        self._fs.put_file(str(spool), uri, mode="create", **marked)

    def write(self, uri: str, data: Any, *, durable: bool) -> None:
        self._fs.pipe_file(uri, bytes(data))

    def create(self, uri: str, data: bytes) -> bool:
        return if_free(lambda: self._fs.pipe_file(uri, data, mode="create"))

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


def _is_beyond(error: Exception) -> bool:
    """Whether a range was refused as the object ends before it."""
    return store_code(error) in _EMPTY or getattr(error, "status", None) == _NO_SUCH_RANGE


def _side_by_side(ask: Callable[[Any], Any], given: Sequence[Any]) -> list[Any]:
    """Apply a function to inputs in threads, in the caller's context; the results, in their order."""
    if len(given) < 2:
        return [ask(each) for each in given]
    with ThreadPoolExecutor(min(len(given), _THREADS)) as pool:
        return [
            *pool.map(lambda each, context: context.run(ask, each), given, [copy_context() for _ in given])
        ]
