"""Mode upsert with `validity`: two columns say from when to when a row was that of its key.

What a row is valid from is what its record is ordered by: the value of `order_by`, or the start of the
interval of its night. What it is valid to is that of the next record of the key, null if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.catalog.value_order import value_type
from hipslake.predicates.domains import negative_zero_as_zero
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.upsert_spec import Validity

if TYPE_CHECKING:
    from hipslake.catalog.metadata import CatalogMetadata

NIGHT_START = pa.timestamp("us", "UTC")
"""The type of the columns where the starts of nights are what records are ordered by."""


def validity_of(metadata: CatalogMetadata) -> Validity | None:
    """The columns of a version that say from when to when its rows are valid, if it has them."""
    return metadata.key_records.validity if metadata.key_records is not None else None


def validity_fields(spec: CatalogSpec, source_schema: pa.Schema) -> tuple[pa.Field, ...]:
    """The two columns that every column group has besides those of the source; none without `validity`.

    Parameters
    ----------
    spec : CatalogSpec
    source_schema : pyarrow.Schema
        With the column of `order_by`, if there is one.
    """
    if spec.validity is None:
        return ()
    kind, of, told = NIGHT_START, "start of the night", {}
    if spec.order_by is not None:
        ordering = source_schema.field(spec.order_by)
        kind, of = value_type(ordering.type), spec.order_by
        told = {key: text for key, text in (ordering.metadata or {}).items() if key == b"unit"}
    descriptions = (
        f"{of} from which on the row is that of its key, added by hipslake",
        f"{of} until which the row is that of its key, null while it is; added by hipslake",
    )
    return tuple(
        pa.field(name, kind, metadata={**told, b"description": description.encode()})
        for name, description in zip(spec.validity.columns, descriptions, strict=True)
    )


def begins_of(rows: pa.RecordBatch, field: pa.Field, order_by: str | None, start: datetime) -> pa.Array:
    """From when on rows are valid.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        Of a night, as the source has them.
    field : pyarrow.Field
        The first of `validity_fields`.
    order_by : str or None
    start : datetime
        Of the interval of the night; it counts where there is no `order_by`.
    """
    if order_by is None:
        return pa.repeat(pa.scalar(start, field.type), rows.num_rows)
    column = rows.column(order_by)
    return negative_zero_as_zero(column if column.type == field.type else column.cast(field.type))


def with_interval(
    rows: pa.RecordBatch, fields: Sequence[pa.Field], begins: pa.Array, ends: pa.Array
) -> pa.RecordBatch:
    """Rows of a source with the two columns; `fields` are those of `validity_fields`."""
    schema = rows.schema
    for field in fields:
        schema = schema.append(field)
    return pa.RecordBatch.from_arrays([*rows.columns, begins, ends], schema=schema)
