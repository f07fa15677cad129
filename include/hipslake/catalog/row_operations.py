"""What the records of a source do: put their row, or delete that of their key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SchemaMismatchError
from hipslake.specs.upsert_spec import OperationSpec


def check_operation(kind: pa.DataType, operation: OperationSpec, where: str) -> None:
    """Check that a column can hold operations.

    Parameters
    ----------
    kind : pyarrow.DataType
        Of the column.
    operation : OperationSpec
    where : str
        The spec, for the message.

    Raises
    ------
    SchemaMismatchError
        It holds neither texts nor whole numbers.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind) or any(is_a(kind) for is_a in texts)):
        raise SchemaMismatchError(
            f"{where}, operation.column: column {operation.column!r} is of type {kind}; operations are texts "
            "or whole numbers"
        )


def deleting(column: pa.Array | pa.ChunkedArray, operation: OperationSpec) -> NDArray[np.bool_]:
    """Which records delete the row of their key, bool[n]."""
    return _among(column, [operation.delete])


def unknown(column: pa.Array | pa.ChunkedArray, operation: OperationSpec) -> NDArray[np.bool_]:
    """Which records do nothing that is known, bool[n]: their operation is null, or none of the spec's."""
    return ~_among(column, [operation.insert, operation.update, operation.delete])


def _among(column: pa.Array | pa.ChunkedArray, codes: list[str]) -> NDArray[np.bool_]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts = column.cast(pa.large_string())
    found: NDArray[np.bool_] = pc.is_in(texts, value_set=pa.array(codes, pa.large_string())).to_numpy(
        zero_copy_only=False
    )
    return found
