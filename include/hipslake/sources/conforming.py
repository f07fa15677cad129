"""Batches as files hold them, brought to the unified schema without copying what already fits."""

from __future__ import annotations

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.joins.nested_forms import are_two_forms, in_other_form


def conform(batch: pa.RecordBatch, schema: pa.Schema, uri: str) -> pa.RecordBatch:
    """Return a batch with exactly the schema's columns, in its order and types.

    Arrays whose type fits are passed on as they are; columns that the batch lacks are null.

    Raises
    ------
    SchemaMismatchError
        When a value cannot be held by the schema's type; the message names file, column and value.
    """
    arrays = [_column(batch, field, uri) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, uri: str) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    array = batch.column(at)
    if array.type.equals(field.type):
        return array
    try:
        rows = in_other_form(array) if are_two_forms(array.type, field.type) else array
        return rows.cast(field.type, safe=True)
    except ValueError as error:  # among them those of Arrow
        raise SchemaMismatchError(
            f"{uri}: column {field.name!r}: a value of {array.type} does not fit {field.type}, which other "
            f"files need: {error}; store the column with one type in all files"
        ) from None
