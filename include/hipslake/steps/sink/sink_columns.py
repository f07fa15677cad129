"""Whether the rows of a sink have the columns that its spec names, before any of them is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hipslake.errors import EmptySourceError, SchemaMismatchError
from hipslake.sources import Source
from hipslake.sources.csv.inference import held_types
from hipslake.sources.source_file import SourceFile
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.listed_files import MOST_FILES, spread
from hipslake.steps.sink.source_records import check_operations, without_operations
from hipslake.tables.fitting import check_field_names, check_fields, stored_schema
from hipslake.tables.row_keys import check_key


def check_sink_columns(source: Source, files: Sequence[SourceFile], spec: TableSpec) -> None:
    """Hold the columns of files, as headers and beginnings tell them, against what the spec of a sink says.

    Of many files some are looked at, and all of them only where something seems to be wrong. What only all
    rows tell (types of CSV columns) and what the table says of them is left to the sink.

    Parameters
    ----------
    source : Source
        Of the spec, with the interval of the run.
    files : sequence of SourceFile
    spec : TableSpec

    Raises
    ------
    SchemaMismatchError
        A column that the spec names is missing, Iceberg has no type for one, or the files do not fit
        together.
    SpecError
        A transform, a key or an order has no meaning for its column's type.
    CorruptFileError
        A file is damaged where its columns are described.
    """
    some = spread(files, MOST_FILES)
    if not some:
        return
    try:
        _check(source.peek(some), spec)
    except EmptySourceError:
        return  # whether that is an error, the sink knows
    except SchemaMismatchError:
        if len(some) == len(files):
            raise
        _check(source.peek(files), spec)  # the others may have what these lack


def check_rows(schema: pa.Schema, columns: Sequence[str] | None, spec: TableSpec) -> None:
    """Hold the columns of rows against what the spec of a sink says.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of all rows of the source.
    columns : sequence of str, optional
        Those that are wanted; None: all.
    spec : TableSpec

    Raises
    ------
    SchemaMismatchError, SpecError
        As of `check_sink_columns`.
    """
    stored = stored_columns(schema, columns, spec)
    check_key(stored, spec.key)


def stored_columns(schema: pa.Schema, columns: Sequence[str] | None, spec: TableSpec) -> pa.Schema:
    """The columns of rows as a table keeps them; as of `check_rows`."""
    check_operations(schema, spec)
    stored = stored_schema(without_operations(schema, spec.operation), columns, _derived(spec))
    check_fields(spec, stored)
    return stored


def _check(peeked: pa.Schema, spec: TableSpec) -> None:
    assert isinstance(spec.source, FileRowsSpec)
    if not any(held_types(field) is not None for field in peeked):
        check_rows(peeked, spec.source.columns, spec)
        return
    names = peeked.names if spec.source.columns is None else list(spec.source.columns)
    operations = [] if spec.operation is None else [spec.operation.column]
    _require([*names, *operations], peeked.names)  # of such columns, names alone are known
    names = [name for name in names if name not in operations]
    check_field_names(spec, [*names, *(field.column for field in _derived(spec))])


def _derived(spec: TableSpec) -> tuple[PartitionField, ...]:
    """The fields whose column may have to be made."""
    fields = (*spec.partition, *(sort.field for sort in spec.sort))
    return tuple(field for field in fields if field.transform is TransformName.HEALPIX)


def _require(wanted: Sequence[str], there: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in there]:
        raise SchemaMismatchError(
            f"columns: the files have no column {', '.join(map(repr, missing))}; they have {', '.join(there)}"
        )
