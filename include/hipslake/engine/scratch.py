"""Where the blocks of an exchange wait, if they need not pass through Spark's shuffle."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from hipslake.engine.model import Scratch
from hipslake.storage.folder import Storage

_GROWTH = 4  # blocks are not encoded as data files are


@contextmanager
def blocks_in_write(root: Storage, path: str, size: float) -> Iterator[Scratch]:
    """A place for blocks: in the folder of a write, where it lies on disks of this machine.

    Parameters
    ----------
    root : Storage
        What the write goes to.
    path : str
        For blocks, below the folder of the write.
    size : float
        Bytes of all blocks together, about.
    """
    # What a killed job leaves goes with the folder, at the retry or with the sweep of orphans.
    # A folder of its own for each attempt: one that was given up may still be running.
    scratch = blocks_in_folder(root, f"{path}/{secrets.token_hex(4)}", size)
    yield scratch
    if scratch.folder is not None:
        with suppress(OSError):  # another attempt's blocks lie there
            scratch.folder.parent.rmdir()


def blocks_in_folder(folder: Storage, name: str, size: float) -> Scratch:
    """A place for blocks below a folder that is swept with all it holds; of a store the engine's own.

    Parameters
    ----------
    folder : Storage
    name : str
        Of the exchange.
    size : float
        Bytes of all blocks together, about.
    """
    return Scratch(Path(folder.uri(name)) if folder.is_local else None, size)


def block_bytes(schema: pa.Schema, rows: int, encoded: float) -> float:
    """How many bytes rows take in blocks, about.

    Parameters
    ----------
    schema : pyarrow.Schema
        If all columns are of fixed width, the answer is exact, but for nulls.
    rows : int
    encoded : float
        Bytes that they take in data files.
    """
    try:
        return float(rows * sum(field.type.bit_width for field in schema) / 8)
    except ValueError:  # a type without a width
        return _GROWTH * encoded
