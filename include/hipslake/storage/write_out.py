"""How new files of this machine are written; on Linux, also when the kernel writes them to disk."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from hipslake.storage.available_memory import machine_memory

_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_WRITTEN_OUT = 4 << 20  # bytes that the kernel is told to write out at once

# The kernel caches a write in blocks as large as the write. Large ones come from memory that lay free for
# long, which in a virtual machine the host may have taken back; small ones were in use just now.
_PIECE = 64 << 10


def bytes_kept_unwritten(vm: Path = Path("/proc/sys/vm"), memory: Path = Path("/proc/meminfo")) -> float:
    """Return how many bytes of new files the kernel keeps in memory before it begins to write them to disk.

    Infinite where the kernel does not say.
    """
    try:
        if fixed := int((vm / "dirty_background_bytes").read_text()):
            return fixed
        share = int((vm / "dirty_background_ratio").read_text()) / 100
    except (OSError, ValueError):
        return math.inf
    available = machine_memory(memory)
    return math.inf if available is None else share * available


@contextmanager
def native_output(file: BinaryIO) -> Iterator[BinaryIO | pa.NativeFile]:
    """Give a new, empty file to Arrow: one of this machine as a stream of Arrow's own, others as they are.

    For each page that Arrow writes to a file of Python's it takes Python's global lock, twice and more, and
    threads that write Parquet wait for each other. The stream is closed when the block ends, the file is not.
    """
    try:
        file.fileno()
    except OSError:  # a file in memory, or in a store
        yield file
        return
    with pa.OSFile(os.fspath(file.name), "wb") as output:
        yield output


def write_in_pieces(file: BinaryIO | FileIO, content: Any) -> int:
    """Write some bytes to an open file of this machine; return how many."""
    rest = memoryview(content).cast("B")
    size = len(rest)
    while rest:
        rest = rest[file.write(rest[:_PIECE]) :]
    return size


class ScratchFile:
    """A new file of this machine, for bytes that are read again soon, by this process or others.

    Arrow takes it for a file of Python's. It is closed at the end of a block, or by `close`.

    Parameters
    ----------
    path : Path
        Nothing is there yet.
    write_out : bool
        Let the kernel begin to write the file to disk at once, instead of when it has too much of such.
    """

    def __init__(self, path: Path, *, write_out: bool = False) -> None:
        self._file = path.open("xb", buffering=0)
        self._write_out, self._since = write_out, 0

    def __enter__(self) -> ScratchFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, content: Any) -> int:
        """Write some bytes at the place that the file is at; return how many."""
        size = write_in_pieces(self._file, content)
        self._since += size
        if self._write_out and self._since >= _WRITTEN_OUT:
            start_write_out(self._file.fileno())
            self._since = 0
        return size

    def seek(self, place: int) -> int:
        return self._file.seek(place)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Everything is written at once."""

    def close(self) -> None:
        self._file.close()


def start_write_out(descriptor: int) -> None:
    """Let the kernel begin to write what an open file holds, and go on without waiting for it."""
    if sys.platform == "linux":
        whole = ctypes.c_int64(0)
        _libc().sync_file_range(descriptor, whole, whole, _SYNC_FILE_RANGE_WRITE)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def write_out(file: BinaryIO | pa.NativeFile) -> None:
    """Flush a file of this machine, and `start_write_out`, so that a sync finds little to do."""
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory, or in a store
        return
    file.flush()
    start_write_out(descriptor)
