"""The one door to files and objects: a folder on any file system, with writes that are whole or not at all.

Credentials and endpoints of a store come from the environment (`AWS_...` for S3: `hipslake.storage.access`),
never from a URI. Web servers are read only.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from hipslake.errors import NotWritableError, PathError
from hipslake.storage import atomic
from hipslake.storage.atomic import is_unfinished
from hipslake.storage.entry import Entry, GlobMatches, chosen_matches
from hipslake.storage.failures import Doing, storage_errors
from hipslake.storage.folder_paths import FolderPaths
from hipslake.storage.local import LocalFiles
from hipslake.storage.request_loop import AsyncAsk

if TYPE_CHECKING:
    from hipslake.storage.objects import ObjectFiles
    from hipslake.storage.s3_files import S3Files

__all__ = ["Entry", "GlobMatches", "Storage"]

_CHUNK_BYTES = 8 << 20
_LOCAL = LocalFiles()
_Entries = list[Entry]  # inside Storage, `list` is a method
_AsyncAsks = list[AsyncAsk | None]


@dataclass(frozen=True)
class Storage(FolderPaths):
    """A folder and everything under it, by paths relative to it.

    Errors of the file system become `StorageError`s that name the path and the mend; a missing file stays
    a `FileNotFoundError`. Mounted folders are only read, and are not listed with the folder that they are
    mounted in.
    """

    @overload
    def open(self, path: str, mode: Literal["rb"] = "rb") -> BinaryIO: ...
    @overload
    def open(
        self, path: str, mode: Literal["wb"], *, durable: bool = True
    ) -> AbstractContextManager[BinaryIO]: ...
    def open(self, path: str, mode: str = "rb", *, durable: bool = True) -> Any:
        """Open a file for reading, or a new one for writing.

        A file opened with `"wb"` must be used in a `with` block; it appears, whole, when the block ends
        without an exception. `durable=False` skips the syncs, for files that may be lost in a power cut.
        """
        if mode == "wb":
            self.refuse_web_server(path)
            return self._replacing(path, durable)
        if mode != "rb":
            raise ValueError(f"mode {mode!r} is not one of 'rb', 'wb'")
        with self._errors(path, "read"):
            return self._files_of(path).open(self.uri(path))

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self._errors(path, "read"):
            return self._files_of(path).read(self.uri(path))

    def read_plain(self, path: str, most: int) -> bytes:
        """The content of a file that others have named: of a regular one, up to a size in bytes.

        Raises
        ------
        PathError
            It is larger, or a device, a pipe or a socket, which may never end.
        """
        with self._errors(path, "read"):
            entry = self._files_of(path).entry(self.uri(path), path)
            if entry.is_dir or not self._files_of(path).is_file(self.uri(path)):
                raise PathError(f"{self.uri(path)} is no regular file")
            with self._files_of(path).open(self.uri(path)) as file:
                data = bytes(file.read(most + 1))
        if len(data) > most:
            raise PathError(f"{self.uri(path)} has more than {most >> 20} MiB")
        return data

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """The bytes [start, stop) of a file, in one request; fewer where the file ends before."""
        with self._errors(path, "read"):
            return self._files_of(path).read_range(self.uri(path), start, stop)

    def range_buffer(self, path: str, start: int, stop: int) -> Any:
        """As `read_range`, something with a buffer: of S3 in the memory where it arrived."""
        with self._errors(path, "read"):
            return self._files_of(path).range_buffer(self.uri(path), start, stop)

    def awaited_ranges(self, asked: Sequence[tuple[str, int, int]]) -> _AsyncAsks:
        """What asks for ranges (paths, starts, stops) as `range_buffer` does, on an event loop.

        None where only threads can: see `RequestPool.ranges`.
        """
        files: dict[str, LocalFiles | ObjectFiles | S3Files] = {}  # by the scheme of what they read
        found: _AsyncAsks = []
        for path, start, stop in asked:
            uri = self.uri(path)
            scheme = uri.partition("://")[0] if "://" in uri else ""
            if scheme not in files:
                files[scheme] = _files_at(uri)
            with self._errors(path, "read"):
                ask = files[scheme].awaited_range(uri, start, stop)
            found.append(None if ask is None else partial(self._answer, path, ask))
        return found

    async def _answer(self, path: str, ask: AsyncAsk) -> Any:
        with self._errors(path, "read"):
            return await ask()

    def read_tail(self, path: str, most: int) -> bytes:
        """The last bytes of a file, in one request: `most`, or all where there are fewer."""
        with self._errors(path, "read"):
            return self._files_of(path).read_tail(self.uri(path), most)

    def sha256(self, path: str) -> str:
        """The SHA-256 of a file's content, in hexadecimal."""
        digest = hashlib.sha256()
        with self._errors(path, "read"), self._files_of(path).open(self.uri(path)) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()

    def entry(self, path: str) -> Entry:
        """Size and stamp of a file or folder; `FileNotFoundError` if there is none."""
        with self._errors(path, "read"):
            return self._files_of(path).entry(self.uri(path), path)

    def written(self, path: str) -> float | None:
        """When a file was written: seconds since 1970 by the clock of the store; None if it tells no times.

        Also of a local folder: when a name in it last came or went.
        """
        with self._errors(path, "read"):
            return self._files_of(path).written(self.uri(path))

    def exists(self, path: str) -> bool:
        """Whether a file or folder lies there. An unreachable store is an error, not False."""
        try:
            self.entry(path)
        except FileNotFoundError:
            return False
        return True

    def is_file(self, path: str) -> bool:
        """Whether a file lies there, asked in one request. An unreachable store is an error, not False."""
        with self._errors(path, "read"):
            return self._files_of(path).is_file(self.uri(path))

    def list(self, path: str = "", *, recursive: bool = False) -> _Entries:
        """Files and folders in a folder, sorted by path; `recursive`: all files below it, and no folders.

        A missing folder is an empty one, as on object stores. Unfinished files are not listed.
        """
        return self._listing(path, recursive, unfinished=False)

    def unfinished(self, path: str = "", *, recursive: bool = False) -> _Entries:
        """The temporary files in a folder, sorted by path: being written, or left by a killed process."""
        return self._listing(path, recursive, unfinished=True)

    def glob(self, pattern: str) -> _Entries:
        """The files (not folders) that match a pattern with `*`, `?`, `[...]` and `**`, sorted by path.

        Names that begin with a dot, of files or of folders above them, only match patterns that say so.
        """
        return self.matches(pattern).files

    def matches(self, pattern: str) -> GlobMatches:
        """The files that match a pattern, as for `glob`, and the matches that it leaves out."""
        with self._errors("", "read"):
            return chosen_matches(sorted(self._files.glob(self.root, pattern)), pattern)

    def write(self, path: str, data: Any, *, durable: bool = True) -> None:
        """Write or replace a file, whole or not at all; parents are made.

        Parameters
        ----------
        data
            bytes, or anything with a buffer (a `pyarrow.Buffer`).
        durable
            False skips the syncs, for files that may be lost in a power cut.
        """
        with self._errors(path, "write"):
            self._files_of(path).write(self.uri(path), data, durable=durable)

    def write_all(self, files: Mapping[str, Any], *, durable: bool = True) -> None:
        """Write or replace small files, each as of `write`; to a store some tens of them side by side.

        The order in which they appear is not told; after an error some may be there.
        """
        self._refuse_web_servers([*files])
        with self._errors(_common([*files]), "write"):
            self._files.write_all([(self.uri(path), data) for path, data in files.items()], durable=durable)

    def create(self, path: str, data: bytes) -> bool:
        """Create a file, whole or not at all, unless its name is taken. One of concurrent callers gets True.

        A store may answer False to the writer that succeeded, if its first answer was lost and it was asked
        again: a caller that has to be certain reads the file.
        """
        with self._errors(path, "write"):
            return self._files_of(path).create(self.uri(path), data)

    @contextmanager
    def creating(self, path: str, note: Callable[[str], None] = lambda mark: None) -> Iterator[BinaryIO]:
        """Open a new file, which appears, whole, when the block ends, unless its name is taken by then.

        Parameters
        ----------
        path : str
        note : callable
            Told, before the file appears, the mark by which `mark_of` knows it again: who is killed before it
            learned how the block ended looks there.

        Raises
        ------
        NotWritableError
            Of all who tried, another has the name.
        """
        self.refuse_web_server(path)
        try:
            with self._files_of(path).creating(self.uri(path), note) as file:
                yield file
        except FileExistsError:
            raise NotWritableError(f"{self.uri(path)} exists by now; give another URI") from None
        except OSError as error:
            with self._errors(path, "write"):
                raise error

    def sync(self) -> None:
        """Let all that was written with `durable=False` survive a power cut too; what stores have does."""
        if self.is_local:
            os.sync()

    def mark_of(self, path: str) -> str | None:
        """The mark of a file that `creating` has made; None of others where the store says so."""
        with self._errors(path, "read"):
            return self._files_of(path).mark_of(self.uri(path))

    def delete(self, path: str) -> None:
        """Delete a file; none there is fine."""
        with self._errors(path, "write"):
            self._files_of(path).delete(self.uri(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, in as few requests as a store takes; none there is fine."""
        self._refuse_web_servers(paths)
        with self._errors(_common(paths), "write"):
            self._files.delete_all([self.uri(path) for path in paths])

    def delete_tree(self, path: str) -> None:
        """Delete a folder below the root with everything in it; none there is fine."""
        if self.uri(path) == self.root:
            raise ValueError(f"{self.root}: the root of a storage is not deleted through it")
        with self._errors(path, "write"):
            self._files_of(path).delete_tree(self.uri(path))

    def delete_empty(self, path: str) -> None:
        """Delete a folder if nothing is in it; object stores have none of these."""
        self._files_of(path).delete_empty(self.uri(path))

    def link(self, source: str, target: str, *, durable: bool = True) -> bool:
        """Give a file a second path: a hard link, else a copy (by the server, if there is one).

        Returns True if linked.
        """
        with self._errors(target, "write"):
            return self._files.link(self.uri(source), self.uri(target), durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Copy a file, whole or not at all; by the server, if there is one."""
        with self._errors(target, "write"):
            self._files.copy(self.uri(source), self.uri(target), durable=durable)

    def is_same_file(self, one: str, other: str) -> bool:
        """Whether two files are known to be the same without reading them: a link, or a store's own copy.

        False may mean that they have to be compared; `FileNotFoundError` if one is missing.
        """
        with self._errors(other, "read"):
            return self._files.is_same(self.uri(one), self.uri(other))

    def move_folder(self, source: str, target: str) -> bool:
        """Give a folder another name, at once, unless something has that; only on file systems of a machine.

        Returns True if it was moved.
        """
        if not self.is_local:
            raise ValueError(f"{self.root}: object stores have no folders that could be moved")
        with self._errors(target, "write"):
            return atomic.move_folder(Path(self.uri(source)), Path(self.uri(target)))

    def symlink(self, path: str, target: str) -> bool:
        """Point `path` at a target relative to its folder, in one step; False where links do not exist."""
        with self._errors(path, "write"):
            return self._files_of(path).symlink(self.uri(path), target)

    def symlink_target(self, path: str) -> str | None:
        """Where a symbolic link points, as it was given to `symlink`; None if there is none."""
        with self._errors(path, "read"):
            return self._files_of(path).symlink_target(self.uri(path))

    def check_writable(self) -> None:
        """Raise `NotWritableError` or `NoSpaceError` unless a file can be written below the root."""
        probe = f".hipslake-{secrets.token_hex(4)}"
        self.write(probe, b"Is this place writable?\n")
        self.delete(probe)

    def arrow_filesystem(self) -> Any:
        """The pyarrow file system to use with `arrow_path`: pyarrow's own for local files."""
        return self._files.arrow_filesystem()

    def arrow_file(self, path: str, size: int | None = None) -> Any:
        """A file opened for pyarrow's readers, which fetch what they need of it.

        Parameters
        ----------
        path : str
        size : int, optional
            In bytes, where it is known: a store need not be asked then. A file that has another by now cannot
            be read.
        """
        with self._errors(path, "read"):
            return self._files_of(path).arrow_file(self.uri(path), size)

    def arrow_path(self, path: str = "") -> str:
        """A path as `arrow_filesystem` understands it."""
        return self._files_of(path).arrow_path(self.uri(path))

    @property
    def _files(self) -> LocalFiles | ObjectFiles | S3Files:
        return _files_at(self.root)

    def _files_of(self, path: str) -> LocalFiles | ObjectFiles | S3Files:
        return _files_at(self.uri(path) if self.mounts else self.root)

    def refuse_web_server(self, path: str) -> None:
        """Raise `NotWritableError` for a path behind a web server."""
        if self.mounts and self.resolved(path)[0] is not self:
            raise NotWritableError(
                f"{self.uri(path)} is mounted here, and only read; it is a catalog of others"
            )
        if self.is_web_server:
            raise NotWritableError(
                f"{self.uri(path)}: nothing is written through a web server; give the store's own URI"
            )

    def _refuse_web_servers(self, paths: Sequence[str]) -> None:
        for path in paths if self.mounts else ():
            self.refuse_web_server(path)

    def _errors(self, path: str, doing: Doing) -> AbstractContextManager[None]:
        if doing == "write":
            self.refuse_web_server(path)
        return storage_errors(self.uri(path), doing, foreign="://" in self.uri(path))

    @contextmanager
    def _replacing(self, path: str, durable: bool) -> Iterator[BinaryIO]:
        uri = self.uri(path)
        with storage_errors(uri, "write"), self._files.replacing(uri, durable=durable) as file:
            yield file

    def _listing(self, path: str, recursive: bool, *, unfinished: bool) -> _Entries:
        with self._errors(path, "read"):
            found = [*self._files_of(path).list(self.uri(path), recursive=recursive)]
        chosen = (entry for entry in found if is_unfinished(entry.path.rpartition("/")[2]) is unfinished)
        return sorted(entry._replace(path=self.join(path, entry.path)) for entry in chosen)


def _common(paths: Sequence[str]) -> str:
    """What errors of several paths are told of: the only one, or the folder that all lie in."""
    return os.path.commonpath(paths or [""])


def _files_at(root: str) -> LocalFiles | ObjectFiles | S3Files:
    # Never kept: a client that was inherited through a fork does not work, and pickles stay small.
    if "://" not in root:
        return _LOCAL
    protocol = root.partition("://")[0]  # of what is imported below, local files need nothing
    if protocol in ("s3", "s3a"):
        from hipslake.storage.s3_files import S3Files

        return S3Files(protocol)
    from hipslake.storage.objects import ObjectFiles

    return ObjectFiles(protocol)
