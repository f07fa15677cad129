"""Which new file each row of a group goes to, where rows are not clustered along a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.file_placement import NOISE_BITS, noise_of
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.tables.partition_values import PartitionValues, value_columns
from hipslake.tables.row_order import order_of

Int64s = NDArray[np.int64]
_FILE_SHIFT = 40  # of `row_numbers`
_ROW_MASK = (1 << _FILE_SHIFT) - 1


class RowPlacement(Protocol):
    """Places rows into the files of a group."""

    def place(
        self, rows: pa.RecordBatch, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None]:
        """The file of each row, from 0 on, and its key on a curve where there is one; int64[n], uint64[n].

        Parameters
        ----------
        rows : pyarrow.RecordBatch
        numbers : int64[n]
            As `hipslake.clustering.file_placement.row_numbers` gives them, of the parts of the files.
        """


@dataclass(frozen=True)
class SequentialPlacement:
    """Rows go to files in the order in which they are read, in about equal numbers of bytes.

    Attributes
    ----------
    parts : int64[p]
        Numbers of the parts that are read, ascending.
    starts : float64[p]
        Bytes before each.
    row_bytes : float64[p]
        Bytes of a row of each.
    total : float
        Bytes of all.
    num_files : int
    """

    parts: Int64s
    starts: NDArray[np.float64]
    row_bytes: NDArray[np.float64]
    total: float
    num_files: int

    def place(self, rows: pa.RecordBatch, numbers: Int64s) -> tuple[Int64s, None]:
        """As `RowPlacement`."""
        at = np.searchsorted(self.parts, numbers >> _FILE_SHIFT)
        reached = self.starts[at] + (numbers & _ROW_MASK) * self.row_bytes[at]
        files = (reached * (self.num_files / max(self.total, 1.0))).astype(np.int64)
        return np.minimum(files, self.num_files - 1), None


@dataclass(frozen=True)
class SortedPlacement:
    """Files follow each other in a sort order; rows that are equal in it may go to several files.

    Attributes
    ----------
    fields : tuple of SortField
    ends : pyarrow.Table
        The columns of the fields, of the first row of each file but the first.
    noise : int64[ends]
        Of these rows.
    seed : int
    """

    fields: tuple[SortField, ...]
    ends: pa.Table
    noise: Int64s
    seed: int

    @classmethod
    def of_sample(
        cls, sample: pa.Table, fields: tuple[SortField, ...], num_files: int, seed: int
    ) -> SortedPlacement:
        """Cut a sample into files of equal numbers of rows."""
        noise = noise_of(np.arange(sample.num_rows), seed)
        order = order_of(sample, fields, noise)
        size = len(order)
        first = order[np.arange(1, num_files) * size // num_files] if size else order
        return cls(fields, sample.take(pa.array(first)).combine_chunks(), noise[first], seed)

    def place(self, rows: pa.RecordBatch, numbers: Int64s) -> tuple[Int64s, None]:
        """As `RowPlacement`: the file of a row is how many of the ends lie before it, or are equal to it."""
        ends = self.ends.num_rows
        some = pa.Table.from_batches([rows.select(self.ends.column_names)])
        both = pa.concat_tables([self.ends, some.cast(self.ends.schema)])
        order = order_of(both, self.fields, np.concatenate([self.noise, noise_of(numbers, self.seed)]))
        files = np.empty(len(order), np.int64)
        files[order] = np.cumsum(order < ends)
        return files[ends:], None


@dataclass(frozen=True)
class PartitionPlacement:
    """Rows go to the partitions that a table makes now, each of which has one file or more.

    Attributes
    ----------
    fields : tuple of PartitionField
        Of the table's columns.
    values : PartitionValues
        All that the rows have.
    files : int64[values]
        Files of each value.
    seed : int
    """

    fields: tuple[PartitionField, ...]
    values: PartitionValues
    files: Int64s
    seed: int

    def place(self, rows: pa.RecordBatch, numbers: Int64s) -> tuple[Int64s, None]:
        """As `RowPlacement`."""
        value = self.values.numbers(value_columns(self.fields, rows), rows.num_rows)
        within = noise_of(numbers, self.seed) * self.files[value] >> NOISE_BITS
        return (np.cumsum(self.files) - self.files)[value] + within, None

    @property
    def partitions(self) -> list[int]:
        """The number of the value of each file."""
        found: list[int] = np.repeat(np.arange(len(self.files)), self.files).tolist()
        return found
