"""POSIX files that appear whole or not at all, and that survive a power cut once they have appeared.

A file is written under a temporary name in its own folder, synced, and then moved or linked to its name
(in the blocks `synced_behind` and `synced_later` it is synced behind that, by their end or by `sync_files`).
Temporary names begin with a dot, so that dataset readers skip what a killed process left.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from hipslake.errors import StorageError
from hipslake.storage.failures import storage_errors
from hipslake.storage.write_out import start_write_out

CLAIM_GRACE = 60.0
"""Seconds after which a claim that names no file counts as left behind by a killed process."""

_SYNC_THREADS = 8
_CLAIM_PATIENCE = 1.0  # seconds to wait for a claim that names no file yet
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
_CLAIM = re.compile(r"\..+\.claim")
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def is_unfinished(name: str) -> bool:
    """Whether a file's name says that it is no file of its own (yet): temporary, or a claim."""
    return bool(_TEMPORARY.fullmatch(name) or _CLAIM.fullmatch(name))


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends; an exception leaves it alone."""
    behind = _behind.get() if durable else None
    with _temporary(path, durable=durable) as temporary:
        with _synced(temporary, durable=durable and behind is None) as file:
            yield file
        temporary.replace(path)
    if behind is not None:
        behind.add(path)
    elif durable:
        sync_folder(path.parent)


@contextmanager
def synced_behind() -> Iterator[None]:
    """Sync what `replacing` writes in the block by another thread, while the block goes on.

    All files survive a power cut once the block has ended, and not before: each has its name before it is
    synced. So it is for files that nothing names until then. Only what the thread that enters the block
    writes counts.

    Raises
    ------
    StorageError, NoSpaceError
        At the end of the block: a file could not be synced.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="sync") as pool:
        behind = _Syncs(pool)
        token = _behind.set(behind)
        try:
            yield
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            _behind.reset(token)
        behind.end()


@contextmanager
def synced_later() -> Iterator[None]:
    """Leave what `replacing` writes in the block to `sync_files`, which may be called by another process.

    Each file has its name before it is synced; the kernel has begun to write it to disk. An error of that is
    told by `sync_files`, as long as the kernel remembers the file. Only what the thread that enters the block
    writes counts.
    """
    token = _behind.set(_WrittenOut())
    try:
        yield
    finally:
        _behind.reset(token)


def sync_files(paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Let files, their names in their folders, and the names in further folders survive a power cut.

    Raises
    ------
    StorageError, NoSpaceError
        A file or a folder could not be synced.
    """

    def sync(path: Path) -> Path:
        with storage_errors(str(path), "write"):
            _sync_file(path)
        return path.parent

    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        named = set(pool.map(sync, paths))
    _sync_folders(sorted(named.union(folders)))


def _sync_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        with storage_errors(str(folder), "write"):
            sync_folder(folder)


class _WrittenOut:
    """Files that the kernel is told to write to disk."""

    def add(self, path: Path) -> None:
        with path.open("rb", buffering=0) as file:
            start_write_out(file.fileno())


class _Syncs:
    """Files that are synced by another thread, and their folders, each once at the end."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: list[tuple[Path, Future[None]]] = []
        self._folders: dict[Path, None] = {}

    def add(self, path: Path) -> None:
        self._begun.append((path, self._pool.submit(_sync_file, path)))
        self._folders[path.parent] = None

    def end(self) -> None:
        for path, synced in self._begun:
            with storage_errors(str(path), "write"):
                synced.result()
        _sync_folders(self._folders)


_behind: ContextVar[_Syncs | _WrittenOut | None] = ContextVar("syncs behind", default=None)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def creating(path: Path, note: Callable[[str], None]) -> Iterator[BinaryIO]:
    """Open a new file that gets its name when the block ends, unless that is taken by then.

    Parameters
    ----------
    path : Path
    note : callable
        Told the file's `mark` before it can be seen.

    Raises
    ------
    FileExistsError
        The name belongs to another file.
    """
    with _temporary(path) as temporary:
        with _synced(temporary) as file:
            yield file
        ours = mark(temporary)
        note(ours)
        # A name that is taken may be ours: a file server that was asked again, since its answer was lost.
        if not _take_name(temporary, path) and mark(path) != ours:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        sync_folder(path.parent)


def mark(path: Path) -> str:
    """A text that differs for any two files at one path, whichever hosts write them."""
    status = path.stat()
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def create(path: Path, data: bytes | memoryview) -> bool:
    """Create a file unless its name is taken; of any number of processes that try, one gets True.

    `link` fails if the name exists and never shows half a file. File systems without links get the slower
    protocol of `create_by_claim`.
    """
    if os.path.lexists(path):
        return False
    with _temporary(path) as temporary:
        with _synced(temporary) as file:
            file.write(data)
        taken = _take_name(temporary, path)
        sync_folder(path.parent)
        return taken


def _take_name(temporary: Path, path: Path) -> bool:
    """Move a complete temporary file to `path`; False if that name belongs to another file already."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return create_by_claim(temporary, path)
    return True


def create_by_claim(temporary: Path, path: Path) -> bool:
    """Move a complete temporary file to `path` unless that name is taken, without hard links.

    The process that creates the claim `.<name>.claim` (exclusively) owns the name. The claim says which file
    is moved there, so any process that meets the claim of a killed owner finishes the move. Claims stay:
    they make the name taken for good. A claim that names no file is the trace of a kill between two system
    calls; it is removed after `CLAIM_GRACE` seconds.

    Raises
    ------
    StorageError
        A claim that names no file is younger than that.
    """
    claim = path.with_name(f".{path.name}.claim")
    while not _finish(claim, path):
        try:
            with _synced(claim) as file:
                file.write(f"{temporary.name}\n".encode())
                ours = os.fstat(file.fileno())
        except FileExistsError:
            continue
        with suppress(FileNotFoundError):
            if os.path.samestat(ours, claim.stat()):  # else it was taken for a dead process's, and removed
                return _finish(claim, path) and not temporary.exists()
    return False


def link(source: Path, target: Path, *, durable: bool) -> bool:
    """Give a file a second name, replacing what stands there; where links fail, copy it. True if linked."""
    if _linked(source, target):  # nothing stands there: one call, where replacing takes five
        if durable:
            sync_folder(target.parent)
        return True
    with _temporary(target, durable=durable) as temporary:
        try:
            os.link(source, temporary)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            copy(source, target, durable=durable)
            return False
        temporary.replace(target)
    if durable:
        sync_folder(target.parent)
    return True


def _linked(source: Path, target: Path) -> bool:
    """Whether a free name in a folder that exists was taken by a hard link."""
    try:
        os.link(source, target)
    except OSError:  # what it was is met again, and told, by who goes on
        return False
    return True


def copy(source: Path, target: Path, *, durable: bool) -> None:
    """Copy a file, replacing what stands there."""
    with source.open("rb") as original, replacing(target, durable=durable) as file:
        shutil.copyfileobj(original, file, 1 << 20)


def symlink(path: Path, target: str) -> bool:
    """Point `path` at a target relative to its folder, replacing an older link; False where unsupported."""
    with _temporary(path) as temporary:
        try:
            temporary.symlink_to(target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        temporary.replace(path)
    return True


def make_folder(folder: Path, *, durable: bool) -> None:
    """Make a folder and its parents; with `durable`, the new names survive a power cut."""
    if folder.is_dir():
        return
    missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
    folder.mkdir(parents=True, exist_ok=True)
    if durable:
        for made in missing:
            sync_folder(made.parent)


def move_folder(source: Path, target: Path) -> bool:
    """Give a folder another name in the same folder, at once; False if something has that name."""
    if os.path.lexists(target):
        return False
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # another process was quicker
            return False
        raise
    sync_folder(target.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _temporary(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A free name beside `path`, in a folder that exists; a file of that name is deleted after the block.

    One that was renamed over another name of the same file is still there: that renaming does nothing.
    """
    make_folder(path.parent, durable=durable)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
    finally:
        with suppress(OSError):  # what is left is swept; the block has its outcome
            temporary.unlink()


@contextmanager
def _synced(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file, whose content is on disk when the block ends (if `durable`)."""
    with path.open("xb") as file:
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _finish(claim: Path, path: Path) -> bool:
    """Finish the move that a claim names. False if there is no claim, so that the name is free."""
    give_up = time.monotonic() + _CLAIM_PATIENCE
    while True:
        try:
            written, age = claim.read_text(), time.time() - claim.stat().st_mtime
        except FileNotFoundError:
            return os.path.lexists(path)
        # The name is looked up after the claim was read: a claim that is read while the name is free is the
        # winner's, so moving its file cannot replace another's.
        if os.path.lexists(path):
            return True
        name = written.removesuffix("\n")
        if written.endswith("\n") and _TEMPORARY.fullmatch(name):
            with suppress(FileNotFoundError):
                path.with_name(name).rename(path)
                sync_folder(path.parent)
            if os.path.lexists(path):
                return True
        if age >= CLAIM_GRACE:
            claim.unlink(missing_ok=True)
            return False
        if time.monotonic() > give_up:
            raise StorageError(
                f"{path}: another process claimed this name {age:.0f} s ago and has not finished; "
                f"try again in {CLAIM_GRACE:.0f} s"
            )
        time.sleep(0.01)  # the claimer is between two system calls
