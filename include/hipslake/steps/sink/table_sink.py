"""The sink: rows go into an Iceberg table, in files of about the size that is wanted, by one commit.

One job does all of it, since what an upsert rewrites is only right for the files that it was made from. If
other writers come first, an append is committed on top of theirs; where they touched what was read, the rows
are looked up again. It runs on any engine.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hipslake.catalog.committing import wait_for_others
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, PlanError, SpecError
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.specs.table_spec import TableMode
from hipslake.steps.report import Phases
from hipslake.steps.sink.file_plan import plan_sink
from hipslake.steps.sink.new_rows import Counted, count_rows
from hipslake.steps.sink.replaced_rows import Replaced, Standing, check_none_came, find_replaced
from hipslake.steps.sink.sink_rows import NewRows
from hipslake.steps.sink.taking_out import write_kept
from hipslake.steps.sink.tasks import WriteTask, check_files, write_files
from hipslake.tables.catalogs import find_table, open_catalog
from hipslake.tables.commit import Change, ChangeKind, Committed, commit, snapshot_of
from hipslake.tables.fitting import OpenTable, fitting_table
from hipslake.tables.keys import check_key
from hipslake.tables.lineage import next_place
from hipslake.tables.older_sinks import same_digest
from hipslake.tables.order import CatalogRows, SinkOrder, SinkOutcome
from hipslake.tables.partitioning import in_table
from hipslake.tables.positions import NO_POSITIONS
from hipslake.tables.rows import NoRows, Rows, rows_of
from hipslake.tables.schemas import arrow_schema, check_written, stored_schema
from hipslake.tables.sunk import (
    KEPT,
    KEY_PROPERTY,
    SUNK_PROPERTY,
    StandingSinks,
    Sunk,
    sunk_properties,
    was_sunk_earlier,
)
from hipslake.tables.writes import claim, finish, heartbeat, sweep_held_up, sweep_writes, writes_of
from hipslake.tables.writing import FileWriter, WrittenFile
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)

REPLANS = 30


def sink(order: SinkOrder, engine: Engine, *, stale_after: float | None = None) -> SinkOutcome:
    """Sink the rows of an order into its table.

    Sunk again, the same rows of the same interval leave the table as it is, whatever was done to it since;
    other rows of that interval take the place of the first ones.

    Parameters
    ----------
    order : SinkOrder
    engine : Engine
    stale_after : float, optional
        Seconds of silence after which another write of the table counts as dead, and is swept.

    Raises
    ------
    SpecError
        A transform, a key or an interval does not fit to its column.
    SchemaMismatchError
        The rows do not fit to the table.
    InputError
        A key is null, or stands twice; or a row lies outside of the interval.
    PlanError
        What was sunk before cannot be told from other rows any more.
    ConflictError
        Other writers kept changing what was read.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    StorageError
        Catalog or store do not answer.
    """
    with closing(open_catalog(order.spec.iceberg, order.warehouse)) as catalog:
        return _sunk_into(catalog, order, engine, stale_after)


@dataclass(frozen=True)
class _Opened:
    """What holds for all tries of an order.

    Attributes
    ----------
    rows : Rows
    derived : tuple of PartitionField
        Pixels that are made.
    stored : pyarrow.Schema
        The columns of the rows, as a table keeps them.
    """

    rows: Rows
    derived: tuple[PartitionField, ...]
    stored: pa.Schema


@dataclass
class _Shaped:
    """What all tries together did to the table itself."""

    created: bool = False
    columns_added: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()  # of dead writes of it
    stale_after: float | None = None

    def by(self, opened: OpenTable) -> None:
        """Take up what one did."""
        self.created |= opened.created
        self.columns_added = tuple(dict.fromkeys([*self.columns_added, *opened.columns_added]))


def _sunk_into(catalog: Catalog, order: SinkOrder, engine: Engine, stale_after: float | None) -> SinkOutcome:
    phases = Phases()
    with phases("prepare"):
        opened, shaped = _opened(catalog, order, engine), _Shaped(stale_after=stale_after)
        shaped.by(fitting_table(catalog, order.spec, opened.stored))
        shaped.swept = tuple(sweep_writes(catalog, order.spec.table, stale_after))
        for path in shaped.swept:
            log.info("Table %s: removed %s, which a dead write had left.", order.spec.table, path)
    for replan in range(1, REPLANS + 1):
        try:
            return _tried(catalog, order, engine, opened, shaped, phases)
        except ConflictError:
            if replan == REPLANS:
                raise
            log.info(
                "Table %s: others have changed what was read; planning anew (%d).", order.spec.table, replan
            )
            wait_for_others(replan)
    raise AssertionError("unreachable")


def _opened(catalog: Catalog, order: SinkOrder, engine: Engine) -> _Opened:
    """Open the rows, and look whether they are what the spec says."""
    rows = rows_of(order.rows, engine, _standing_columns(catalog, order))
    derived = tuple(
        field
        for field in (*order.spec.partition, *(sort.field for sort in order.spec.sort))
        if field.transform is TransformName.HEALPIX
    )
    stored = stored_schema(rows.schema, order.rows.columns, derived)
    check_key(stored, [name for name in order.spec.key if name in stored.names])
    _check_interval(order, stored)
    return _Opened(rows, derived, stored)


def _standing_columns(catalog: Catalog, order: SinkOrder) -> pa.Schema | None:
    """The columns of the table of an order; None if there is none yet."""
    table = find_table(catalog, order.spec.table)
    return None if table is None else arrow_schema(table.schema())


def _check_interval(order: SinkOrder, stored: pa.Schema) -> None:
    spec = order.spec
    if spec.mode is not TableMode.OVERWRITE_INTERVAL or spec.interval not in stored.names:
        return
    if order.start is None:
        raise SpecError(f"{spec.name}: mode overwrite-interval replaces the rows of an interval; give one")
    kind = stored.field(spec.interval).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SpecError(
            f"interval: column {spec.interval!r} is of type {kind}; an interval is of dates or timestamps"
        )


def _tried(
    catalog: Catalog, order: SinkOrder, engine: Engine, opened: _Opened, shaped: _Shaped, phases: Phases
) -> SinkOutcome:
    """One try: from what stands in the table now to a commit, unless these very rows were sunk before."""
    if isinstance(opened.rows, NoRows):
        opened = _opened(catalog, order, engine)  # its columns are those of the table
    fitting = fitting_table(catalog, order.spec, opened.stored)  # others may have changed its columns
    shaped.by(fitting)
    table = fitting.table
    sinks = StandingSinks(table)
    before = sinks.of(order.key)
    if before is not None and same_digest(before.fingerprint, order.fingerprint) and not order.force:
        log.info("Table %s: %s was sunk before, from the same rows.", order.spec.table, order.key)
        found = snapshot_of(table, before.write)
        return SinkOutcome(
            table=order.spec.table,
            location=table.location(),
            skipped=True,
            found_snapshot_id=found.snapshot_id if found is not None else None,
            found_rows=before.rows,
            swept=shaped.swept,
            seconds=phases.seconds,
        )
    if before is None:
        _check_not_sunk_earlier(table, sinks, order)
    write_id = claim(table)
    try:
        with heartbeat(table, write_id) as beating:
            doubtful = sinks.may_stand(order.key)
            standing = Standing(table, before, doubtful, order.spec.name)
            return _sunk(catalog, order, engine, opened, shaped, standing, write_id, beating, phases)
    except ConflictError:
        finish(table, write_id, ())  # it was overtaken, and nothing of it stands
        raise


def _check_not_sunk_earlier(table: Table, sinks: StandingSinks, order: SinkOrder) -> None:
    """Look that rows cannot come twice, or back, where it is not known any more which were sunk before."""
    mode = order.spec.mode
    if mode is TableMode.OVERWRITE_INTERVAL or (mode is TableMode.UPSERT and order.force):
        return
    if sinks.may_stand(order.key):
        raise PlanError(
            f"table {order.spec.table}: it was taken back to a snapshot of which it is not known any more "
            f"what stands of {order.key}, as others have expired; replace it once in mode overwrite-interval"
        )
    if was_sunk_earlier(table, order.key, order.start):
        mend = "set force, if no later rows are to stay" if mode is TableMode.UPSERT else "leave it as it is"
        raise PlanError(
            f"table {order.spec.table}: {order.key} was sunk before, and {KEPT} others after it, so the "
            f"table does not keep any more from which rows; {mend}, or replace it in mode overwrite-interval"
        )


def _sunk(
    catalog: Catalog,
    order: SinkOrder,
    engine: Engine,
    opened: _Opened,
    shaped: _Shaped,
    standing: Standing,
    write_id: str,
    beating: Heartbeat,
    phases: Phases,
) -> SinkOutcome:
    spec, table = order.spec, standing.table
    work = writes_of(table).sub(write_id)
    fields = tuple(in_table(field) for field in spec.partition)
    sort = tuple(each.model_copy(update={"field": in_table(each.field)}) for each in spec.sort)
    writer = FileWriter.of(table, sort, write_id)
    new = NewRows(opened.rows, writer.arrow_schema, opened.derived)
    with phases("count"):
        counted = count_rows(order, engine, new, fields, writer, NO_POSITIONS)
    with phases("find"):
        replaced = find_replaced(order, engine, standing, new, counted, work)
        if replaced.left_out:
            counted = count_rows(order, engine, new, fields, writer, replaced.dropped)
    plan = plan_sink(order, engine, table, fields, counted, replaced, new.rows.tasks)
    log.info("%s", plan.shuffle.explain())
    task = WriteTask(
        new,
        plan.old,
        replaced.dropped,
        replaced.gone,
        fields,
        plan.values,
        plan.shuffle,
        writer,
        engine.counter(),
    )
    with phases("write"):
        files = write_files(task, engine, work)
        kept = write_kept(engine, table, replaced.mixed, replaced.mixed_gone, fields, writer)
    check_files(spec.table, files, plan.shuffle, counted.rows + plan.rewritten)
    with phases("commit"):
        sunk = _sunk_by(order, standing, counted, write_id, alone=not plan.rewritten)
        committed = _commit(catalog, order, standing, counted, replaced, [*files, *kept], sunk, beating)
        paths = [file.path for file in (*files, *kept)]
        finish(committed.table, write_id, paths, attempts=committed.attempts)
        shaped.swept += tuple(sweep_held_up(catalog, committed.table, shaped.stale_after))
    return SinkOutcome(
        table=spec.table,
        location=table.location(),
        snapshot_id=committed.snapshot_id,
        created=shaped.created,
        columns_added=shaped.columns_added,
        swept=shaped.swept,
        rows_in=counted.rows + replaced.left_out,
        rows_out=counted.rows,
        rows_left_out=replaced.left_out,
        rows_updated=replaced.rows,
        rows_rewritten=plan.rewritten + sum(file.rows for file in kept),
        case=plan.shuffle.case.value,
        plan=plan.shuffle.explain(),
        expected_files=plan.shuffle.expected_files + len(kept),
        files_added=len(files) + len(kept),
        files_removed=len(replaced.removed),
        files_read=replaced.read,
        bytes=sum(file.bytes for file in (*files, *kept)),
        task_bytes=task.bytes_by_task(files),
        attempts=committed.attempts,
        seconds=phases.seconds,
    )


def _sunk_by(order: SinkOrder, standing: Standing, counted: Counted, write_id: str, *, alone: bool) -> Sunk:
    """What the table is told of a sink; `alone`: its files hold no other rows."""
    before, sinks = standing.before, StandingSinks(standing.table)
    return Sunk(
        key=order.key,
        fingerprint=order.fingerprint,
        content=order.rows.content,
        rows=counted.rows,
        write=write_id,
        at=datetime.now(UTC),
        start=order.start,
        end=order.end,
        whole=order.whole,
        source=order.rows if isinstance(order.rows, CatalogRows) else None,
        alone=alone,
        replaced=before.model_copy(update={"replaced": None}) if before else None,
        earliest=next_place(standing.table),
        since=sinks.first_of(order.key),
    )


def _commit(
    catalog: Catalog,
    order: SinkOrder,
    standing: Standing,
    counted: Counted,
    replaced: Replaced,
    files: list[WrittenFile],
    sunk: Sunk,
    beating: Heartbeat,
) -> Committed:
    planned = standing.table.metadata.current_snapshot_id

    def check(table: Table) -> None:
        beating.confirm()
        check_written(order.spec.table, standing.table.schema(), table.schema())
        sinks = StandingSinks(table)
        if sinks.of(order.key) != standing.before or sinks.may_stand(order.key) != standing.doubtful:
            raise ConflictError(f"table {order.spec.table}: another run has sunk {order.key} meanwhile")
        if table.metadata.current_snapshot_id != planned:
            check_none_came(order, standing, table, counted, replaced)

    change = Change(
        ChangeKind.OVERWRITE if replaced.removed else ChangeKind.APPEND,
        sunk.write,
        files,
        replaced.removed,
        properties=lambda table: sunk_properties(table, sunk),
        summary={KEY_PROPERTY: order.key, SUNK_PROPERTY: sunk.model_dump_json(exclude_defaults=True)},
    )
    return commit(catalog, order.spec.table, change, check)
