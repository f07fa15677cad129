"""Files of this machine, or of a network file system that it mounts."""

from __future__ import annotations

import glob as globbing
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.fs as pafs

from hipslake.files import atomic
from hipslake.files.entry import Entry

# The kernel caches a write in blocks as large as the write. Large ones come from memory that lay free for
# long, which in a virtual machine the host may have taken back; small ones were in use just now.
_PIECE = 64 << 10


class LocalFiles:
    """The POSIX side of `hipslake.storage`; the meaning of each method is told there."""

    def open(self, uri: str) -> BinaryIO:
        return Path(uri).open("rb")

    def read(self, uri: str) -> bytes:
        return Path(uri).read_bytes()

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        with Path(uri).open("rb") as file:
            file.seek(start)
            return file.read(max(stop - start, 0))

    def entry(self, uri: str, path: str) -> Entry:
        # An unfinished link stands for itself: what it names may be a folder, or gone.
        status = Path(uri).stat(follow_symlinks=not atomic.is_unfinished(Path(uri).name))
        if stat.S_ISDIR(status.st_mode):
            return Entry(path, 0, "", True)
        seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
        stamp = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
        return Entry(path, status.st_size, stamp, False)

    def is_file(self, uri: str) -> bool:
        try:
            return stat.S_ISREG(Path(uri).stat().st_mode)
        except FileNotFoundError:
            return False

    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]:
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from self._entries(uri, _walk(Path(uri), "", recursive))

    def glob(self, uri: str, pattern: str) -> Iterable[Entry]:
        # `Path.glob` matches hidden files and reads magic in the root's own name; this one does neither.
        names = globbing.iglob(pattern, root_dir=uri, recursive=True)  # noqa: PTH207
        return self._entries(uri, names)

    def replacing(self, uri: str, *, durable: bool) -> AbstractContextManager[BinaryIO]:
        return atomic.replacing(Path(uri), durable=durable)

    def write(self, uri: str, data: Any, *, durable: bool) -> None:
        with atomic.replacing(Path(uri), durable=durable) as file:
            content = memoryview(data).cast("B")
            for low in range(0, len(content), _PIECE):
                file.write(content[low : low + _PIECE])

    def create(self, uri: str, data: bytes) -> bool:
        return atomic.create(Path(uri), data)

    def delete(self, uri: str) -> None:
        Path(uri).unlink(missing_ok=True)

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
        return pafs.LocalFileSystem().open_input_file(uri)

    def arrow_path(self, uri: str) -> str:
        return uri

    def _entries(self, uri: str, paths: Iterable[str]) -> Iterator[Entry]:
        for path in paths:
            with suppress(FileNotFoundError):  # deleted since it was listed, or a link to nowhere
                yield self.entry(f"{uri}/{path}", path)


def _walk(folder: Path, prefix: str, recursive: bool) -> Iterator[str]:
    for child in folder.iterdir():
        if not recursive or not child.is_dir():
            yield prefix + child.name
        elif not child.is_symlink():
            with suppress(FileNotFoundError):  # deleted since it was listed
                yield from _walk(child, f"{prefix}{child.name}/", recursive)
