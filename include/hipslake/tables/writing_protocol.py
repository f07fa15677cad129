"""What tasks that write files ask of a table format: writers of rows, and of deletes by position."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.tables.new_files import NewFile


class OpenDataFile(Protocol):
    """A data file of one partition that rows are written to as they come."""

    def write(self, rows: pa.Table) -> None:
        """Write rows as row groups of their own."""

    def new_file(self) -> NewFile:
        """What it has become, once it was closed."""


class RowWriter(Protocol):
    """Writes data files of a write. It travels to tasks, so it is small."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that rows must have."""

    def row_bytes(self, rows: pa.Table) -> float:
        """The size of a row in a data file, found by encoding some."""

    def write_file(self, rows: pa.Table, partition: tuple[Any, ...], name: str) -> NewFile:
        """Write a file of rows of one partition. Written again under its name, it is replaced."""

    @property
    def takes_rows_as_they_come(self) -> bool:
        """Whether `opened` serves, since rows of files are not sorted, nor counted before."""

    def opened(self, partition: tuple[Any, ...], name: str) -> AbstractContextManager[OpenDataFile]:
        """Open a file for rows that come by and by; it has its place once the block has ended."""

    def unsorted(self, sort_order: int | None) -> RowWriter:
        """The same, for rows that are in an order of the table already (`LiveFile.sort_order`)."""


class PositionWriter(Protocol):
    """Writes files that take rows out of data files, by their positions. It travels, so it is small."""

    @property
    def by_file(self) -> bool:
        """Whether each data file is to have deletes of its own, and not each scope."""

    def write_deletes(self, gone: Iterable[tuple[str, NDArray[np.int64]]], name: str) -> NewFile:
        """Write a file; written again under its name, it is replaced.

        Parameters
        ----------
        gone : iterable of (str, int64[n])
            Paths of data files of one scope, ascending by their UTF-8 bytes, and of each the positions of
            rows in it: ascending, each once, and at least one.
        name : str
        """
