"""Blocks of an exchange: rows by their target, and batches cut to a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray


def cut(rows: pa.RecordBatch, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of at most `block_bytes`, but one row at least; an empty one is one slice."""
    rows = _own_dictionaries(rows)
    size = rows.nbytes
    if size <= block_bytes or rows.num_rows <= 1:
        yield rows
        return
    half = rows.num_rows // 2
    step = max(1, int(rows.num_rows * block_bytes / size)) if _fixed_width(rows.schema) else half
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        if part.nbytes <= block_bytes:
            yield part
        else:
            yield from cut(part, block_bytes)


def by_target(target: NDArray[np.int64], targets: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows of each reduce task in [0, targets) that has any, in their order; others have none.

    Examples
    --------
    >>> [(to, rows.tolist()) for to, rows in by_target(np.array([1, -1, 0, 1]), 3)]
    [(0, [2]), (1, [0, 3])]
    """
    order = np.argsort(target, kind="stable")
    cuts = np.searchsorted(target[order], np.arange(targets + 1)).tolist()
    for to, (low, high) in enumerate(pairwise(cuts)):
        if high > low:
            yield to, order[low:high]


def _own_dictionaries(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out the words of dictionaries that no row uses: a slice still holds those of the whole file."""
    for at, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
            words = column.indices.drop_null().unique()
            indices = pa.compute.index_in(column.indices, words).cast(column.type.index_type)
            own = pa.DictionaryArray.from_arrays(
                indices, column.dictionary.take(words), ordered=column.type.ordered
            )
            rows = rows.set_column(at, rows.schema.field(at), own)
    return rows


def _fixed_width(schema: pa.Schema) -> bool:
    return all(pa.types.is_primitive(field.type) for field in schema)
