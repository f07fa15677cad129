"""Files of this machine, or of a network file system that it mounts."""

from __future__ import annotations

import errno
import glob as globbing
import os
import shutil
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import pyarrow.fs as pafs

from hipslake.errors import NotReadableError
from hipslake.storage import atomic
from hipslake.storage.entry import Entry
from hipslake.storage.write_out import write_in_pieces


class LocalFiles:
    """The POSIX side of `hipslake.storage.folder`; its methods are documented there."""

    def open(self, uri: str) -> BinaryIO:
        return _regular(uri)

    def read(self, uri: str) -> bytes:
        with _regular(uri) as file:
            return file.read()

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        with _regular(uri) as file:
            file.seek(start)
            return file.read(max(stop - start, 0))

    def range_buffer(self, uri: str, start: int, stop: int) -> bytes:
        return self.read_range(uri, start, stop)

    def read_tail(self, uri: str, most: int) -> bytes:
        with _regular(uri) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            return file.read(most)

    def awaited_range(self, uri: str, start: int, stop: int) -> None:
        """A disk is read in threads."""

    def entry(self, uri: str, path: str) -> Entry:
        # An unfinished link stands for itself: what it names may be a folder, or gone.
        is_link = atomic.is_unfinished(uri.rpartition("/")[2])
        status = os.lstat(uri) if is_link else os.stat(uri)  # noqa: PTH116 - very many, and paths cost as much
        if stat.S_ISDIR(status.st_mode):
            return Entry(path, 0, "", True)
        seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
        stamp = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
        special = not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))
        return Entry(path, status.st_size, stamp, False, special)

    def written(self, uri: str) -> float | None:
        return Path(uri).stat(follow_symlinks=not atomic.is_unfinished(Path(uri).name)).st_mtime

    def is_same(self, one: str, other: str) -> bool:
        return Path(one).samefile(other)

    def is_file(self, uri: str) -> bool:
        try:
            return stat.S_ISREG(Path(uri).stat().st_mode)
        except FileNotFoundError:
            return False

    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]:
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from self._entries(uri, _walk(uri, "", recursive))

    def glob(self, uri: str, pattern: str) -> Iterable[Entry]:
        for path in _matching(uri, PurePosixPath(pattern).parts):
            [found] = [*self._entries(uri, [path])] or [Entry(path, 0, "", False, is_special=True)]
            if not found.is_special or os.path.lexists(f"{uri}/{path}"):  # else it was deleted meanwhile
                yield found

    def replacing(self, uri: str, *, durable: bool) -> AbstractContextManager[BinaryIO]:
        return atomic.replacing(Path(uri), durable=durable)

    def creating(self, uri: str, note: Callable[[str], None]) -> AbstractContextManager[BinaryIO]:
        return atomic.creating(Path(uri), note)

    def mark_of(self, uri: str) -> str | None:
        return atomic.mark(Path(uri))

    def write(self, uri: str, data: Any, *, durable: bool) -> None:
        with atomic.replacing(Path(uri), durable=durable) as file:
            write_in_pieces(file, data)

    def write_all(self, files: Sequence[tuple[str, Any]], *, durable: bool) -> None:
        for uri, data in files:
            self.write(uri, data, durable=durable)

    def create(self, uri: str, data: bytes) -> bool:
        return atomic.create(Path(uri), data)

    def delete(self, uri: str) -> None:
        Path(uri).unlink(missing_ok=True)

    def delete_all(self, uris: Sequence[str]) -> None:
        for uri in uris:
            self.delete(uri)

    def delete_tree(self, uri: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(uri)

    def delete_empty(self, uri: str) -> None:
        with suppress(OSError):  # of which one says that it is not empty
            Path(uri).rmdir()

    def link(self, source: str, target: str, *, durable: bool) -> bool:
        return atomic.link(Path(source), Path(target), durable=durable)

    def copy(self, source: str, target: str, *, durable: bool) -> None:
        atomic.copy(Path(source), Path(target), durable=durable)

    def symlink(self, uri: str, target: str) -> bool:
        return atomic.symlink(Path(uri), target)

    def symlink_target(self, uri: str) -> str | None:
        return str(Path(uri).readlink()) if Path(uri).is_symlink() else None

    def arrow_filesystem(self) -> Any:
        return pafs.LocalFileSystem()

    def arrow_file(self, uri: str, size: int | None) -> Any:
        os.close(_descriptor(uri))
        return pafs.LocalFileSystem().open_input_file(uri)

    def arrow_path(self, uri: str) -> str:
        return uri

    def _entries(self, uri: str, paths: Iterable[str]) -> Iterator[Entry]:
        for path in paths:
            try:
                yield self.entry(f"{uri}/{path}", path)
            except FileNotFoundError:  # deleted since it was listed, or a link to nowhere
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:  # a link in a circle
                    raise


def _regular(uri: str) -> BinaryIO:
    return os.fdopen(_descriptor(uri), "rb")


def _descriptor(uri: str) -> int:
    """Open a file, if it is one: a pipe or a device may have no end, and opening it may block for ever."""
    descriptor = os.open(uri, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), uri)
        if not stat.S_ISREG(kind):
            raise NotReadableError(f"{uri} is no file but a pipe or a device, and is not read; remove it")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _matching(root: str, pattern: tuple[str, ...]) -> Iterator[str]:
    """The names below a folder that match the parts of a pattern, each once.

    `**` goes through links, but into no folder twice: links may lead around in circles.
    """
    if "**" not in pattern:
        # `Path.glob` reads magic in the root's own name; this one does not.
        yield from globbing.iglob("/".join(pattern), root_dir=root, include_hidden=True)  # noqa: PTH207
        return
    at = pattern.index("**")
    rest = pattern[at + 1 :]
    above = [""] if at == 0 else sorted(_matching(root, pattern[:at]))
    seen: set[str] = set()
    for folder in _folders(Path(root), above):
        for name in _matching(f"{root}/{folder}", rest or ("*",)):
            path = f"{folder}/{name}" if folder else name
            if path not in seen:
                seen.add(path)
                yield path


def _folders(root: Path, above: Iterable[str]) -> Iterator[str]:
    """Some folders and all below them, relative to a root, each once: by a link only if by no other way."""
    seen: set[tuple[int, int]] = set()
    todo, links = deque(above), deque[str]()
    while todo or links:
        folder = (todo or links).popleft()
        with suppress(OSError):  # no folder, or deleted, or not to be listed
            status = (root / folder).stat()
            if not stat.S_ISDIR(status.st_mode) or (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            yield folder
            with os.scandir(root / folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir():
                        (links if entry.is_symlink() else todo).append(
                            f"{folder}/{entry.name}" if folder else entry.name
                        )


def _walk(folder: str, prefix: str, recursive: bool) -> Iterator[str]:
    """The names of all entries of a folder; `recursive`, of those below it that are no folders."""
    with os.scandir(folder) as found:
        children = list(found)
    for child in children:
        if not recursive or not _is_folder(child):
            yield prefix + child.name
        elif not child.is_symlink():
            with suppress(FileNotFoundError):  # deleted since it was listed
                yield from _walk(child.path, f"{prefix}{child.name}/", recursive)


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link in a circle
            raise
        return False
