"""What a listing says about one file or folder, and what every kind of place must answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, Protocol

_STAMPS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created")


class GlobMatches(NamedTuple):
    """What matches a pattern: the files, and what was passed over: hidden files, folders, pipes, devices."""

    files: list[Entry]
    passed_over: list[Entry]


_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")


def time_in(info: dict[str, Any]) -> float | None:
    """When the object was written that fsspec's `info` describes, in seconds since 1970; None: not told."""
    stamp = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(stamp, str):
        try:
            stamp = datetime.fromisoformat(stamp)
        except ValueError:
            return None
    if isinstance(stamp, datetime):
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    return float(stamp) if isinstance(stamp, int | float) else None


class Entry(NamedTuple):
    """One file or folder of a listing."""

    path: str  # relative to the storage's root
    size: int  # bytes; 0 for folders
    stamp: str  # etag where the store gives one, else the modification time in ISO 8601; "" for folders
    is_dir: bool
    is_special: bool = False  # a pipe, a socket or a device, which is never read

    @classmethod
    def from_info(cls, path: str, info: dict[str, Any]) -> Entry:
        """The entry that fsspec's `info` of an object describes, whose size it tells."""
        if info["type"] == "directory":
            return cls(path, 0, "", True)
        stamp = next((info[key] for key in _STAMPS if info.get(key) is not None), "")
        if isinstance(stamp, int | float):
            stamp = datetime.fromtimestamp(stamp, UTC)
        text = stamp.isoformat() if isinstance(stamp, datetime) else str(stamp)
        return cls(path, int(info["size"]), text, False)


class Files(Protocol):
    """A kind of place. `uri` is an absolute path or URI; errors are those of the place itself."""

    def open(self, uri: str) -> BinaryIO: ...
    def read(self, uri: str) -> bytes: ...
    def read_range(self, uri: str, start: int, stop: int) -> bytes: ...
    def entry(self, uri: str, path: str) -> Entry: ...
    def is_same(self, one: str, other: str) -> bool: ...
    def written(self, uri: str) -> float | None: ...
    def is_file(self, uri: str) -> bool: ...
    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]: ...
    def glob(self, uri: str, pattern: str) -> Iterable[Entry]: ...
    def replacing(self, uri: str, *, durable: bool) -> AbstractContextManager[BinaryIO]: ...
    def creating(self, uri: str, note: Callable[[str], None]) -> AbstractContextManager[BinaryIO]: ...
    def mark_of(self, uri: str) -> str | None: ...
    def write(self, uri: str, data: Any, *, durable: bool) -> None: ...
    def create(self, uri: str, data: bytes) -> bool: ...
    def delete(self, uri: str) -> None: ...
    def delete_tree(self, uri: str) -> None: ...
    def delete_empty(self, uri: str) -> None: ...
    def link(self, source: str, target: str, *, durable: bool) -> bool: ...
    def copy(self, source: str, target: str, *, durable: bool) -> None: ...
    def symlink(self, uri: str, target: str) -> bool: ...
    def symlink_target(self, uri: str) -> str | None: ...
    def arrow_filesystem(self) -> Any: ...
    def arrow_file(self, uri: str, size: int | None) -> Any: ...
    def arrow_path(self, uri: str) -> str: ...
