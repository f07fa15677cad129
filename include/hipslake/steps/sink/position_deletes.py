"""Merge-on-read: rows of data files go by files of deletes, which name their positions; the files stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.model import Engine
from hipslake.errors import SpecError, VerificationError
from hipslake.specs.table_writing import RowOperation, WriteMode
from hipslake.steps.row_routing import runs_of
from hipslake.steps.sink.sink_try import RowPositions
from hipslake.tables.new_files import NewFile
from hipslake.tables.protocol import LiveFile, NewDeletes, TableState
from hipslake.tables.stored_files import StoredFile, positions_in_file
from hipslake.tables.writing_protocol import PositionWriter

DELETES = "deletes"
"""The folder, in that of a write, for files of deletes."""

_RESULT = pa.schema([("number", pa.int64()), ("file", pa.string())])


def merges_on_read(table: TableState, name: str, asked: WriteMode | None, operation: RowOperation) -> bool:
    """Whether rows that go are named by files of deletes, instead of writing anew what stays of their files.

    Parameters
    ----------
    table : TableState
    name : str
        Of the table.
    asked : WriteMode or None
        What a spec says; None: the table's properties decide.
    operation : {"delete", "update", "merge"}
        What is done.

    Raises
    ------
    SpecError
        The spec asks for it, and the table takes no delete files; or the property makes no sense.
    """
    mode = asked or table.write_mode(operation)
    if mode is not WriteMode.MERGE_ON_READ:
        return False
    if table.why_no_deletes and asked is not None:
        raise SpecError(f"write: table {name} {table.why_no_deletes}; write copy-on-write, or leave it out")
    return not table.why_no_deletes


@dataclass(frozen=True)
class WriteDeletesTask:
    """Writes the deletes of each scope.

    Attributes
    ----------
    files : tuple of StoredFile
        Data files, in the order of their paths within each scope.
    numbers : tuple of int
        Of each in `gone`.
    runs : tuple of (int, int)
        The first data file of each scope, and the one behind its last.
    gone : RowPositions
        The rows that go, by their positions among those that are not deleted.
    schema : pyarrow.Schema
        Of the table.
    writer : PositionWriter
    """

    files: tuple[StoredFile, ...]
    numbers: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]
    gone: RowPositions
    schema: pa.Schema
    writer: PositionWriter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Write the file of a scope."""
        written = self.writer.write_deletes(self._positions(*self.runs[number]), f"{DELETES}/{number:06d}")
        yield pa.record_batch([[number], [written.model_dump_json()]], schema=_RESULT)

    def _positions(self, first: int, last: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
        for file, number in zip(self.files[first:last], self.numbers[first:last], strict=True):
            gone = self.gone.of(number)
            if gone is not None and len(gone):
                yield file.path, positions_in_file(file, self.schema, gone)


def write_deletes(
    engine: Engine,
    writer: PositionWriter,
    schema: pa.Schema,
    files: Sequence[LiveFile],
    gone: RowPositions,
    rows: int,
) -> list[NewDeletes]:
    """Write the files of deletes that take rows out of data files: one for each partition, or data file.

    Parameters
    ----------
    engine : Engine
    writer : PositionWriter
    schema : pyarrow.Schema
        Of the table, with field ids.
    files : sequence of LiveFile
        Data files of which rows go.
    gone : RowPositions
        By the number of each, the positions of the rows that go among those that are not deleted yet; of
        each file one at least.
    rows : int
        So many in all.

    Raises
    ------
    VerificationError
        More or fewer rows were named.
    """
    if not files:
        return []
    scopes: dict[object, int] = {}
    of = [(file.scope, file.path if writer.by_file else "") for file in files]
    number = [scopes.setdefault(each, len(scopes)) for each in of]
    order = sorted(range(len(files)), key=lambda at: (number[at], files[at].path.encode()))
    runs = tuple(runs_of(np.array([number[at] for at in order], np.int64)))
    stored = tuple(files[at].stored for at in order)
    task = WriteDeletesTask(stored, tuple(order), runs, gone, schema, writer)
    with engine.progress("delete"):
        found = engine.run(task, tasks=len(runs), result=_RESULT).sort_by("number")
    written = [NewFile.model_validate_json(text) for text in found["file"].to_pylist()]
    if (named := sum(file.rows for file in written)) != rows:
        raise VerificationError(
            f"{rows} rows of {len(files)} files were to be deleted, and {named} were named; nothing is "
            "committed. Run it again"
        )
    return [
        NewDeletes(file, tuple(files[at] for at in order[first:last]))
        for file, (first, last) in zip(written, runs, strict=True)
    ]
