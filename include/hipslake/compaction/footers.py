"""What the footers of Parquet files tell: rows, and the bounds of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.clustering.ranges import RangeBounds
from hipslake.clustering.skipping import FileBoxes
from hipslake.errors import CorruptFileError
from hipslake.storage import Storage
from hipslake.tables.old_rows import names_in_file


class Bounds(NamedTuple):
    """The bounds of a column in a file. Both are None if they are not known, or there is no value."""

    low: Any
    high: Any
    empty: bool  # there is no value, only nulls


class Footer(NamedTuple):
    """What is needed of a file's footer."""

    schema: pa.Schema
    rows: int
    bytes: int
    metadata: pq.FileMetaData

    def bounds(self, column: str, schema: pa.Schema) -> Bounds:
        """The bounds of a plain column of a table over all row groups; it may have another name in the file.

        Where the file has field ids and lacks the column, it was added later: there are only nulls.
        """
        (name,) = names_in_file(self.schema, schema, [schema.field(column)])
        if name is None:
            return Bounds(None, None, True)
        at = [n for n in range(self.metadata.num_columns) if self.metadata.schema.column(n).path == name]
        found: list[tuple[Any, Any]] = []
        nulls = 0
        for group in range(self.metadata.num_row_groups):
            statistics = self.metadata.row_group(group).column(at[0]).statistics if at else None
            if statistics is None:
                return Bounds(None, None, False)
            nulls += statistics.null_count if statistics.has_null_count else 0
            if statistics.has_min_max:
                found.append((statistics.min, statistics.max))
            elif statistics.num_values:  # values without bounds: only NaN, or bytes that are too long
                return Bounds(None, None, False)
        if not found:
            return Bounds(None, None, nulls == self.rows)
        return Bounds(min(low for low, _ in found), max(high for _, high in found), False)


def read_footer(path: str) -> Footer:
    """Read the footer of a file.

    Raises
    ------
    CorruptFileError
        It is no Parquet file, or damaged.
    """
    storage, name = Storage.of_file(path)
    size = storage.entry(name).size
    try:
        with storage.arrow_file(name, size) as opened, pq.ParquetFile(opened) as parquet:
            return Footer(parquet.schema_arrow, parquet.metadata.num_rows, size, parquet.metadata)
    except pa.ArrowException as error:
        raise CorruptFileError(f"{path} is damaged, or is no Parquet file: {error}; replace it") from error


def boxes_of(footers: Sequence[Footer], ranges: RangeBounds, schema: pa.Schema) -> FileBoxes:
    """The bounds of files in shares of the rows, by the ranges of the columns.

    A column of the table (`schema`) without known bounds spans everything, so that every query opens the
    file, as a reader has to.
    """
    low = np.empty((len(footers), len(ranges.columns)))
    high = np.empty_like(low)
    for at, column in enumerate(ranges.columns):
        kind = schema.field(column.name).type
        found = [footer.bounds(column.name, schema) for footer in footers]
        unknown = np.array([bounds.low is None for bounds in found], bool)
        empty = np.array([bounds.empty for bounds in found], bool)
        for into, values, step in (
            (low, [bounds.low for bounds in found], 0),
            (high, [bounds.high for bounds in found], 1),
        ):
            ids = column.ids(pa.array(values, kind)).astype(np.float64)
            into[:, at] = np.where(unknown, float(step), (ids + step) / column.count)
            into[empty, at] = np.nan
    return FileBoxes(low, high)
