"""Rows that delete files take out of a data file: by their positions, or by their values.

A data file stays as it was written. A position delete names it by its path, and rows by their numbers. An
equality delete has values of some columns; rows with these values are deleted, and a null is equal to a null.
Columns are found by field id, so that renamed ones, wider ones and dropped ones come out right. Which delete
files apply to a data file, its table says: `hipslake.tables.stored_files.StoredFile.deletes`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.tables.row_keys import joint_codes

_CACHED_BYTES = 256 << 20
PATH_FIELD = pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"})
POSITION_FIELD = pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"})
"""The columns of a position delete, with the ids that Iceberg reserves for them."""

Positions = NDArray[np.int64]
Reading = Callable[[str, pa.Schema], Iterator[pa.RecordBatch]]
"""Takes the path of a delete file and the columns that are wanted, with their ids."""


class ValueColumn(NamedTuple):
    """A column by whose values rows are deleted.

    Attributes
    ----------
    number : int
        Its field id, which tells it from others of the same name that were dropped or came later.
    field : pyarrow.Field
        As the table has it now.
    """

    number: int
    field: pa.Field


@dataclass(frozen=True)
class DeleteFile:
    """A file that takes rows out of data files.

    Attributes
    ----------
    path : str
    columns : tuple of ValueColumn
        Whose values tell which rows; none: positions do.
    """

    path: str
    columns: tuple[ValueColumn, ...] = ()

    @property
    def by_position(self) -> bool:
        """Whether it names rows by their positions."""
        return not self.columns

    def positions_in(self, data_file: str, read: Reading) -> Positions:
        """The positions in a data file that it names, ascending."""
        return _positions(self.path, read).get(data_file, _NONE)


class DeletesOfFile:
    """The rows of one data file that are deleted.

    Parameters
    ----------
    data_file : str
        Its path, as the table names it.
    deletes : sequence of DeleteFile
        All that apply to it.
    read : Reading

    Attributes
    ----------
    columns : tuple of ValueColumn
        That `stay` needs, besides positions.
    """

    def __init__(self, data_file: str, deletes: Sequence[DeleteFile], read: Reading) -> None:
        self._positions = _positions_of(data_file, deletes, read)
        by_columns: dict[tuple[ValueColumn, ...], list[str]] = {}
        for each in deletes:
            if each.columns:
                by_columns.setdefault(each.columns, []).append(each.path)
        self.columns = tuple(dict.fromkeys(column for columns in by_columns for column in columns))
        self._values = [
            (
                [self.columns.index(column) for column in columns],
                pa.concat_tables([_values(path, columns, read) for path in paths]),
            )
            for columns, paths in by_columns.items()
        ]

    def stay(self, first: int, rows: int, values: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Whether each of some rows stays.

        Parameters
        ----------
        first : int
            The position of the first one in its file.
        rows : int
        values : sequence of pyarrow.Array
            Of `columns`.
        """
        found = np.ones(rows, bool)
        start, stop = np.searchsorted(self._positions, [first, first + rows]).tolist()
        found[self._positions[start:stop] - first] = False
        for numbers, gone in self._values:
            found &= ~rows_among([plain_values(values[at]) for at in numbers], gone)
        return found


_NONE = np.empty(0, np.int64)


def rows_among(values: Sequence[pa.Array], gone: pa.Table) -> NDArray[np.bool_]:
    """Whether each row stands among others; a null is equal to a null, and to nothing else.

    Parameters
    ----------
    values : sequence of pyarrow.Array
        The columns of rows, as `plain_values` gives them.
    gone : pyarrow.Table
        Such columns of the others, named by their numbers.

    Returns
    -------
    bool[n]
    """
    may = np.ones(len(values[0]), bool)
    for column, others in zip(values, gone.columns, strict=True):
        may &= pc.is_in(column, value_set=others).to_numpy(zero_copy_only=False)
    if len(values) == 1 or not may.any():
        return may
    rows = pa.table(dict(zip(gone.column_names, values, strict=True))).filter(pa.array(may))
    some, others = joint_codes(rows, gone, gone.column_names)
    may[may] = np.isin(some, others)
    return may


def plain_values(column: pa.Array) -> pa.Array:
    """Values whose bits tell them apart: of real numbers NaN is NaN, and -0.0 is not 0.0, as Iceberg says."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not pa.types.is_floating(column.type):
        return column
    whole = {2: np.int16, 4: np.int32, 8: np.int64}[column.type.bit_width // 8]
    null = column.is_null().to_numpy(zero_copy_only=False)
    numbers = np.array(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers.view(whole), mask=null)


_cache: LRUCache[object, tuple[int, object]] = LRUCache(_CACHED_BYTES, getsizeof=lambda found: found[0])
_lock = threading.Lock()


def _positions(path: str, read: Reading) -> dict[str, Positions]:
    """The positions in a position delete file by data file, in whatever order they stand there."""
    with _lock:
        known = _cache.get(path)
    if known is None:
        found = _read_positions(path, read)
        size = 1024 + sum(len(name) + at.nbytes for name, at in found.items())
        known = size, found
        _remember(path, known)
    return known[1]  # type: ignore[return-value]


def _read_positions(path: str, read: Reading) -> dict[str, Positions]:
    parts: dict[str, list[Positions]] = {}
    for batch in read(path, pa.schema([PATH_FIELD, POSITION_FIELD])):
        if not batch.num_rows:
            continue
        if batch.column(0).null_count or batch.column(1).null_count:
            raise CorruptFileError(
                f"{path}: a position delete has no path or no position; have the engine that wrote it merge "
                "its deletes anew"
            )
        words = batch.column(0).dictionary_encode()
        numbers, at = words.indices.to_numpy(), batch.column(1).to_numpy()
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(words.dictionary)))
        pieces = np.split(at[order], ends[:-1])
        for name, some in zip(words.dictionary.to_pylist(), pieces, strict=True):
            parts.setdefault(name, []).append(some)
    return {name: np.unique(np.concatenate(some)) for name, some in parts.items()}


def _positions_of(data_file: str, deletes: Sequence[DeleteFile], read: Reading) -> Positions:
    """The positions of a data file that delete files name, ascending and each once."""
    parts = [each.positions_in(data_file, read) for each in deletes if each.by_position]
    return np.unique(np.concatenate([_NONE, *parts]))


def count_by_position(data_file: str, deletes: Sequence[DeleteFile], read: Reading) -> int:
    """How many rows of a data file are deleted by their positions."""
    return len(_positions_of(data_file, deletes, read))


def _values(path: str, columns: tuple[ValueColumn, ...], read: Reading) -> pa.Table:
    """The rows of an equality delete file, by numbers as names, since two columns may share a name."""
    key = (path, columns)
    with _lock:
        known = _cache.get(key)
    if known is None:
        batches = list(read(path, pa.schema([column.field for column in columns])))
        plain = [pa.array([], column.field.type) for column in columns]
        arrays = [
            pa.chunked_array([plain_values(empty), *(plain_values(batch.column(at)) for batch in batches)])
            for at, empty in enumerate(plain)
        ]
        table = pa.table(arrays, names=[str(at) for at in range(len(columns))])
        if table.num_rows:
            table = table.group_by(table.column_names).aggregate([])
        known = 1024 + table.nbytes, table
        _remember(key, known)
    return known[1]  # type: ignore[return-value]


def _remember(key: object, known: tuple[int, object]) -> None:
    if known[0] <= _CACHED_BYTES // 4:
        with _lock:
            _cache[key] = known


def position_paths(path: str, read: Reading) -> set[str]:
    """The data files that a position delete file names."""
    return set(_positions(path, read))
