"""Objects of S3 stores through obstore, a client in Rust.

What that cannot do is done by fsspec's client as for other stores: names with an empty part or control
characters, objects above 64 MiB that are created only if there are none, copies to another bucket, and all in
a process that was forked from one which had used obstore, whose threads do not come through a fork.
"""

from __future__ import annotations

import asyncio
import functools
import io
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import obstore
import pyarrow as pa
import pyarrow.fs as pafs

from hipslake.errors import NotWritableError
from hipslake.storage.entry import Entry
from hipslake.storage.failures import storage_errors, store_code
from hipslake.storage.object_rules import AHEAD, MARK, OF_CONTENT, if_free, matching, spooling
from hipslake.storage.object_writer import ObjectWriter, put_in_parts
from hipslake.storage.ranged_file import RangedFile, RangedHandler
from hipslake.storage.request_loop import AsyncAsk
from hipslake.storage.s3_by_uri import ByUri
from hipslake.storage.s3_client import RedirectedError, S3Client, client_of, is_usable
from hipslake.storage.s3_requests import (
    below,
    bucket_and_key,
    create,
    entry_of,
    get_range,
    get_tail,
    get_whole,
    head,
    is_any_below,
    list_all,
    list_folder,
    markers_among,
    put_request,
    range_answer,
)
from hipslake.storage.s3_settings import S3Settings, settings_for
from hipslake.storage.store_threads import begin

if TYPE_CHECKING:
    from hipslake.storage.objects import ObjectFiles

MOST_AT_ONCE = 64 << 20
"""Bytes of an object that is put in one request."""

_DELETED_AT_ONCE = 1000  # as S3 takes
_ODD = re.compile(r"//|/\.{1,2}(/|$)|[\x00-\x1f\x7f]|\?versionId=|[\ud800-\udfff]")
_ODD_BUCKET = re.compile(r":|--x-s3$|^\.{0,2}$")
# The answers of stores that delete one by one.
_NO_BULK = {"NotImplemented", "MethodNotAllowed", "405", "501"}
_TOO_LARGE = {"EntityTooLarge", "InvalidRequest"}  # the answers of S3 to a copy of more than 5 GB
_OF_TWO = ("is_same", "copy")  # methods that are about two objects
_Keys = list[str]  # inside S3Files, `list` is a method
_Metas = list[Any]
_elsewhere: set[str] = set()  # buckets in another region than the one that is set: botocore finds it

Method = TypeVar("Method", bound=Callable[..., Any])


def _or_by_fsspec(method: Method) -> Method:
    """Let the method of the same name of fsspec's client do what obstore cannot."""

    @functools.wraps(method)
    def chosen(self: S3Files, uri: str, *args: Any, **options: Any) -> Any:
        others = [uri, args[0]] if method.__name__ in _OF_TWO else [uri]
        if all(map(self.takes, others)) and len({bucket_and_key(each)[0] for each in others}) == 1:
            try:
                return method(self, uri, *args, **options)
            except RedirectedError:
                _elsewhere.add(bucket_and_key(uri)[0])
        return getattr(self.by_fsspec, method.__name__.lstrip("_"))(uri, *args, **options)

    return chosen  # type: ignore[return-value]


class S3Files:
    """The S3 side of `hipslake.storage.folder`; its methods are documented there."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol

    @functools.cached_property
    def _settings(self) -> S3Settings | None:
        return settings_for(self._protocol)

    @functools.cached_property
    def by_fsspec(self) -> ObjectFiles:
        """The client for what obstore cannot do."""
        from hipslake.storage.objects import ObjectFiles  # loads much that is rarely needed

        return ObjectFiles(self._protocol)

    def takes(self, uri: str) -> bool:
        """Whether obstore can be asked for an object."""
        bucket, key = bucket_and_key(uri)
        odd = _ODD.search(f"/{key}") or _ODD_BUCKET.search(bucket)
        return self._settings is not None and is_usable() and odd is None and bucket not in _elsewhere

    def _at(self, uri: str) -> tuple[S3Client, str]:
        assert self._settings is not None
        bucket, key = bucket_and_key(uri)
        return client_of(self._settings, bucket), key

    def open(self, uri: str) -> BinaryIO:
        return io.BufferedReader(RangedFile(ByUri(self), uri), AHEAD)

    @_or_by_fsspec
    def read(self, uri: str) -> bytes:
        client, key = self._at(uri)
        return bytes(client.ask(lambda store: get_whole(store, key)))

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        return bytes(self.range_buffer(uri, start, stop))

    def range_buffer(self, uri: str, start: int, stop: int) -> Any:
        """A range as of `read_range`, in the memory where it arrived."""
        return self._read_range(uri, start, stop)

    @_or_by_fsspec
    def _read_range(self, uri: str, start: int, stop: int) -> Any:
        client, key = self._at(uri)
        return client.ask(lambda store: get_range(store, key, start, stop))

    def awaited_range(self, uri: str, start: int, stop: int) -> AsyncAsk | None:
        """What asks for a range as of `range_buffer` on an event loop; None of what obstore cannot say."""
        if not self.takes(uri):
            return None
        client, key = self._at(uri)

        async def ask() -> Any:
            try:
                return await client.answer(lambda store: range_answer(store, key, start, stop))
            except RedirectedError:
                _elsewhere.add(client.bucket)
            return await asyncio.wrap_future(begin(lambda: self.by_fsspec.range_buffer(uri, start, stop)))

        return ask

    def _side_by_side(self, uris: Sequence[str]) -> bool:
        """Whether obstore can be asked for some objects, which are not none, and lie in one bucket."""
        return (
            bool(uris) and all(map(self.takes, uris)) and len({bucket_and_key(uri)[0] for uri in uris}) == 1
        )

    @_or_by_fsspec
    def read_tail(self, uri: str, most: int) -> bytes:
        client, key = self._at(uri)
        return bytes(client.ask(lambda store: get_tail(store, key, most)))

    @_or_by_fsspec
    def entry(self, uri: str, path: str) -> Entry:
        client, key = self._at(uri)
        if key:
            with suppress(FileNotFoundError):
                return entry_of(path, client.ask(lambda store: obstore.head(store, key)))
        if not client.ask(lambda store: is_any_below(store, key)) and key:
            raise FileNotFoundError(2, "no such object, and none below it", uri)
        return Entry(path, 0, "", True)

    @_or_by_fsspec
    def is_same(self, one: str, other: str) -> bool:
        client = self._at(one)[0]
        keys = [bucket_and_key(uri)[1] for uri in (one, other)]
        tags = [str(found["e_tag"]) for found in client.ask_all([head(key) for key in keys])]
        return tags[0] == tags[1] and OF_CONTENT.fullmatch(tags[0]) is not None

    @_or_by_fsspec
    def written(self, uri: str) -> float | None:
        client, key = self._at(uri)
        return float(client.ask(head(key))["last_modified"].timestamp())

    @_or_by_fsspec
    def is_file(self, uri: str) -> bool:
        client, key = self._at(uri)
        if not key:
            return False
        try:
            client.ask(lambda store: get_range(store, key, 0, 1))
        except FileNotFoundError as error:
            if store_code(error) == "NoSuchBucket":
                raise
            return False
        return True

    @_or_by_fsspec
    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]:
        found = self._objects(uri, recursive)
        if found is None:
            return self.by_fsspec.list(uri, recursive=recursive)
        client, key = self._at(uri)
        prefixes, objects = found
        entries = [Entry(below(key, prefix), 0, "", True) for prefix in prefixes]
        markers = markers_among(client, objects) if recursive else set()
        for each in objects:
            path = below(key, each["path"])
            if path and (each["size"] or each["path"] not in markers):
                entries.append(entry_of(path, each))
        return entries

    def _objects(self, uri: str, recursive: bool) -> tuple[_Keys, _Metas] | None:
        """The folders and objects in a folder, markers among them; None if obstore cannot say all names."""
        client, key = self._at(uri)
        found: dict[str, Any] = {}
        try:
            if not recursive:
                return client.ask(lambda store: list_folder(store, key))
            client.ask(lambda store: list_all(store, key, found))
        except OSError as error:
            if "invalid path" not in str(error):
                raise
            return None
        return [], [*found.values()]

    def glob(self, uri: str, pattern: str) -> Iterable[Entry]:
        return matching(self, uri, pattern)

    def replacing(self, uri: str, *, durable: bool) -> AbstractContextManager[BinaryIO]:
        with storage_errors(uri, "write", foreign=True):  # there may be no keys
            taken = self.takes(uri)
        return self._streamed(uri) if taken else self.by_fsspec.replacing(uri, durable=durable)

    @contextmanager
    def _streamed(self, uri: str) -> Iterator[BinaryIO]:
        client, key = self._at(uri)
        file = ObjectWriter(client, key, lambda content: self.write(uri, content, durable=True))
        try:
            yield file  # type: ignore[misc]
            with storage_errors(uri, "write", foreign=True):
                file.publish()
        except BaseException:
            file.give_up()
            raise
        finally:
            file.close()

    def creating(self, uri: str, note: Callable[[str], None]) -> AbstractContextManager[BinaryIO]:
        with storage_errors(uri, "write", foreign=True):
            taken = self.takes(uri)
        return self._created(uri, note) if taken else self.by_fsspec.creating(uri, note)

    @contextmanager
    def _created(self, uri: str, note: Callable[[str], None]) -> Iterator[BinaryIO]:
        client, key = self._at(uri)
        mark = secrets.token_hex(16)
        with spooling() as (spool, file):
            yield file
            file.close()
            if spool.stat().st_size > MOST_AT_ONCE:
                self.by_fsspec.create_marked(spool, uri, mark, note)
                return
            note(mark)
            content = spool.read_bytes()
            with storage_errors(uri, "write", foreign=True):
                try:
                    taken = not if_free(lambda: create(client, key, content, {MARK: mark}))
                except RedirectedError:
                    self.by_fsspec.create_marked(spool, uri, mark, note)
                    return
                # Also by the first try of a request whose answer was lost.
                if taken and self.mark_of(uri) != mark:
                    raise NotWritableError(f"{uri} exists by now; give another URI")

    @_or_by_fsspec
    def mark_of(self, uri: str) -> str | None:
        client, key = self._at(uri)

        def head(store: Any) -> Any:
            return obstore.get(store, key, options={"head": True}).attributes

        return str(client.ask(head).get(MARK, "")) or None

    @_or_by_fsspec
    def write(self, uri: str, data: Any, *, durable: bool) -> None:
        client, key = self._at(uri)
        self._put(client, key, data)

    def _put(self, client: S3Client, key: str, data: Any) -> None:
        content = memoryview(data).cast("B")
        if len(content) <= MOST_AT_ONCE:
            client.ask(put_request(key, content), sends=len(content))
        else:
            put_in_parts(client, key, content)

    @_or_by_fsspec
    def create(self, uri: str, data: bytes) -> bool:
        client, key = self._at(uri)
        return if_free(lambda: create(client, key, data))

    def write_all(self, files: Sequence[tuple[str, Any]], *, durable: bool) -> None:
        """Put small objects side by side."""
        if self._side_by_side([uri for uri, _ in files]):
            requests = [put_request(bucket_and_key(uri)[1], data) for uri, data in files]
            with suppress(RedirectedError):
                most = max(memoryview(data).nbytes for _, data in files)
                self._at(files[0][0])[0].ask_all(requests, sends=most)
                return
        for uri, data in files:
            self.write(uri, data, durable=durable)

    @_or_by_fsspec
    def delete(self, uri: str) -> None:
        client, key = self._at(uri)
        self._delete(client, [key])

    def delete_all(self, uris: Sequence[str]) -> None:
        """Delete objects by as few requests as there can be."""
        if self._side_by_side(uris):
            with suppress(RedirectedError):
                self._delete(self._at(uris[0])[0], [bucket_and_key(uri)[1] for uri in uris])
                return
        for uri in uris:
            self.delete(uri)

    def _delete(self, client: S3Client, keys: Sequence[str]) -> None:
        def request(some: Sequence[str]) -> Any:
            return lambda store: obstore.delete(store, some)

        parts = [keys[at : at + _DELETED_AT_ONCE] for at in range(0, len(keys), _DELETED_AT_ONCE)]
        try:
            client.ask_all([request(part) for part in parts])
        except FileNotFoundError:
            return
        except OSError as error:
            if store_code(error) not in _NO_BULK:
                raise
            for key in keys:
                self.by_fsspec.delete(f"{self._protocol}://{client.bucket}/{key}")

    @_or_by_fsspec
    def delete_tree(self, uri: str) -> None:
        found = self._objects(uri, recursive=True)
        client, key = self._at(uri)
        paths = [each["path"] for each in found[1]] if found else []
        if found is None or markers_among(client, found[1]):  # whose names obstore cannot say
            self.by_fsspec.delete_tree(uri)
            return
        self._delete(client, [*dict.fromkeys([key, *paths])])

    def delete_empty(self, uri: str) -> None:
        """A folder in a store is what lies in it."""

    def link(self, source: str, target: str, *, durable: bool) -> bool:
        self.copy(source, target, durable=durable)
        return False

    @_or_by_fsspec
    def copy(self, source: str, target: str, *, durable: bool) -> None:
        client, key = self._at(source)
        wanted = bucket_and_key(target)[1]
        try:
            client.ask(lambda store: obstore.copy(store, key, wanted))
        except OSError as error:
            if store_code(error) not in _TOO_LARGE:
                raise
            self.by_fsspec.copy(source, target, durable=durable)

    def symlink(self, uri: str, target: str) -> bool:
        return False

    def symlink_target(self, uri: str) -> str | None:
        return None

    def arrow_filesystem(self) -> Any:
        return pafs.PyFileSystem(RangedHandler(ByUri(self)))

    def arrow_file(self, uri: str, size: int | None) -> Any:
        return pa.PythonFile(RangedFile(ByUri(self), uri, size), mode="r")

    def arrow_path(self, uri: str) -> str:
        return uri.partition("://")[2]
