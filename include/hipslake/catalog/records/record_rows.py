"""Records: what a night says of a key, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from hipslake.catalog.records.key_columns import KeyColumns, as_plain, plain_order_type
from hipslake.catalog.row_sets import row_text
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import InputError, SchemaMismatchError
from hipslake.sphere.pixels import HEALPIX_COLUMN

DELETE_COLUMN = "_delete"
ORDER_COLUMN = "_order"
BEGIN_COLUMN, END_COLUMN = "_begin", "_end"
"""From when to when a record holds, as all records of its key say; with intervals of validity."""
_OWN = (ROW_COLUMN, HEALPIX_COLUMN, DELETE_COLUMN, ORDER_COLUMN, BEGIN_COLUMN, END_COLUMN)


def records_schema(schema: pa.Schema, key: Sequence[str], order_by: str | None) -> pa.Schema:
    """The schema of records: key columns, `_row`, `_healpix_29` (null in deletes), `_delete`, and `_order`.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the source, or of the catalog.
    key : sequence of str
        Names of the key columns, which keep them. Types are those of `plain_key_type`.
    order_by : str or None
        The column by which the last record of a key wins; without it there is no `_order`.

    Raises
    ------
    SchemaMismatchError
        A column is missing, or of a type that does not serve, or a key column has a name of ours.
    """
    if taken := [name for name in key if name in _OWN]:
        raise SchemaMismatchError(
            f"key: {', '.join(taken)} is a name of the catalog's own; rename the column"
        )
    by = KeyColumns.of(schema, key)
    fields = [
        *by.schema,
        pa.field(ROW_COLUMN, pa.int64(), nullable=False),
        pa.field(HEALPIX_COLUMN, pa.int64()),
        pa.field(DELETE_COLUMN, pa.bool_(), nullable=False),
    ]
    if order_by is not None:
        if order_by not in schema.names:
            raise SchemaMismatchError(
                f"order_by: there is no column {order_by!r}; there are {', '.join(schema.names)}"
            )
        fields.append(pa.field(ORDER_COLUMN, plain_order_type(schema.field(order_by)), nullable=False))
    return pa.schema(fields)


def key_of(records: pa.Schema) -> KeyColumns:
    """The key columns of a schema of records."""
    fields = [field for field in records if field.name not in _OWN]
    return KeyColumns(tuple(field.name for field in fields), tuple(field.type for field in fields))


def as_records(
    rows: pa.Table | pa.RecordBatch,
    schema: pa.Schema,
    order_by: str | None,
    *,
    row: NDArray[np.int64],
    h29: NDArray[np.int64],
    delete: NDArray[np.bool_],
) -> pa.Table:
    """The records of rows.

    Parameters
    ----------
    rows : pyarrow.Table or pyarrow.RecordBatch
        With the key columns and that of `order_by`, as the source has them.
    schema : pyarrow.Schema
        Of `records_schema`.
    order_by : str or None
    row : int64[n]
        The `_row` of each.
    h29 : int64[n]
        The `_healpix_29` of each; of deletes it does not matter.
    delete : bool[n]
        Which of them say that their key has no row any more.

    Raises
    ------
    InputError
        A key column is null, or the column of `order_by` is null or NaN; the message shows one such row.
    """
    by = key_of(schema)
    named = {name: (name, "key") for name in by.names}
    if order_by is not None:
        named[ORDER_COLUMN] = (order_by, "order_by")
    columns = {}
    for name, (source, what) in named.items():
        column = as_plain(rows[source], schema.field(name).type)
        _check_values(column, what, source, row)
        columns[name] = column
    columns[ROW_COLUMN] = pa.array(row)
    columns[HEALPIX_COLUMN] = pa.array(h29, mask=delete)
    columns[DELETE_COLUMN] = pa.array(delete)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _check_values(column: pa.ChunkedArray, what: str, name: str, row: NDArray[np.int64]) -> None:
    missing = pc.is_null(column, nan_is_null=bool(kinds.is_floating(column.type)))
    count = pc.sum(missing).as_py() or 0
    if count:
        first = int(row[int(np.argmax(missing.to_numpy()))])
        raise InputError(
            f"{what}: column {name!r} has no value in {count} rows, {row_text(first)} among them: it is not "
            f"known {'of which object they are' if what == 'key' else 'whether they are the newest'}; mend "
            "the files, or leave these rows out"
        )
