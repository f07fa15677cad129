"""One try of a sink: the rows of its source as the table keeps them, and the positions of those that go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.model import Engine
from hipslake.sources.source_reader import BATCH_ROWS
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.sink.source_rows import Rows
from hipslake.storage.folder import Storage
from hipslake.tables.fitting import conformed
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import TableState, TableWrite
from hipslake.tables.sink_order import SinkOrder
from hipslake.tables.writing_protocol import RowWriter


@dataclass(frozen=True)
class NewRows:
    """The rows of a source as the table keeps them.

    Attributes
    ----------
    rows : Rows
    schema : pyarrow.Schema
        Of the table.
    derived : tuple of PartitionField
        Pixels that are made.
    deleted : Rows or None
        Whose keys have no row from now on: rows that are no more in the source, and were when the table was
        fed from it, or records that delete. None: there are none, or they are not known.
    follows : bool
        Whether both are the changes of a catalog, so that a row of the table goes only with one of them.
    """

    rows: Rows
    schema: pa.Schema
    derived: tuple[PartitionField, ...]
    deleted: Rows | None = None
    follows: bool = False

    @property
    def deleted_tasks(self) -> int:
        """In how many parts the deleted rows are read."""
        return 0 if self.deleted is None else self.deleted.tasks

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of the table, of the rows of a part; as of `Rows.read`."""
        return self._read(self.rows, task, columns, batch_rows)

    def read_deleted(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the table, of the deleted rows of a part."""
        assert self.deleted is not None, "there are none"
        return self._read(self.deleted, task, columns)

    def _read(
        self, rows: Rows, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        given = set(rows.schema.names)
        made = {field.column: field.source for field in self.derived}
        needed = [name if name in given else made.get(name) for name in columns]
        wanted = pa.schema([self.schema.field(name) for name in columns])
        raw = list(dict.fromkeys(name for name in needed if name is not None and name in given))
        for batch in rows.read(task, raw, batch_rows):
            yield conformed(batch, wanted, self.derived)


@dataclass(frozen=True)
class Interval:
    """The times [start, end) of a column; no end: all from start on."""

    column: str
    start: datetime
    end: datetime | None

    @classmethod
    def of(cls, order: SinkOrder) -> Interval:
        """That of an order whose rows replace those of an interval."""
        assert order.spec.interval is not None and order.start is not None, "checked before"  # noqa: PT018
        return cls(order.spec.interval, order.start, order.end)

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """Whether each row lies in it; null where it has no time."""
        from hipslake.predicates.evaluation import truth  # an append needs nothing of it
        from hipslake.tables.file_pruning import in_interval

        return truth(in_interval(self.column, self.start, self.end), rows).combine_chunks()


def without(batches: Iterator[pa.RecordBatch], dropped: NDArray[np.int64] | None) -> Iterator[pa.RecordBatch]:
    """Batches without the rows at some positions (ascending) of them all."""
    if dropped is None or not len(dropped):
        yield from batches
        return
    position = 0
    for batch in batches:
        first, last = np.searchsorted(dropped, [position, position + batch.num_rows]).tolist()
        if last > first:
            stays = np.ones(batch.num_rows, bool)
            stays[dropped[first:last] - position] = False
            position += batch.num_rows
            yield batch.filter(pa.array(stays))
        else:
            position += batch.num_rows
            yield batch


@dataclass(frozen=True)
class RowPositions:
    """Ascending positions of rows, by the number of the file or part; small, so that it travels with tasks.

    Attributes
    ----------
    root : str
        Where the files lie.
    numbers : frozenset of int
        Those that have positions.
    """

    root: str = ""
    numbers: frozenset[int] = frozenset()

    @classmethod
    def kept(cls, storage: Storage, by_number: Mapping[int, NDArray[np.int64]]) -> RowPositions:
        """Store positions in a folder."""
        for number, positions in by_number.items():
            table = pa.table({"position": np.sort(positions)})
            with (
                storage.open(_name(number), "wb", durable=False) as file,
                pa.ipc.new_file(
                    file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
                ) as out,
            ):
                out.write_table(table)
        return cls(storage.root, frozenset(by_number))

    def of(self, number: int) -> NDArray[np.int64] | None:
        """The positions of a number, int64[n]; None if there are none."""
        if number not in self.numbers:
            return None
        with Storage(self.root).open(_name(number)) as file, pa.ipc.open_file(file) as stored:
            positions: NDArray[np.int64] = stored.read_all()["position"].to_numpy()
        return positions


NO_POSITIONS = RowPositions()


def positions_by_number(found: Iterable[tuple[int, bytes]]) -> dict[int, NDArray[np.int64]]:
    """Ascending positions of rows by the number of their file or part, as tasks gave them: int64 in bytes."""
    parts: dict[int, list[NDArray[np.int64]]] = {}
    for number, positions in found:
        parts.setdefault(number, []).append(np.frombuffer(positions, np.int64))
    return {number: np.sort(np.concatenate(some)) for number, some in parts.items()}


def _name(number: int) -> str:
    return f"{number:08d}.arrow"


@dataclass(frozen=True)
class SinkTry:
    """One try of a sink.

    Attributes
    ----------
    order : SinkOrder
    engine : Engine
    table : TableState
        As it is when the try begins.
    before : SinkMark or None
        What was sunk under the key of the order; of a stream, its batch before this one, whose rows stay.
    doubtful : bool
        Whether some sink of that key may stand of which no more is known.
    new : NewRows
    fields : tuple of PartitionField
        Of the table's columns.
    write : TableWrite
    writer : RowWriter
    clustered_by : tuple of str
        Columns whose curve rows follow; empty: they are written as they come, or sorted.
    """

    order: SinkOrder
    engine: Engine
    table: TableState
    before: SinkMark | None
    doubtful: bool
    new: NewRows
    fields: tuple[PartitionField, ...]
    write: TableWrite
    writer: RowWriter
    clustered_by: tuple[str, ...] = ()
