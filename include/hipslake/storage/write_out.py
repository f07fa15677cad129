"""How new files of this machine are written; on Linux, also when the kernel writes them to disk."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from hipslake.storage.available_memory import machine_memory

_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


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
