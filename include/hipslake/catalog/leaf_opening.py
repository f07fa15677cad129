"""Opening leaf files, and the errors of reading them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import StorageError, VerificationError
from hipslake.sphere.pixels import WHOLE_SKY
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile

_AT_ONCE = 8 << 20  # bytes, which take about as long as another answer


@contextmanager
def read_errors(storage: Storage, path: str) -> Iterator[None]:
    """Turn errors of pyarrow into `VerificationError`, or `StorageError` where a retry may help."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        missing = isinstance(error, FileNotFoundError)
        if isinstance(error, OSError) and error.errno is not None and not missing:
            raise StorageError(f"{storage.uri(path)}: {error}; try again") from error
        what = "is missing" if missing else f"cannot be read ({error})"
        raise VerificationError(
            f"{storage.uri(path)} {what}; restore it or ingest again: Catalog.verify() tells more"
        ) from error


@contextmanager
def leaf_file(
    storage: Storage, path: str, size: int | None = None, *, whole: bool = False
) -> Iterator[pq.ParquetFile]:
    """Open a leaf file. Errors of pyarrow in the block become ours.

    Parameters
    ----------
    storage : Storage
    path : str
    size : int, optional
        In bytes, where it is known.
    whole : bool
        Most of it will be read: of a store, a file of up to 8 MiB is fetched by one request.
    """
    with (
        read_errors(storage, path),
        _opened(storage, path, size, whole) as source,
        pq.ParquetFile(source, pre_buffer=not storage.is_local) as file,  # few large requests to a store
    ):
        yield file


def _opened(storage: Storage, path: str, size: int | None, whole: bool) -> Any:
    if storage.is_local or not whole or size is None or size > _AT_ONCE:
        return storage.arrow_file(path, size)
    held = HeldFile(storage, path, size)
    held.fetch(0, size)
    return held.arrow()


def range_of(chunks: ColumnChunks, group: int, column: int = 0) -> tuple[int, int]:
    """The order-29 pixels, [start, stop), of a row group, by what the footer says of `_healpix_29`.

    Parameters
    ----------
    chunks : ColumnChunks
    group : int
    column : int
        Where `_healpix_29` stands in the file.

    Raises
    ------
    FooterError
        The footer contradicts itself.
    """
    statistics = chunks(group, column).statistics
    if statistics is None or not statistics.has_min_max:
        return WHOLE_SKY
    return statistics.min, statistics.max + 1
