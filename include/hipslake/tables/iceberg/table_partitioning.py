"""How a spec partitions and sorts its table: looked at, and said in Iceberg's words."""

from __future__ import annotations

import re

from pydantic import ValidationError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as IcebergSortField
from pyiceberg.transforms import parse_transform

from hipslake.errors import SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.tables.iceberg.schemas import arrow_schema
from hipslake.tables.transforms import result_type


def partition_spec(fields: tuple[PartitionField, ...], schema: Schema) -> PartitionSpec:
    """The Iceberg partition spec of some fields."""
    if not fields:
        return UNPARTITIONED_PARTITION_SPEC
    return PartitionSpec(
        *[
            IcebergField(
                source_id=schema.find_field(field.column).field_id,
                field_id=PARTITION_FIELD_ID_START + at,
                transform=parse_transform(field.iceberg_transform),
                name=field.name,
            )
            for at, field in enumerate(fields)
        ]
    )


def sort_order(fields: tuple[SortField, ...], schema: Schema) -> SortOrder:
    """The Iceberg sort order of some fields."""
    if not fields:
        return UNSORTED_SORT_ORDER
    return SortOrder(
        *[
            IcebergSortField(
                source_id=schema.find_field(sort.field.column).field_id,
                transform=parse_transform(sort.field.iceberg_transform),
                direction=SortDirection.DESC if sort.descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if sort.nulls_first else NullOrder.NULLS_LAST,
            )
            for sort in fields
        ]
    )


_TRANSFORM = re.compile(r"(?P<name>[a-z]+)(?:\[(?P<parameter>\d+)\])?")


def given_up(spec: PartitionSpec, schema: Schema) -> list[int]:
    """Positions of the fields of a spec that are void, of columns that are gone: their values are null.

    Tables of version 1 keep a field that was removed as such a one, also when its column is dropped.
    """
    known = {field.field_id for field in schema.fields}
    return [
        at
        for at, field in enumerate(spec.fields)
        if str(field.transform) == "void" and field.source_id not in known
    ]


def partition_fields(table: Table) -> tuple[PartitionField, ...]:
    """How a table is partitioned now, but for fields that were given up.

    Raises
    ------
    SpecError
        By a transform that is not known, by a part of a nested column, or by a column that is gone.
    """
    found = []
    gone = given_up(table.spec(), table.schema())
    for at, field in enumerate(table.spec().fields):
        if at in gone:
            continue
        known = _field(table.schema(), str(field.transform), field.source_id)
        if known is None:
            raise SpecError(
                f"table {'.'.join(table.name())}: partition field {field.name!r} is {field.transform} of "
                f"field {field.source_id}, which this library cannot compute; write it with the engine that "
                "made it, or drop that field from the partition spec"
            )
        found.append(known)
    return tuple(found)


def sort_fields(table: Table) -> tuple[SortField, ...] | None:
    """The sort order of a table now; empty if it has none, None if rows cannot be brought into it here."""
    schema = table.schema()
    kinds = arrow_schema(schema)
    found = []
    for field in table.sort_order().fields:
        known = _field(schema, str(field.transform), field.source_id)
        if known is None:
            return None
        try:
            result_type(known, kinds.field(known.column).type)
        except SpecError:
            return None
        found.append(
            SortField(
                field=known,
                descending=field.direction == SortDirection.DESC,
                nulls_first=field.null_order == NullOrder.NULLS_FIRST,
            )
        )
    return tuple(found)


def _field(schema: Schema, transform: str, source_id: int) -> PartitionField | None:
    names = {field.field_id: field.name for field in schema.fields}
    match = _TRANSFORM.fullmatch(transform)
    if match is None or source_id not in names:
        return None
    parameter = None if match["parameter"] is None else int(match["parameter"])
    given = {"transform": match["name"], "parameter": parameter, "source": names[source_id]}
    try:
        return PartitionField.model_validate(given)
    except ValidationError:
        return None
