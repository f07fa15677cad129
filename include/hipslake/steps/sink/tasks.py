"""The data files of a sink: which are planned, and the tasks that sort and write their rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import row_numbers
from hipslake.clustering.planning import ClusterMark
from hipslake.engine.model import Block, Counter, Routed
from hipslake.engine.reordering import in_order
from hipslake.errors import VerificationError
from hipslake.specs.partition_fields import PartitionField
from hipslake.specs.table_spec import DEFAULT_FILE_SIZE
from hipslake.specs.table_writing import TableMode
from hipslake.steps.row_routing import runs_of, stable_order
from hipslake.steps.sink.clustered_rows import RowClustering
from hipslake.steps.sink.count_rows import SOURCE, Counted
from hipslake.steps.sink.file_runs import FileRuns, by_file
from hipslake.steps.sink.replaced import Replaced
from hipslake.steps.sink.sink_try import NewRows, RowPositions, SinkTry, without
from hipslake.storage.atomic import synced_behind
from hipslake.tables.fitting import from_internal
from hipslake.tables.new_files import NewFile, described
from hipslake.tables.partition_values import ROWS, PartitionValues, value_columns
from hipslake.tables.protocol import LiveFile
from hipslake.tables.shuffle import ShufflePlan, ValueCounts, plan_shuffle
from hipslake.tables.stored_files import StoredFile, read_data_file
from hipslake.tables.transforms import result_type
from hipslake.tables.value_sketches import sketched_together
from hipslake.tables.writing_protocol import RowWriter


def check_files(
    name: str, files: Sequence[NewFile], plan: ShufflePlan, rows: int, *, fewer: bool = False
) -> None:
    """Check the files of a table `name` against the plan, and against the rows that there are.

    Of files that were cut along a curve there may be `fewer`, since a sample says where they end.

    Raises
    ------
    VerificationError
        There are other files than planned, or rows are missing or too many.
    """
    written = sum(file.rows for file in files)
    wrong = len(files) > plan.expected_files if fewer else len(files) != plan.expected_files
    if written != rows or wrong:
        raise VerificationError(
            f"table {name}: {plan.expected_files} files with {rows} rows were to be written, and "
            f"{len(files)} with {written} were; nothing is committed. Did a source file change in mid-run? "
            "Run it again"
        )


@dataclass(frozen=True)
class WriteRowsTask:
    """Both halves of the exchange that writes data files, and the task that writes them without one.

    Sources are the old files, then the parts of the new rows.

    Attributes
    ----------
    new : NewRows
    old : tuple of OldFile
    dropped : RowPositions
        Rows of each part that are left out.
    gone : RowPositions
        Rows of each old file that are.
    fields : tuple of PartitionField
        Of the table's columns.
    values : PartitionValues
    plan : ShufflePlan
    writer : RowWriter
    written : Counter
        Rows written so far.
    clustering : RowClustering or None
        Puts rows into files along a curve; None: they go in the order of the sources.
    """

    new: NewRows
    old: tuple[OldFile, ...]
    dropped: RowPositions
    gone: RowPositions
    fields: tuple[PartitionField, ...]
    values: PartitionValues
    plan: ShufflePlan
    writer: RowWriter
    written: Counter
    clustering: RowClustering | None = None

    @classmethod
    def of(cls, tried: SinkTry, plan: SinkPlan, replaced: Replaced) -> WriteRowsTask:
        """The task of a plan; where the table is clustered, rows are sampled for it."""
        task = cls(
            tried.new,
            plan.old,
            replaced.dropped,
            replaced.gone,
            tried.fields,
            plan.values,
            plan.shuffle,
            tried.writer,
            tried.engine.counter(),
        )
        if not tried.clustered_by:
            return task
        curve = Curve(tried.order.spec.clustering.curve)
        clustering = RowClustering.planned(
            tried.clustered_by,
            curve,
            tried.table.clustered_suffix(ClusterMark(curve.value, tried.clustered_by, "")),
            plan.shuffle,
            task,
            tried.new.schema,
            [field.column for field in tried.fields],
            tried.engine,
        )
        return dataclasses.replace(task, clustering=clustering)

    def route(self, number: int) -> Iterator[Routed]:
        """Send the rows of a source to the tasks of their files."""
        for batch, runs in self.filed(number):
            yield from runs.routed(batch, self.plan)

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the files of a task."""
        batches = [block.rows for block in blocks]
        blocks.clear()
        written = []
        with synced_behind():
            for file, rows in by_file(batches):
                written.append(self._write(rows, *self.named(file)))
        yield described(sketched_together(written))

    def write_directly(self, number: int) -> Iterator[pa.RecordBatch]:
        """Write the rows of a part without an exchange: per value as many files as the plan says."""
        found = [each for each in self.valued(number, self.new.schema.names) if each[0].num_rows]
        if not found:
            return
        rows = pa.Table.from_batches([batch for batch, _ in found])
        values = np.concatenate([value for _, value in found])
        order = stable_order(values, self.plan.counts.values)
        rows, values = in_order(rows, order), values[order]
        written = []
        with synced_behind():
            for first, last in runs_of(values):
                value = int(values[first])
                files = self.plan.files_apart(last - first)
                for file in range(files):
                    start, stop = (first + (last - first) * at // files for at in (file, file + 1))
                    name = f"{number:05d}-{value:06d}-{file:04d}"
                    written.append(self._write(rows.slice(start, stop - start), self._records[value], name))
        yield described(sketched_together(written))

    def bytes_by_task(self, files: Sequence[NewFile]) -> tuple[int, ...]:
        """The bytes that each task has written, by the names of its files."""
        total = [0] * self.plan.tasks
        for file in files:
            number = int(file.path.rpartition("/")[2].split("-")[0].removesuffix(".parquet"))
            total[int(self.plan.task[number]) if self.plan.shuffled else number] += file.bytes
        return tuple(total)

    def named(self, file: int) -> tuple[tuple[Any, ...], str]:
        """The partition and the name of a file of a shuffle."""
        value = int(np.searchsorted(self.plan.first_file, file, side="right")) - 1
        return self._records[value], f"{file:06d}"

    def filed(self, number: int) -> Iterator[tuple[pa.RecordBatch, FileRuns]]:
        """The rows of a source, and which go to which file."""
        ranks = self._first_ranks(number)
        first = 0
        for batch, value in self.valued(number, self.new.schema.names):
            if not batch.num_rows:
                continue
            if self.clustering is None:
                yield batch, FileRuns.by_rank(self.plan, value, ranks, self._totals)
            else:
                numbers = row_numbers(number, first, batch.num_rows)
                file = self.clustering.files_of(batch, value, numbers, self.plan)
                yield batch, FileRuns.by_file(self.plan, file)
            first += batch.num_rows

    def _write(self, rows: pa.Table, partition: tuple[Any, ...], name: str) -> NewFile:
        if self.clustering is not None:
            rows, name = self.clustering.ordered(rows), f"{name}{self.clustering.suffix}"
        written = self.writer.write_file(rows, partition, name)
        self.written.add(rows.num_rows)
        return written

    def valued(self, number: int, names: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Some columns of the rows of a source, and the partition value of each row.

        Of new rows, the columns that partition values are made of have to be among them.
        """
        if number < len(self.old):
            file = self.old[number]
            for batch in without(read_data_file(file.stored, self.new.schema, names), self.gone.of(number)):
                yield batch, np.full(batch.num_rows, file.value, np.int64)
            return
        part = number - len(self.old)
        for batch in without(self.new.read(part, list(names)), self.dropped.of(part)):
            columns = value_columns(self.fields, batch)
            yield batch, self.values.numbers(columns, batch.num_rows)

    def _first_ranks(self, number: int) -> NDArray[np.int64]:
        ranks = np.zeros(self.plan.counts.values, np.int64)
        mine = self.plan.counts.source == number
        ranks[self.plan.counts.value[mine]] = self._starts[mine]
        return ranks

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return self.plan.counts.first_ranks()

    @cached_property
    def _totals(self) -> NDArray[np.int64]:
        return self.plan.counts.totals

    @cached_property
    def _records(self) -> list[tuple[Any, ...]]:
        return self.values.records()


@dataclass(frozen=True)
class OldFile:
    """A file of the table that is replaced, but of which rows stay.

    Attributes
    ----------
    stored : StoredFile
    rows : int
        That stay.
    value : int
        Number of their partition value.
    """

    stored: StoredFile
    rows: int
    value: int


@dataclass(frozen=True)
class SinkPlan:
    """What is written.

    Attributes
    ----------
    values : PartitionValues
        Of all rows.
    shuffle : ShufflePlan
    old : tuple of OldFile
        Whose remaining rows are written again.
    """

    values: PartitionValues
    shuffle: ShufflePlan
    old: tuple[OldFile, ...]

    @property
    def rewritten(self) -> int:
        """Rows of the table that are written again."""
        return sum(file.rows for file in self.old)


def plan_sink(tried: SinkTry, counted: Counted, replaced: Replaced) -> SinkPlan:
    """Plan the files of a sink, from what was counted and what goes."""
    order, engine = tried.order, tried.engine
    counts = counted.values
    kinds = None if counts is None else counts.drop_columns([ROWS, SOURCE])
    stay = _partition_rows([file for file, _ in replaced.partly], tried)
    values = PartitionValues.of(stay if kinds is None else pa.concat_tables([stay, kinds]))
    number = values.numbers(stay, len(replaced.partly))
    old = tuple(
        OldFile(file.stored, rows, int(value))
        for (file, rows), value in zip(replaced.partly, number, strict=True)
    )
    source = np.arange(len(old), dtype=np.int64)
    rows = np.array([file.rows for file in old], np.int64)
    if counts is not None and kinds is not None:
        source = np.append(source, counts[SOURCE].to_numpy() + len(old))
        number = np.append(number, values.numbers(kinds, counts.num_rows))
        rows = np.append(rows, counts[ROWS].to_numpy())
    some = rows > 0
    shuffle = plan_shuffle(
        ValueCounts(source[some], number[some], rows[some], values.count),
        partition=order.spec.partition,
        upsert=order.spec.mode is TableMode.UPSERT,
        key=order.spec.key,
        sources=len(old) + tried.new.rows.tasks,
        row_bytes=counted.row_bytes,
        target_bytes=target_bytes(tried),
        cores=engine.cores,
        rewrites=bool(old),
        even=bool(tried.clustered_by),
    )
    return SinkPlan(values, shuffle, old)


def target_bytes(tried: SinkTry) -> int:
    """How large files should be: as the spec says, or else the table."""
    told = tried.order.spec.target_file_size
    if told is not None:
        return told.value
    return tried.table.target_bytes or DEFAULT_FILE_SIZE.value


def _partition_rows(files: Sequence[LiveFile], tried: SinkTry) -> pa.Table:
    """The partition values of files as rows, of the types that those of new rows have."""
    found = {}
    partitions = [file.partition for file in files]
    for at, field in enumerate(tried.fields):
        kind = result_type(field, tried.table.schema.field(field.column).type)
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        found[str(at)] = from_internal([partition[at] for partition in partitions], kind)
    return pa.table(found)
