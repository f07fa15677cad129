"""When the kernel writes new files to disk: Linux only, without effect on other systems."""

from __future__ import annotations

import ctypes
import math
import sys
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


def start_write_out(descriptor: int) -> None:
    """Let the kernel begin to write what an open file holds, and go on without waiting for it."""
    if sys.platform == "linux":
        whole = ctypes.c_int64(0)
        ctypes.CDLL(None).sync_file_range(descriptor, whole, whole, _SYNC_FILE_RANGE_WRITE)


def write_out(file: BinaryIO | pa.NativeFile) -> None:
    """Flush a file of this machine, and `start_write_out`, so that a sync finds little to do."""
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory, or in a store
        return
    file.flush()
    start_write_out(descriptor)
