"""The checksum of a table's data file: by its values as they are stored, where it has all of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.storage.calendars import check_calendar
from hipslake.tables.stored_files import (
    StoredFile,
    batch_rows,
    check_once,
    field_id,
    names_in_file,
    opened_parquet,
    read_data_file,
)
from hipslake.tables.stored_values import RowSum, StoredRows, is_as_stored, sum_of


def checksum_of_file(
    file: StoredFile, schema: pa.Schema, columns: Sequence[str], chosen: Callable[[int], range]
) -> RowSum:
    """The checksum of the rows of a data file that are not deleted.

    Parameters
    ----------
    file : StoredFile
    schema : pyarrow.Schema
        Of the table.
    columns : sequence of str
        Names in the table.
    chosen : callable
        Takes the number of row groups, and says which count.
    """
    with opened_parquet(file.path) as (opened, parquet):
        stored = parquet.schema_arrow
        wanted = [schema.field(name) for name in columns]
        names = names_in_file(stored, schema, wanted)
        groups = chosen(parquet.num_row_groups)
        found = [name for name in names if name is not None]
        check_once(stored, found, file.path)
        if (
            not file.deletes
            and len(found) == len(names)
            and all(_same_parts(stored.field(name), field) for name, field in zip(found, wanted, strict=True))
        ):
            return StoredRows(opened).summed(found, groups, batch_rows(parquet.metadata))
    # What the file lacks is not stored, nor that rows are deleted: rows count as they are read.
    total = RowSum(0, 0)
    for batch in read_data_file(file, schema, columns, chosen):
        total = total.plus(sum_of(batch))
    return total


def read_with_sums(
    file: StoredFile, schema: pa.Schema, columns: Sequence[str], chosen: Callable[[int], range]
) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
    """The rows of a data file as `read_data_file` gives them, and with each batch a part of their checksum.

    All parts together are what `checksum_of_file` gives. Where values are stored as the table has them, rows
    are those that the checksum is made of, and the file is read once.
    """
    wanted = [schema.field(name) for name in columns]
    if not file.deletes:
        with opened_parquet(file.path) as (opened, parquet):
            found = names_in_file(parquet.schema_arrow, schema, wanted)
            names = [name for name in found if name is not None]
            if len(names) == len(found) and is_stored_so(parquet, names, [each.type for each in wanted]):
                check_once(parquet.schema_arrow, names, file.path)
                groups = chosen(parquet.num_row_groups)
                check_calendar(opened, parquet.metadata, names, groups, file.path)
                yield from stored_rows(opened, parquet, names, groups, pa.schema(wanted))
                return
    total = checksum_of_file(file, schema, columns, chosen)
    yield from with_sum(read_data_file(file, schema, columns, chosen), total, pa.schema(wanted))


def with_sum(
    rows: Iterator[pa.RecordBatch], total: RowSum, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
    """Batches, of which the first brings the checksum of all."""
    yield pa.RecordBatch.from_pylist([], schema), total
    for batch in rows:
        yield batch, RowSum(0, 0)


def is_stored_so(parquet: pq.ParquetFile, names: Sequence[str], kinds: Sequence[pa.DataType]) -> bool:
    """Whether a file has all of some columns, and the values of each as these types have them."""
    metadata, stored = parquet.metadata, parquet.schema_arrow
    if any(pa.types.is_nested(field.type) for field in stored):
        return False  # there, columns of the file are not those of its schema
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    return all(
        name in places
        and stored.field(name).type == kind
        and is_as_stored(metadata.schema.column(places[name]), kind)
        for name, kind in zip(names, kinds, strict=True)
    )


def stored_rows(
    opened: Any, parquet: pq.ParquetFile, names: Sequence[str], groups: range, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
    """Columns of which `is_stored_so`, with the types of a schema, and the checksum of each batch."""
    for batch, some in StoredRows(opened).batches(names, groups, batch_rows(parquet.metadata)):
        arrays = [column.view(field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema), some


def _same_parts(stored: pa.Field, wanted: pa.Field) -> bool:
    """Whether the nested parts of a column have the same fields in a file as in the table."""
    old, new = stored.type, wanted.type
    if not (pa.types.is_nested(old) or pa.types.is_nested(new)):
        return True
    if pa.types.is_map(old) and pa.types.is_map(new):
        return _same_parts(old.key_field, new.key_field) and _same_parts(old.item_field, new.item_field)
    if pa.types.is_struct(old) != pa.types.is_struct(new) or old.num_fields != new.num_fields:
        return False
    pairs = [(old.field(at), new.field(at)) for at in range(old.num_fields)]
    known = all(_is_same(part, field) for part, field in pairs)
    return (known or not pa.types.is_struct(old)) and all(_same_parts(a, b) for a, b in pairs)


def _is_same(part: pa.Field, field: pa.Field) -> bool:
    """Whether a part of a column in a file is that field of the table: by its id, or by name without any."""
    number = field_id(field)
    return part.name == field.name if number is None else field_id(part) == number
