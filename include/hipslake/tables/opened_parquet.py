"""Parquet files opened by their path, errors told as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq

from hipslake.errors import InputError
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import parquet_failures

_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 64 << 20


@contextmanager
def opened_parquet(
    path: str, size: int | None = None, **options: Any
) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """A file, and its reader.

    Parameters
    ----------
    path : str
    size : int, optional
        In bytes, where it is known.
    **options
        Of `pyarrow.parquet.ParquetFile`.

    Raises
    ------
    CorruptFileError
        It is no Parquet file, or damaged, where it is read in the block.
    InputError
        It is gone, encrypted, or holds what pyarrow does not read.
    """
    storage, name = Storage.of_file(path)
    try:
        with (
            parquet_failures(path),
            storage.arrow_file(name, size) as opened,
            pq.ParquetFile(opened, **options) as parquet,
        ):
            yield opened, parquet
    except FileNotFoundError:
        raise InputError(f"{path} was deleted after it was listed; start a new run") from None


def batch_rows(metadata: pq.FileMetaData) -> int:
    """How many rows of a file are read at once, so that wide ones take no more memory than others."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES * max(metadata.num_rows, 1) // max(size, 1))))
