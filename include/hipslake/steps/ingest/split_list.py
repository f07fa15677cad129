"""The splits of a source as columns: there may be hundreds of thousands, and every task is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.sources.source_file import SeekPoint, SourceFile, Split

COLUMNS = pa.schema(
    [
        ("file", pa.int64()),
        ("uri", pa.string()),
        ("size", pa.int64()),
        ("stamp", pa.string()),
        ("place", pa.string()),
        ("unit", pa.string()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("point_bits", pa.int64()),
        ("point_content", pa.int64()),
        ("point_window", pa.binary()),
    ]
)

_OF_FILE = ("size", "stamp", "uri", "place")
_TASKS_PER_CORE = 5
_TASKS_PER_CORE_OF_STORES = 2  # of which each waits for its first split, and reads the others ahead
_LAST = 3  # that each of the last tasks of the cores is divided into
_TASK_BYTES = 4 << 30  # that a task reads, unless there are more tasks than cores anyway
_OPENING_BYTES = 1 << 20  # that are read in about the time that opening a file takes


@dataclass(frozen=True)
class SplitList:
    """Splits in source order.

    Attributes
    ----------
    table : pyarrow.Table
        As `COLUMNS`, a row per split, in one piece.
    """

    table: pa.Table

    @classmethod
    def of(cls, splits: Iterable[Split]) -> SplitList:
        """The list of some splits."""
        listed = list(splits)
        files = [split.file for split in listed]
        columns = {
            "file": [file.ordinal for file in files],
            **{name: [getattr(file, name) for file in files] for name in _OF_FILE},
            **{name: [getattr(split, name) for split in listed] for name in ("unit", "start", "stop")},
            **{
                f"point_{name}": [split.point and getattr(split.point, name) for split in listed]
                for name in SeekPoint._fields
            },
        }
        arrays = [pa.array(columns[field.name], field.type) for field in COLUMNS]
        return cls(pa.Table.from_arrays(arrays, schema=COLUMNS))

    @classmethod
    def from_table(cls, table: pa.Table) -> SplitList:
        """The list that a table holds, among other columns."""
        for field in COLUMNS:
            if field.name not in table.column_names:  # of an older library
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        return cls(table.select(COLUMNS.names).cast(COLUMNS).combine_chunks())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, number: int) -> Split:
        return next(self.between(number, number + 1))

    def between(self, first: int, last: int) -> Iterator[Split]:
        """The splits [first, last)."""
        rows = self.table.slice(first, last - first)
        listed = zip(*(rows[name].to_pylist() for name in COLUMNS.names), strict=True)
        for number, (ordinal, uri, size, stamp, place, unit, start, stop, *at) in enumerate(listed, first):
            file = SourceFile(ordinal=ordinal, uri=uri, size=size, stamp=stamp, place=place)
            yield Split(number, file, unit, start, stop, SeekPoint(*at) if at[0] is not None else None)

    def uri_of(self, number: int) -> str:
        """The URI of the file that a split is of."""
        return str(self.table["uri"][number].as_py())

    @property
    def file_ordinals(self) -> NDArray[np.int64]:
        """The place of each split's file in the source order, int64[n]."""
        return np.asarray(self.table["file"].to_numpy())

    @property
    def file_bytes(self) -> int:
        """The stored size of the files, in bytes."""
        _, first = np.unique(self.file_ordinals, return_index=True)
        return int(self.table["size"].to_numpy()[first].sum())

    def runs(self, cores: int, task_bytes: int = _TASK_BYTES) -> tuple[tuple[int, int], ...]:
        """Divide the splits among tasks: per task the range that it reads, [first, last).

        Some tasks per core, so that a retry is small; few, since each costs tens of milliseconds. They read
        about as many bytes each, where opening a file counts as a megabyte. Only the last ones read less, so
        that all cores end together.

        Parameters
        ----------
        cores : int
        task_bytes : int
            That a task reads, unless there are more tasks than cores anyway.
        """
        if not len(self):
            return ()
        files = self.file_ordinals
        sizes = self.table["size"].to_numpy() / np.bincount(files)[files]
        upto = np.cumsum(sizes + _OPENING_BYTES)
        is_near = next(self.between(0, 1)).file.is_local
        per_core = _TASKS_PER_CORE if is_near else _TASKS_PER_CORE_OF_STORES
        tasks = min(len(self), max(per_core * cores, int(upto[-1] // task_bytes)))
        shares = upto[-1] * np.arange(1, tasks) / tasks
        if is_near and tasks >= 2 * cores:
            last = np.arange(_LAST * (tasks - cores) + 1, _LAST * tasks)
            shares = np.union1d(shares, upto[-1] * last / (_LAST * tasks))
        cuts = np.searchsorted(upto, shares * (1 + 1e-9), side="right")  # as many as a share has room for
        return tuple(pairwise(np.unique([0, *cuts.tolist(), len(self)]).tolist()))
