"""Change data: the records of a source that put a row, and those that delete one, by their operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.row_operations import check_operation, deleting, unknown
from hipslake.errors import InputError, SchemaMismatchError
from hipslake.sources.source_reader import BATCH_ROWS
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.upsert_spec import OperationSpec
from hipslake.steps.sink.source_rows import Rows


@dataclass(frozen=True)
class SourceRecords:
    """The records of a source that put rows, or those that delete some; without the column that says it.

    Attributes
    ----------
    rows : Rows
        All of them.
    operation : OperationSpec
    key : tuple of str
        Tells records apart in errors.
    deletes : bool
        Which of both.
    """

    rows: Rows
    operation: OperationSpec
    key: tuple[str, ...]
    deletes: bool

    @property
    def schema(self) -> pa.Schema:
        """All columns but the one of operations."""
        return without_operations(self.rows.schema, self.operation)

    @property
    def tasks(self) -> int:
        """In how many parts they are read."""
        return self.rows.tasks

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The records of a part, in the order of the source.

        Raises
        ------
        InputError
            An operation is null, or none of the spec's.
        """
        wanted = list(columns) or self.schema.names[:1]
        for batch in self.rows.read(task, [*wanted, self.operation.column]):
            operations = batch.column(self.operation.column)
            self._check(batch, operations)
            chosen = deleting(operations, self.operation) == self.deletes
            yield batch.select(wanted).filter(pa.array(chosen))

    def _check(self, batch: pa.RecordBatch, operations: pa.Array) -> None:
        wrong = unknown(operations, self.operation)
        if not wrong.any():
            return
        first, of = int(np.argmax(wrong)), self.operation
        told = [f"{name} = {batch.column(name)[first]}" for name in self.key if name in batch.schema.names]
        raise InputError(
            f"operation: column {of.column!r} is {operations[first].as_py()!r} in {int(wrong.sum())} records "
            f"or more of the source{', such as that of ' if told else ''}{', '.join(told)}; there are "
            f"{of.insert}, {of.update} and {of.delete} (`operation` in the spec)"
        )


def without_operations(schema: pa.Schema, operation: OperationSpec | None) -> pa.Schema:
    """The columns of a source that a table keeps."""
    if operation is None:
        return schema
    return pa.schema([field for field in schema if field.name != operation.column])


def check_operations(schema: pa.Schema, spec: TableSpec) -> None:
    """Look that a source has the column of operations that a spec names, of a type that will do.

    Raises
    ------
    SchemaMismatchError
        It has none, or one of other values than texts and whole numbers.
    """
    operation = spec.operation
    if operation is None:
        return
    if operation.column not in schema.names:
        raise SchemaMismatchError(
            f"operation.column: the source has no column {operation.column!r}; it has "
            + ", ".join(schema.names)
        )
    check_operation(schema.field(operation.column).type, operation, f"spec {spec.name!r}")
