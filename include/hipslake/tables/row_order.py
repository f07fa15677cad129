"""The order of rows by sort fields: columns or transforms of them, up or down, nulls first or last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.reordering import in_order
from hipslake.specs.partition_fields import SortField
from hipslake.tables.transforms import partition_values


def order_of(
    rows: pa.Table, fields: Sequence[SortField], ties: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The places of rows in the order of some sort fields, int64[n]; rows that are equal stay as they are.

    Parameters
    ----------
    rows : pyarrow.Table
    fields : sequence of SortField
        At least one.
    ties : int64[n], optional
        By which rows are sorted that are equal in all fields.

    Raises
    ------
    SpecError
        A transform has no meaning for its column.
    """
    keys: list[tuple[str, str]] = []
    by: dict[str, Any] = {}
    for at, field in enumerate(fields):
        values = _sort_values(field, rows[field.field.column])
        if values.null_count:
            # As a key of its own: Arrow puts the nulls of all keys on the same side.
            by[f"nulls of {at}"] = pc.is_null(values)
            keys.append((f"nulls of {at}", "descending" if field.nulls_first else "ascending"))
        if field.descending and pa.types.is_floating(values.type):
            # NaN is the greatest number of Iceberg's order; Arrow puts it last in both directions.
            by[f"nan of {at}"] = pc.fill_null(pc.is_nan(values), False)
            keys.append((f"nan of {at}", "descending"))
        by[f"values of {at}"] = values
        keys.append((f"values of {at}", "descending" if field.descending else "ascending"))
    if ties is not None:
        by["ties"] = pa.array(ties)
        keys.append(("ties", "ascending"))
    found: NDArray[np.int64] = pc.sort_indices(pa.table(by), sort_keys=keys).to_numpy().astype(np.int64)
    return found


def in_sort_order(rows: pa.Table, fields: Sequence[SortField]) -> pa.Table:
    """Rows in the order of some sort fields; as they are, if there is none."""
    return in_order(rows, order_of(rows, fields)) if fields else rows


def _sort_values(field: SortField, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """What a column is sorted by; chunk by chunk, as one array may not hold all of it."""
    found = [partition_values(field.field, chunk) for chunk in column.chunks or [pa.array([], column.type)]]
    return pa.chunked_array([each.storage if isinstance(each, pa.ExtensionArray) else each for each in found])
