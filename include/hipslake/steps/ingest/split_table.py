"""The table of splits in a run folder: what each holds, and where its rows stand in the source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.sources.source_file import SourceFile, Split
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage

_COLUMNS = ("file", "uri", "size", "stamp", "place", "unit", "start", "stop")


@dataclass(frozen=True)
class SplitTable:
    """Splits in source order, with the rows counted in them.

    Attributes
    ----------
    splits : tuple of Split
    rows, rejected : int64[n]
        Rows in each split, and those of them that are not on the sky.
    """

    splits: tuple[Split, ...]
    rows: NDArray[np.int64]
    rejected: NDArray[np.int64]

    @property
    def row_starts(self) -> NDArray[np.int64]:
        """Number of each split's first row in the source order, int64[n]."""
        return np.cumsum(self.rows) - self.rows

    @property
    def rows_in_file_before(self) -> NDArray[np.int64]:
        """Number of each split's first row in its file, int64[n]."""
        starts = self.row_starts
        files = np.array([split.file.ordinal for split in self.splits], np.int64)
        first_of_file = np.searchsorted(files, files)  # splits of a file stand together
        return starts - starts[first_of_file] if len(starts) else starts

    def rows_per_file(self, files: Sequence[SourceFile]) -> NDArray[np.int64]:
        """Rows in each file; 0 for a file that gave no split, since it is empty."""
        rows = np.zeros(max((file.ordinal for file in files), default=-1) + 1, np.int64)
        np.add.at(rows, [split.file.ordinal for split in self.splits], self.rows)
        return rows[[file.ordinal for file in files]]

    def write(self, storage: Storage, path: str) -> None:
        """Store the table as Parquet."""
        files = [split.file for split in self.splits]
        table = pa.table(
            {
                "file": [file.ordinal for file in files],
                **{name: [getattr(file, name) for file in files] for name in ("uri", "size", "stamp")},
                "place": pa.array([file.place for file in files], pa.string()),
                **{name: [getattr(each, name) for each in self.splits] for name in ("unit", "start", "stop")},
                "rows": self.rows,
                "rejected": self.rejected,
                "row_start": self.row_starts,
            }
        )
        write_table(storage, path, table)

    @classmethod
    def read(cls, storage: Storage, path: str) -> SplitTable:
        """The table stored at a path."""
        table = read_table(storage, path)
        if "place" not in table.column_names:  # of an older library
            table = table.append_column("place", pa.nulls(table.num_rows, pa.string()))
        listed = zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True)
        splits = tuple(
            Split(
                ordinal=at,
                file=SourceFile(ordinal=file, uri=uri, size=size, stamp=stamp, place=place),
                unit=unit,
                start=start,
                stop=stop,
            )
            for at, (file, uri, size, stamp, place, unit, start, stop) in enumerate(listed)
        )
        return cls(splits, table["rows"].to_numpy(), table["rejected"].to_numpy())
