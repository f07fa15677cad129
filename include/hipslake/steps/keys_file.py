"""A file of keys that the form of a run names: Parquet or CSV."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from hipslake.errors import CorruptFileError, SourceNotFoundError, SpecError
from hipslake.storage.folder import Storage

_MOST_BYTES = 256 << 20


def keys_of(keys: Any, keys_file: str | None) -> Any:
    """The keys of a form, or those of its file; errors are those of `keys_in`."""
    if keys_file is None:
        return keys
    if keys is not None:
        raise SpecError("keys and keys_file: give one of them")
    return keys_in(keys_file)


def keys_in(uri: str) -> pa.Table:
    """The columns of a file of keys, which is Parquet or CSV.

    Raises
    ------
    SpecError
        The address is none of a file, or it is too large.
    SourceNotFoundError
        There is no such file.
    CorruptFileError
        It is neither Parquet nor CSV.
    """
    try:
        storage, name = Storage.of_file(uri)
        data = storage.read_plain(name, _MOST_BYTES)
    except ValueError as error:
        raise SpecError(f"keys_file: {error}") from None
    except FileNotFoundError:
        raise SourceNotFoundError(f"keys_file: {uri} does not exist") from None
    try:
        source = pa.BufferReader(data)
        return pq.read_table(source) if data[:4] == b"PAR1" else csv.read_csv(source)
    except (pa.ArrowException, OSError, ValueError):  # what they say may quote the file
        raise CorruptFileError(f"keys_file: {uri} is neither Parquet nor CSV with a line of names") from None
