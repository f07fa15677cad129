"""The table of splits in a run folder: what each holds, and where its rows stand in the source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.sources.source_file import SourceFile
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class SplitTable:
    """Splits in source order, with the rows counted in them.

    Attributes
    ----------
    splits : SplitList
    rows, rejected : int64[n]
        Rows in each split, and those of them that are not on the sky.
    """

    splits: SplitList
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
        files = self.splits.file_ordinals
        first_of_file = np.searchsorted(files, files)  # splits of a file stand together
        return starts - starts[first_of_file] if len(starts) else starts

    def rows_per_file(self, files: Sequence[SourceFile]) -> NDArray[np.int64]:
        """Rows in each file; 0 for a file that gave no split, since it is empty."""
        ordinals = [file.ordinal for file in files]
        rows = np.zeros(max(ordinals, default=-1) + 1, np.int64)
        np.add.at(rows, self.splits.file_ordinals, self.rows)
        return rows[ordinals]

    def write(self, storage: Storage, path: str) -> None:
        """Store the table as Parquet."""
        table = self.splits.table
        counted = {"rows": self.rows, "rejected": self.rejected, "row_start": self.row_starts}
        for name, numbers in counted.items():
            table = table.append_column(name, [numbers])
        write_table(storage, path, table)

    @classmethod
    def read(cls, storage: Storage, path: str) -> SplitTable:
        """The table stored at a path."""
        table = read_table(storage, path)
        return cls(SplitList.from_table(table), table["rows"].to_numpy(), table["rejected"].to_numpy())
