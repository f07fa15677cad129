"""The least and the greatest values of columns of numbers in leaf files, from their footers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.leaf import read_footer
from hipslake.catalog.leaf_opening import leaf_file, read_errors
from hipslake.catalog.leaf_rows import leaf_files
from hipslake.sphere.coordinates import positions
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


def leaf_bounds(
    storage: Storage, path: str, schema: pa.Schema, names: Sequence[str | None]
) -> NDArray[np.float64]:
    """As `value_bounds`, of all files of a leaf, which others may have written; `schema` is its group's."""
    files = leaf_files(storage, path, schema)
    return np.concatenate([value_bounds(storage, file, names) for file in files])


def value_bounds(storage: Storage, path: str, names: Sequence[str | None]) -> NDArray[np.float64]:
    """The least and the greatest values in every row group of a file.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    names : sequence of str or None
        Columns of numbers. Values are read only where the footer does not tell.

    Returns
    -------
    float64[groups, names, 2]
        NaN and nulls do not count; 0 where there is nothing else, where the file is older than the column,
        and for None.
    """
    footer = read_footer(storage, path)
    columns = {footer.schema.column(at).path: at for at in range(len(footer.schema))}
    chunks = ColumnChunks(footer)

    def bounds(group: int, name: str | None) -> tuple[float, float]:
        at = None if name is None else columns.get(name)
        if at is None:
            return 0.0, 0.0
        statistics = chunks(group, at).statistics
        if statistics is None or not statistics.has_min_max:  # nothing but NaN, say
            return _bounds_read(storage, path, group, name)
        return float(statistics.min), float(statistics.max)

    with read_errors(storage, path):
        found = [[bounds(group, name) for name in names] for group in range(footer.num_row_groups)]
    return np.array(found, float).reshape(footer.num_row_groups, len(names), 2)


def _bounds_read(storage: Storage, path: str, group: int, name: str | None) -> tuple[float, float]:
    """From the values of a row group."""
    with leaf_file(storage, path) as file:
        column = file.read_row_group(group, columns=[name])[name]
    values, _ = positions(column, column)
    values = values[~np.isnan(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
