"""The rows of an earlier sink are taken out of the files in which they lie with others.

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
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

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
from hipslake.specs.partitioning import PartitionField
from hipslake.steps.sink.follow_rows import Followed, follow_rows, hashes_of_rows
from hipslake.steps.sink.source_rows import NewRows, Positions, rows_of, runs_of, standing_version, without
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.descent import Descent, descent_of
from hipslake.tables.iceberg.file_writer import FILES_SCHEMA, FileWriter, WrittenFile, described, undescribed
from hipslake.tables.iceberg.stored_marks import PREFIX, Sunk
from hipslake.tables.partition_values import PartitionValues, value_columns
from hipslake.tables.stored_files import StoredFile, read_data_file

APART = "kept"
"""The folder, in that of a write, for rows that stay of files with others."""


def follow_sink(
    engine: Engine, table: Table, before: Sunk, new: NewRows, work: Storage, *, force: bool
) -> tuple[Descent, Followed]:
    """Find the rows of a sink in the files of a table.

    Parameters
    ----------
    engine : Engine
    table : pyiceberg.table.Table
    before : Sunk
    new : NewRows
        Those that take their place.
    work : Storage
        At the folder of the write.
    force : bool
        What is not found is taken for deleted.

    Raises
    ------
    PlanError
        Which rows they are is not known any more; or others have changed some of them.
    """
    descent = descent_of(table, before)
    brought = None if descent.whole else _brought(before, new, engine, table)
    followed = _followed(engine, table, before, new, descent, brought, work)
    if followed.found != before.rows and not force:
        raise PlanError(
            f"{_of(table, before)}, and {before.rows - followed.found} of its {before.rows} rows are not in "
            "the table by their values, as far back as there are snapshots; others have deleted or changed "
            "them. If they were deleted, set force: then those that are there are replaced. If they were "
            "changed, delete them from the table first"
        )
    if not followed.lost:
        return descent, followed
    descent = descent_of(table, before, full=True)
    followed = _followed(engine, table, before, new, descent, brought, work, name="follow-fully")
    if force or not followed.lost or not followed.new:
        return descent, followed
    files = tuple(StoredFile.of(file, table) for file in descent.files)
    if came := resembling(engine, table=table, schema=new.schema, files=files, followed=followed, work=work):
        lost = sum(len(at) for at in followed.lost.values())
        last = descent.rewritings[int(np.flatnonzero(followed.lost_by)[-1])].snapshot_id
        raise PlanError(
            f"{_of(table, before)}, and others have put {came} other rows in the place of {lost} of them, "
            f"the last ones by snapshot {last}, or so it seems; whether these are changed ones cannot be "
            "told. If they are not, set force; if they are, delete them from the table first"
        )
    return descent, followed


def _followed(
    engine: Engine,
    table: Table,
    before: Sunk,
    new: NewRows,
    descent: Descent,
    brought: NewRows | None,
    work: Storage,
    **given: str,
) -> Followed:
    return follow_rows(
        engine,
        files=tuple(StoredFile.of(file, table) for file in descent.files),
        rows=sum(file.record_count for file in descent.files) + (0 if descent.whole else before.rows),
        schema=new.schema,
        descent=descent,
        brought=brought,
        work=work,
        **given,
    )


def _of(table: Table, before: Sunk) -> str:
    return f"table {'.'.join(table.name())}: {before.key} was sunk before, from other rows"


def _brought(before: Sunk, new: NewRows, engine: Engine, table: Table) -> NewRows:
    """The rows of a sink, from where they came."""
    why = "the table does not know from where"
    if before.source is not None:
        try:
            source = standing_version(before.source)
            return NewRows(rows_of(source, engine), new.schema, new.derived)
        except (CatalogNotFoundError, CatalogFormatError, InputError, VersionNotFoundError) as error:
            why = str(error)
    raise PlanError(
        f"{_of(table, before)}, and its {before.rows} rows lie in files with others by now. The snapshots "
        f"that tell which they are have expired, and the rows cannot be read again ({why}). Use mode "
        f"overwrite-interval or upsert; or delete them from the table by hand, and then its property "
        f"{PREFIX}* with the key {before.key}"
    )


@dataclass(frozen=True)
class KeepTask:
    """Writes what stays of files.

    Attributes
    ----------
    files : tuple of StoredFile
    orders : tuple of (int or None)
        The number of the sort order of each.
    gone : Positions
        Rows of each file that go.
    fields : tuple of PartitionField
        Of the table's columns.
    writer : FileWriter
    """

    files: tuple[StoredFile, ...]
    orders: tuple[int | None, ...]
    gone: Positions
    fields: tuple[PartitionField, ...]
    writer: FileWriter

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
        writer = replace(self.writer, sort=(), sort_order_id=self.orders[number])
        written = []
        for value, record in enumerate(values.records()):
            some = rows.filter(pc.equal(numbers, value))
            if some.num_rows:
                written.append(writer.write(some, record, f"{APART}/{number:06d}-{value:06d}"))
        yield described(written)


def write_kept(
    engine: Engine,
    table: Table,
    files: Sequence[tuple[DataFile, int]],
    gone: Positions,
    fields: tuple[PartitionField, ...],
    writer: FileWriter,
) -> list[WrittenFile]:
    """Write what stays of files.

    Parameters
    ----------
    engine : Engine
    table : pyiceberg.table.Table
    files : sequence of (DataFile, int)
        And how many rows of each stay.
    gone, fields, writer
        As for `KeepTask`.

    Raises
    ------
    VerificationError
        There are more or fewer rows than should stay.
    """
    if not files:
        return []
    known = table.sort_orders()
    orders = tuple(file.sort_order_id if file.sort_order_id in known else None for file, _ in files)
    stored = tuple(StoredFile.of(file, table) for file, _ in files)
    task = KeepTask(stored, orders, gone, fields, writer)
    with engine.progress("keep"):
        written = undescribed(engine.run(task, tasks=len(files), result=FILES_SCHEMA))
    rows, due = sum(file.rows for file in written), sum(rows for _, rows in files)
    if rows != due:
        raise VerificationError(
            f"table {'.'.join(table.name())}: {due} rows were to stay of {len(files)} files, and {rows} did; "
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


def resembling(
    engine: Engine,
    *,
    table: Table,
    schema: pa.Schema,
    files: tuple[StoredFile, ...],
    followed: Followed,
    work: Storage,
) -> int:
    """Count the rows which others have added that may be changed ones of a sink.

    Parameters
    ----------
    engine : Engine
    table : pyiceberg.table.Table
    schema : pyarrow.Schema
        Of the table.
    files : tuple of StoredFile
        Those of the descent.
    followed : Followed
        With rows that are lost, and new ones.
    work : Storage
        Where positions and blocks may wait.
    """
    kinds = (followed.mine, followed.lost, followed.new)
    told = _identifier(table, schema)
    identities = (told,) if told else tuple((field.name,) for field in schema if _identifies(field.type))
    rows = sum(len(at) for kind in kinds for at in kind.values())
    targets = max(engine.cores, -(-rows * len(identities) // _TASK_VALUES))
    task = ResembleTask(
        files,
        schema,
        identities,
        tuple(Positions.kept(work.sub(f"resembling-{at}"), kind) for at, kind in enumerate(kinds)),
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
                scratch=blocks_in_folder(work, "exchange-resembling", _VALUE_BYTES * rows * len(identities)),
            )
        for row in found.to_pylist():
            twice[row["identity"]] |= row["twice"]
            alike[row["identity"]] += row["alike"]
    if told:
        return int(alike[0])
    if twice.all():
        return sum(len(at) for at in followed.new.values())
    return int(alike[~twice].max())


def _identifier(table: Table, schema: pa.Schema) -> tuple[str, ...]:
    """The identifier fields of a table; none, if some are parts of nested columns."""
    names = tuple(sorted(table.schema().identifier_field_names()))
    return names if all(name in schema.names for name in names) else ()


def _identifies(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind))


@dataclass(frozen=True)
class ResembleTask:
    """Both halves of the exchange: values of each identity meet. Sources are the files.

    Attributes
    ----------
    files : tuple of StoredFile
    schema : pyarrow.Schema
    identities : tuple of tuple of str
        Columns that together identify rows, or may.
    positions : tuple of Positions
        Per file, of the rows of the sink that are there; of those that are lost; and of new ones.
    targets : int
    """

    files: tuple[StoredFile, ...]
    schema: pa.Schema
    identities: tuple[tuple[str, ...], ...]
    positions: tuple[Positions, ...]
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
            order = np.argsort(target, kind="stable")
            parts = [np.full(len(order), identity), np.full(len(order), kind), low[order], high[order]]
            routed = pa.RecordBatch.from_arrays([pa.array(part) for part in parts], schema=_ROUTED)
            for start, stop in runs_of(target[order]):
                yield int(target[order[start]]), routed.slice(start, stop - start)

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
        columns = [
            pa.array(column, kind)
            for column, kind in zip(zip(*told, strict=True), _RESULT.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)
