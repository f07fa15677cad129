"""A Parquet file that rows are written to as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.storage.write_out import write_out


class GrowingParquet:
    """A Parquet file that gets row groups of its own for all rows that are added at once.

    Parameters
    ----------
    file : file object
        Open for writing; the caller closes it.
    begin : callable
        Makes the writer, of the first rows and the file.

    Attributes
    ----------
    footer : pyarrow.parquet.FileMetaData
        Once it has ended.
    bytes : int
        Its size, once it has ended.
    """

    footer: pq.FileMetaData
    bytes: int

    def __init__(
        self,
        file: BinaryIO | pa.NativeFile,
        begin: Callable[[pa.Table, BinaryIO | pa.NativeFile], pq.ParquetWriter],
    ) -> None:
        self._file = file
        self._begin = begin
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table, row_group_rows: int) -> None:
        """Write rows, at most so many in a row group.

        The kernel begins to write to disk what was added before; what comes last is synced soon, if at all.
        """
        if self._writer is None:
            self._writer = self._begin(rows, self._file)
        else:
            write_out(self._file)
        self._writer.write_table(rows, row_group_size=row_group_rows)

    def end(self) -> None:
        """Write the footer; there must be rows."""
        assert self._writer is not None, "a file without rows"
        self._writer.close()
        self.footer = self._writer.writer.metadata
        self.bytes = self._file.tell()

    def close(self) -> None:
        """Write no more."""
        if self._writer is not None:
            self._writer.close()
