"""Values of VOTable cells, put together into Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.sources.votable.fields import VotableField


def with_nulls(values: pa.Array, field: VotableField, *, nan_is_null: bool) -> pa.Array:
    """Make null what the field calls null, and NaN."""
    if field.is_complex:
        parts = [_without_nan(part, nan_is_null) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(field.value_type))
    if field.null is not None:
        is_null = pc.equal(values.cast(pa.int64()), field.null)
        values = pc.if_else(is_null, pa.scalar(None, values.type), values)
    return _without_nan(values, nan_is_null)


def _without_nan(values: pa.Array, nan_is_null: bool) -> pa.Array:
    if not nan_is_null or not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def cells(
    values: pa.Array, counts: NDArray[np.int64], null: NDArray[np.bool_], field: VotableField, where: str
) -> pa.Array:
    """Return the cells of a column.

    Parameters
    ----------
    values
        Of all cells that are not null, one cell after the other.
    counts
        How many values each cell has, int64[n]; 0 where it is null.
    null
        Which cells are null, bool[n].
    field
        What the column holds.
    where
        The file and the rows, for messages.

    Raises
    ------
    CorruptFileError
        When a cell has not as many values as its field says.
    """
    size = field.values
    wrong = ~null & ((counts % size != 0) if field.varies else (counts != size)) if size else counts > 0
    if wrong.any():
        row = int(np.argmax(wrong))
        shape = " x ".join(str(axis) for axis in field.shape) or "one"
        raise CorruptFileError(
            f"{where}: column {field.name!r}: the cell in row {row + 1} of these has {counts[row]} values, "
            f"not {shape}{' or a multiple' if field.varies else ''}; mend it"
        )
    if not field.varies and null.any():
        values = values.take(_places(counts, null, size))
    for axis in reversed(field.shape if field.varies else field.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    mask = pa.array(null) if null.any() else None
    if field.varies:
        offsets = np.concatenate(([0], np.cumsum(counts // max(size, 1)))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)
    if field.shape:
        return pa.FixedSizeListArray.from_arrays(values, field.shape[0], mask=mask)
    return values


def _places(counts: NDArray[np.int64], null: NDArray[np.bool_], size: int) -> pa.Array:
    """Return where the values of every cell stand; nothing stands there for a cell that is null."""
    before = np.cumsum(counts) - counts
    places: NDArray[Any] = (before[:, None] + np.arange(size)).reshape(-1)
    return pa.array(places, mask=np.repeat(null, size))
