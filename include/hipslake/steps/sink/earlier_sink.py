"""Remove the rows of an earlier sink from data files that hold other rows too.

What stays of a file is written again on its own, in the order in which it lay, beside the new rows and apart
from them: so the files of a write hold its rows only, and are found by their names when it is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Block, Engine, Routed
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    InputError,
    PlanError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.row_routing import to_targets
from hipslake.steps.sink.follow_rows import Followed, follow_rows, hashes_of_rows
from hipslake.steps.sink.sink_try import NewRows, RowPositions, SinkTry, without
from hipslake.steps.sink.source_rows import rows_of
from hipslake.tables.marks import SinkMark
from hipslake.tables.new_files import FILES_SCHEMA, NewFile, described, undescribed
from hipslake.tables.partition_values import PartitionValues, value_columns
from hipslake.tables.protocol import Descent, LiveFile
from hipslake.tables.stored_files import StoredFile, read_data_file
from hipslake.tables.writing_protocol import RowWriter

APART = "kept"
"""The folder, in that of a write, for rows that stay of files with others."""


def follow_sink(tried: SinkTry, before: SinkMark) -> tuple[Descent, Followed]:
    """Find the rows of an earlier sink in the files of a table.

    If the order is forced, what is not found is taken for deleted.

    Raises
    ------
    PlanError
        Which rows they are is not known any more; or others have changed some of them.
    """
    table, force = tried.table, tried.order.force
    descent = table.descent(before)
    brought = None if descent.whole else _brought(tried, before)
    followed = follow_rows(tried, before, descent, brought)
    if followed.found != before.rows and not force:
        raise PlanError(
            f"{_of(tried, before)}, and {before.rows - followed.found} of its {before.rows} rows are not in "
            "the table by their values, as far back as there are snapshots; others have deleted or changed "
            "them. If they were deleted, set force: then those that are there are replaced. If they were "
            "changed, delete them from the table first"
        )
    if not followed.lost:
        return descent, followed
    descent = table.descent(before, full=True)
    followed = follow_rows(tried, before, descent, brought, name="follow-fully")
    if force or not followed.lost or not followed.new:
        return descent, followed
    if came := changed_rows(tried, descent, followed):
        lost = sum(len(at) for at in followed.lost.values())
        last = descent.rewritings[int(np.flatnonzero(followed.lost_by)[-1])].version
        raise PlanError(
            f"{_of(tried, before)}, and others have put {came} other rows in the place of {lost} of them, "
            f"the last ones by snapshot {last}, or so it seems; whether these are changed ones cannot be "
            "told. If they are not, set force; if they are, delete them from the table first"
        )
    return descent, followed


def _of(tried: SinkTry, before: SinkMark) -> str:
    return f"table {tried.order.spec.table}: {before.key} was sunk before, from other rows"


def _brought(tried: SinkTry, before: SinkMark) -> NewRows:
    """The rows of a sink, from where they came."""
    why = "the table does not know from where"
    if before.source is not None:
        from hipslake.steps.sink.catalog_rows import standing_version  # files need nothing of catalogs

        try:
            source = standing_version(before.source)
            return replace(tried.new, rows=rows_of(source, tried.engine))
        except (CatalogNotFoundError, CatalogFormatError, InputError, VersionNotFoundError) as error:
            why = str(error)
    forgotten = tried.table.marks.forgotten_by(before.key)
    by_hand = f"; or delete them from the table by hand, and then {forgotten}" if forgotten else ""
    raise PlanError(
        f"{_of(tried, before)}, and its {before.rows} rows lie in files with others by now. The snapshots "
        f"that tell which they are have expired, and the rows cannot be read again ({why}). Use mode "
        f"overwrite-interval or upsert{by_hand}"
    )


@dataclass(frozen=True)
class WriteKeptTask:
    """Writes what stays of files.

    Attributes
    ----------
    files : tuple of StoredFile
    orders : tuple of (int or None)
        The number of the sort order of each.
    gone : RowPositions
        Rows of each file that go.
    fields : tuple of PartitionField
        Of the table's columns.
    writer : RowWriter
    """

    files: tuple[StoredFile, ...]
    orders: tuple[int | None, ...]
    gone: RowPositions
    fields: tuple[PartitionField, ...]
    writer: RowWriter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Write what stays of a file, in as many files as it has partition values: of its own spec, one."""
        schema = self.writer.arrow_schema
        batches = list(
            without(read_data_file(self.files[number], schema, schema.names), self.gone.of(number))
        )
        rows = pa.Table.from_batches(batches, schema).combine_chunks()
        columns = pa.concat_tables([value_columns(self.fields, batch) for batch in batches])
        values = PartitionValues.of(columns)
        numbers = pa.array(values.numbers(columns, rows.num_rows))
        writer = self.writer.unsorted(self.orders[number])
        written = []
        for value, record in enumerate(values.records()):
            some = rows.filter(pc.equal(numbers, value))
            if some.num_rows:
                written.append(writer.write_file(some, record, f"{APART}/{number:06d}-{value:06d}"))
        yield described(written)


def write_kept(
    engine: Engine,
    writer: RowWriter,
    fields: tuple[PartitionField, ...],
    table: str,
    files: Sequence[tuple[LiveFile, int]],
    gone: RowPositions,
) -> list[NewFile]:
    """Write what stays of files: so many rows of each, without those that are `gone`.

    Parameters
    ----------
    engine : Engine
    writer : RowWriter
    fields : tuple of PartitionField
        Of the table's columns.
    table : str
        Its name.
    files : sequence of (LiveFile, int)
    gone : RowPositions
        By the number of each, the positions of the rows that go among those that are not deleted.

    Raises
    ------
    VerificationError
        There are more or fewer rows than should stay.
    """
    if not files:
        return []
    orders = tuple(file.sort_order for file, _ in files)
    task = WriteKeptTask(tuple(file.stored for file, _ in files), orders, gone, fields, writer)
    with engine.progress("keep"):
        written = undescribed(engine.run(task, tasks=len(files), result=FILES_SCHEMA))
    rows, due = sum(file.rows for file in written), sum(rows for _, rows in files)
    if rows != due:
        raise VerificationError(
            f"table {table}: {due} rows were to stay of {len(files)} files, and {rows} did; "
            "nothing is committed. Run it again"
        )
    return written


_MINE, _LOST, _NEW = range(3)
_ROUTED = pa.schema(
    [("identity", pa.int64()), ("kind", pa.int64()), ("low", pa.uint64()), ("high", pa.uint64())]
)
_RESULT = pa.schema([("identity", pa.int64()), ("twice", pa.bool_()), ("alike", pa.int64())])
_TASK_VALUES = 4_000_000
_VALUE_BYTES = 32.0


def changed_rows(tried: SinkTry, descent: Descent, followed: Followed) -> int:
    """Count the rows which others have added that may be changed ones of a sink.

    Rows that are gone were deleted or changed. A row that came is a changed one of them if it has the
    identity of one: it is equal to it in the identifier fields of the table, where it has such; elsewhere in
    a column in which no two rows of the sink are equal. Columns of real numbers and truths identify nothing.
    Where no column identifies the rows of a sink, any row that came may be a changed one.

    Parameters
    ----------
    tried : SinkTry
    descent : Descent
    followed : Followed
        With rows that are lost, and new ones.
    """
    engine, schema, work = tried.engine, tried.new.schema, tried.write.work
    files = tuple(file.stored for file in descent.files)
    kinds = (followed.mine, followed.lost, followed.new)
    told = tried.table.identifier
    identities = (told,) if told else tuple((field.name,) for field in schema if _identifies(field.type))
    rows = sum(len(at) for kind in kinds for at in kind.values())
    targets = max(engine.cores, -(-rows * len(identities) // _TASK_VALUES))
    task = ChangedRowsTask(
        files,
        schema,
        identities,
        tuple(RowPositions.kept(work.sub(f"changed-{at}"), kind) for at, kind in enumerate(kinds)),
        targets,
    )
    twice, alike = np.zeros(len(identities), bool), np.zeros(len(identities), np.int64)
    if identities:
        with engine.progress("compare"):
            found = engine.exchange(
                sources=len(files),
                mapper=task.route,
                targets=targets,
                reducer=task.compare,
                result=_RESULT,
                scratch=blocks_in_folder(work, "exchange-changed", _VALUE_BYTES * rows * len(identities)),
            )
        for row in found.to_pylist():
            twice[row["identity"]] |= row["twice"]
            alike[row["identity"]] += row["alike"]
    if told:
        return int(alike[0])
    if twice.all():
        return sum(len(at) for at in followed.new.values())
    return int(alike[~twice].max())


def _identifies(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind))


@dataclass(frozen=True)
class ChangedRowsTask:
    """Both halves of the exchange: values of each identity meet. Sources are the files.

    Attributes
    ----------
    files : tuple of StoredFile
    schema : pyarrow.Schema
    identities : tuple of tuple of str
        Columns that together identify rows, or may.
    positions : tuple of RowPositions
        Per file, of the rows of the sink that are there; of those that are lost; and of new ones.
    targets : int
    """

    files: tuple[StoredFile, ...]
    schema: pa.Schema
    identities: tuple[tuple[str, ...], ...]
    positions: tuple[RowPositions, ...]
    targets: int

    def route(self, number: int) -> Iterator[Routed]:
        """Send the hashes of a file's values; nulls, which identify nothing, as values that come twice."""
        chosen = [each.of(number) for each in self.positions]
        if all(at is None for at in chosen):
            return
        names = list(dict.fromkeys(name for each in self.identities for name in each))
        position = 0
        for batch in read_data_file(self.files[number], self.schema, names):
            for kind, at in enumerate(chosen):
                if at is None:
                    continue
                first, last = np.searchsorted(at, [position, position + batch.num_rows]).tolist()
                if first < last:
                    yield from self._routed(batch.take(pa.array(at[first:last] - position)), kind)
            position += batch.num_rows

    def _routed(self, rows: pa.RecordBatch, kind: int) -> Iterator[Routed]:
        for identity, names in enumerate(self.identities):
            some = rows.select(list(names))
            low, high = hashes_of_rows(some)
            for column in some.columns:
                if column.null_count:
                    null = pc.is_null(column).to_numpy(zero_copy_only=False)
                    low[null] = high[null] = 0
            target = (high % np.uint64(self.targets)).astype(np.int64)
            parts = [np.full(len(low), identity), np.full(len(low), kind), low, high]
            routed = pa.RecordBatch.from_arrays([pa.array(part) for part in parts], schema=_ROUTED)
            yield from to_targets(routed, target)

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Look whether values come twice in the sink, and how many new rows have one of a lost row."""
        rows = pa.Table.from_batches([block.rows for block in blocks], _ROUTED)
        blocks.clear()
        identity, kind, low, high = (rows[name].to_numpy() for name in _ROUTED.names)
        null = (low == 0) & (high == 0)
        order = np.lexsort((high, low, identity))
        steps = np.zeros(len(order), np.int64)
        for part in (identity, low, high):
            steps[1:] |= np.diff(part[order]) != 0
        value = np.empty(len(order), np.int64)
        value[order] = np.cumsum(steps)
        mine, lost = (
            np.bincount(value[some], minlength=len(order)) for some in (kind != _NEW, kind == _LOST)
        )
        found: dict[int, tuple[bool, int]] = {}
        for each in np.unique(identity).tolist():
            here: NDArray[np.bool_] = identity == each
            twice = bool((mine[value[here]] > 1).any() or (null & here & (kind != _NEW)).any())
            alike = here & (kind == _NEW) & ~null & (lost[value] > 0)
            found[each] = (twice, int(alike.sum()))
        told = [(each, *of) for each, of in found.items()]
        yield pa.record_batch(list(zip(*told, strict=True)), schema=_RESULT)
