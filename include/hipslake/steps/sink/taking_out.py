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
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.engine.model import Engine
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    InputError,
    PlanError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.sink.following import Followed, follow_rows
from hipslake.steps.sink.resembling import resembling
from hipslake.steps.sink.sink_rows import NewRows, without
from hipslake.storage.folder import Storage
from hipslake.tables.descent import Descent, descent_of
from hipslake.tables.old_rows import StoredFile, read_data_file
from hipslake.tables.positions import Positions
from hipslake.tables.rows import rows_of, standing_version
from hipslake.tables.sunk import PREFIX, Sunk
from hipslake.tables.values import PartitionValues, value_columns
from hipslake.tables.writing import FILES_SCHEMA, FileWriter, WrittenFile, described, undescribed

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
