"""How a spec partitions and sorts its table: looked at, and said in Iceberg's words."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as IcebergSortField
from pyiceberg.transforms import parse_transform

from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.standing_fields import partition_fields
from hipslake.tables.transforms import result_type


def check_fields(spec: TableSpec, stored: pa.Schema) -> None:
    """Look whether partition, sort order, key and interval name columns of the rows, of types that will do.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    SpecError
        A transform has no meaning for its column's type.
    """
    columns = ", ".join(stored.names)
    fields = [("partition", f) for f in spec.partition] + [("sort", f.field) for f in spec.sort]
    named = [(what, field.column) for what, field in fields]
    named += [("key", name) for name in spec.key]
    named += [("duplicates", name) for name in (spec.duplicates.last_by,) if name]
    named += [("interval", name) for name in (spec.interval,) if name]
    for what, name in named:
        if name not in stored.names:
            raise SchemaMismatchError(f"{what}: the rows have no column {name!r}; they have {columns}")
    if last_by := spec.duplicates.last_by:
        kind = stored.field(last_by).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise SpecError(
                f"duplicates: column {last_by!r} is of type {kind}, whose values have no order; take a "
                "number, a time or a text"
            )
    for _, field in fields:
        result_type(in_table(field), stored.field(field.column).type)
    for field in spec.partition:
        if field.name != field.column and field.name in stored.names:
            raise SchemaMismatchError(
                f"partition: the field of {field} is called {field.name!r}, and so is a column; rename "
                "the column"
            )


def check_partition(table: Table, spec: TableSpec) -> None:
    """Look whether a table is partitioned as a spec says.

    Raises
    ------
    SchemaMismatchError
        It is not: a sink does not repartition.
    """
    standing = [str(field) for field in partition_fields(table)]
    wanted = [str(in_table(field)) for field in spec.partition]
    if standing != wanted:
        raise SchemaMismatchError(
            f"table {spec.table} is partitioned by {', '.join(standing) or 'nothing'}, the spec says "
            f"{', '.join(wanted) or 'nothing'}; write into the spec what the table has, or sink into "
            "another table"
        )


def in_table(field: PartitionField) -> PartitionField:
    """A field as the table sees it: a pixel is a column there."""
    return PartitionField.parse(f"{field.iceberg_transform}({field.column})")


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
