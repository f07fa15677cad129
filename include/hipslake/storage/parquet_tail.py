"""The footer of a Parquet file in a store, by one request for the end of the file."""

from __future__ import annotations

import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile
from hipslake.storage.parquet_footer import footer_file

_TAIL_BYTES = 64 << 10
_END = 8  # bytes: the length of the footer, and the magic number
_MAGIC = b"PAR1"
_KEPT = 1024
_SECONDS = 60.0


class ParquetTail(NamedTuple):
    """What the end of a Parquet file tells.

    Attributes
    ----------
    footer : pyarrow.parquet.FileMetaData
    size : int
        Bytes of the file; where stores are not asked for it, all but what lies between the data and the
        footer, which is its page indices.
    """

    footer: pq.FileMetaData
    size: int


_kept: OrderedDict[tuple[str, str], tuple[float, ParquetTail]] = OrderedDict()
_lock = threading.Lock()


def parquet_tail(storage: Storage, path: str) -> ParquetTail:
    """The footer and the size of a file; kept for a minute, as who looks at a footer goes on to the rows.

    Raises
    ------
    pyarrow.ArrowInvalid
        The file is not Parquet, or is truncated.
    FileNotFoundError
    """
    key = (storage.root, path)
    with _lock:
        found = _kept.get(key)
        if found is not None and time.monotonic() - found[0] < _SECONDS:
            return found[1]
    tail = _local_tail(storage, path) if storage.is_local else _tail(storage, path)
    with _lock:
        _kept[key] = time.monotonic(), tail
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return tail


def forget_tails() -> None:
    """Forget what was kept."""
    with _lock:
        _kept.clear()


@contextmanager
def opened_by_tail(storage: Storage, path: str, held: HeldFile | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose footer is known, or is read by one request; errors as of `parquet_tail`.

    `held` is the file if something of it was fetched before.
    """
    tail = parquet_tail(storage, path)
    with (
        storage.arrow_file(path, tail.size) if held is None else held.arrow() as source,
        pq.ParquetFile(source, metadata=tail.footer, pre_buffer=not storage.is_local) as file,
    ):
        yield file


def _local_tail(storage: Storage, path: str) -> ParquetTail:
    with storage.arrow_file(path) as file:
        return ParquetTail(pq.read_metadata(file), file.size())


def _tail(storage: Storage, path: str) -> ParquetTail:
    data = storage.read_tail(path, _TAIL_BYTES)
    length = _footer_length(storage, path, data)
    if length + _END > len(data):
        data = storage.read_tail(path, length + _END)
        if _footer_length(storage, path, data) != length or len(data) < length + _END:
            raise pa.ArrowInvalid("the file was replaced while its footer was read, or is truncated")
    footer = pq.read_metadata(footer_file(data[-length - _END : -_END]))
    return ParquetTail(footer, _end_of_data(footer) + length + _END)


def _footer_length(storage: Storage, path: str, data: bytes) -> int:
    if len(data) < _END + len(_MAGIC) or data[-4:] != _MAGIC:
        raise pa.ArrowInvalid(f"{storage.uri(path)} has no footer: it is not Parquet, or is truncated")
    return int(struct.unpack("<I", data[-_END:-4])[0])


def _end_of_data(footer: pq.FileMetaData) -> int:
    end, chunks = len(_MAGIC), ColumnChunks(footer)
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            chunk = chunks(group, column)
            first = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                first = min(first, chunk.dictionary_page_offset)
            end = max(end, first + chunk.total_compressed_size)
    return end
