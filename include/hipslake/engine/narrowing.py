"""Integers in as few bytes as their values need, while rows travel: half of an exchange is often zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.engine.reordering import LARGEST_PIECE

_NARROW = (pa.int8(), pa.int16(), pa.int32())


def narrowed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose 64-bit integers are of the narrowest type that holds them.

    Examples
    --------
    >>> rows = pa.record_batch({"n": [1, 300], "v": [0.5, 1.5]})
    >>> narrowed(rows).schema.types
    [DataType(int16), DataType(double)]
    """
    columns = [
        column.cast(_narrowest(column), safe=False) if column.type == pa.int64() else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def gathered(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Narrowed batches as one table, still narrow, each column in one piece, if one holds it.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
    schema : pyarrow.Schema
        Of the rows before they were narrowed; it says the types where there is no batch.
    """
    columns = []
    for at, field in enumerate(schema):
        chunks = [batch.column(at) for batch in batches]
        widest = max((chunk.type for chunk in chunks), key=_width, default=field.type)
        same = [chunk if chunk.type == widest else chunk.cast(widest) for chunk in chunks]
        column = pa.chunked_array(same, widest)
        columns.append(column if column.nbytes > LARGEST_PIECE else column.combine_chunks())
    return pa.Table.from_arrays(columns, names=schema.names)


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the types of a schema again."""
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _narrowest(column: pa.Array) -> pa.DataType:
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0  # of nothing but nulls, None
    for kind in _NARROW:
        known = np.iinfo(kind.to_pandas_dtype())
        if known.min <= low and high <= known.max:
            return kind
    return pa.int64()


def _width(kind: pa.DataType) -> int:
    return int(kind.bit_width) if pa.types.is_integer(kind) else 0
