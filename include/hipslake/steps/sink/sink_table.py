"""The sink: rows go into a table, in files of about the size that is wanted, by one commit.

One job does all of it, since what an upsert rewrites is only right for the files that it was made from. If
other writers come first, an append is committed on top of theirs; where they touched what was read, the rows
are looked up again. It runs on any engine.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from hipslake.engine.model import Engine
from hipslake.errors import ConflictError
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.specs.table_writing import TableMode
from hipslake.steps.report import Phases
from hipslake.steps.sink.count_rows import count_rows
from hipslake.steps.sink.known_sinks import check_not_sunk_earlier
from hipslake.steps.sink.position_deletes import write_deletes
from hipslake.steps.sink.replaced import Replaced
from hipslake.steps.sink.sink_statistics import check_counted, sketches_of_staying
from hipslake.steps.sink.sink_try import NO_POSITIONS, NewRows, SinkTry
from hipslake.steps.sink.source_records import SourceRecords, check_operations
from hipslake.steps.sink.source_rows import NoRows, Rows, rows_of
from hipslake.steps.sink.stream_batches import has_batch
from hipslake.steps.sink.tasks import WriteRowsTask, check_files, plan_sink
from hipslake.steps.sink.write_files import WrittenRows, write_files, write_rolling
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.tables.alterations import EvolutionKind, TableAlteration
from hipslake.tables.fitting import check_interval, in_table, stored_schema
from hipslake.tables.marks import SinkMark, same_digest
from hipslake.tables.nested_casts import renamed
from hipslake.tables.opening import table_of
from hipslake.tables.protocol import CommittedSink, NamedTable, NewDeletes, TableState, WriteChange
from hipslake.tables.row_keys import check_key
from hipslake.tables.sink_order import SinkOrder, SinkOutcome, VersionRows
from hipslake.versions.pins import keep_for_reading

log = logging.getLogger(__name__)

REPLANS = 30


def sink(order: SinkOrder, engine: Engine, *, stale_after: float | None = None) -> SinkOutcome:
    """Sink the rows of an order into its table.

    Sunk again, the same rows of the same interval leave the table as it is, whatever was done to it since;
    other rows of that interval take the place of the first ones. Of a stream, the newest batch leaves it as
    it is, a later one adds its rows, and an earlier one is refused.

    Parameters
    ----------
    order : SinkOrder
    engine : Engine
    stale_after : float, optional
        Seconds of silence after which another write of the table counts as dead, and is swept.

    Raises
    ------
    SpecError
        A transform, a key or an interval does not fit to its column; or a tag is of something else.
    SchemaMismatchError
        The rows do not fit to the table.
    InputError
        A key is null, or stands twice; or a row lies outside of the interval.
    PlanError
        What was sunk before cannot be told from other rows any more; or it is not known any more what
        changed since.
    ConflictError
        Other writers kept changing what was read.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    StorageError
        Catalog or store do not answer.
    """
    with closing(table_of(order)) as table:
        return _Sink(table, order, engine, stale_after).run()


@dataclass(frozen=True)
class _Opened:
    """The rows of an order.

    Attributes
    ----------
    rows : Rows
    derived : tuple of PartitionField
        Pixels that are made.
    stored : pyarrow.Schema
        The columns of the rows, as a table keeps them.
    deleted : Rows or None
        Records that delete the row of their key.
    """

    rows: Rows
    derived: tuple[PartitionField, ...]
    stored: pa.Schema
    deleted: Rows | None = None


class _Sink:
    """An order and its table, and what all tries together did to the table itself."""

    def __init__(
        self, table: NamedTable, order: SinkOrder, engine: Engine, stale_after: float | None
    ) -> None:
        self._table = table
        self._order = order
        self._engine = engine
        self._stale_after = stale_after
        self._phases = Phases()
        self._created = False
        self._changes: tuple[TableAlteration, ...] = ()
        self._swept: tuple[str, ...] = ()

    def run(self) -> SinkOutcome:
        """Try until no other writer comes between."""
        name = self._order.spec.table
        opened = self._opened()
        with self._phases("prepare"):
            self._check_columns(opened)
            self._shaped(opened)
            self._swept = tuple(self._table.sweep(self._stale_after))
            for path in self._swept:
                log.info("Table %s: removed %s, which a dead write had left.", name, path)
        for replan in range(1, REPLANS + 1):
            try:
                return self._try(opened)
            except ConflictError:
                if replan == REPLANS:
                    raise
                log.info("Table %s: others have changed what was read; planning anew (%d).", name, replan)
                wait_for_others(replan)
        raise AssertionError("unreachable")

    def _opened(self) -> _Opened:
        """Open the rows, and look whether they are what the spec says."""
        order, spec = self._order, self._order.spec
        with self._phases("prepare"):
            now = self._table.now()
            standing = None if now is None else renamed(now.schema, spec.rename)
        with self._phases("wait"):
            log.debug("Tasks run on %d cores.", self._engine.cores)  # whose session may still be starting
        with self._phases("prepare"):
            shuffled = spec.mode is TableMode.UPSERT
            rows = rows_of(order.rows, self._engine, standing, shuffled=shuffled)
            deleted: Rows | None = None
            if spec.operation is not None and not isinstance(rows, NoRows):
                check_operations(rows.schema, spec)
                records = SourceRecords(rows, spec.operation, spec.key, deletes=False)
                rows, deleted = records, replace(records, deletes=True)
            derived = tuple(
                field
                for field in (*spec.partition, *(sort.field for sort in spec.sort))
                if field.transform is TransformName.HEALPIX
            )
            stored = stored_schema(rows.schema, order.rows.columns, derived)
            check_key(stored, [name for name in spec.key if name in stored.names])
            check_interval(order, stored)
            check_counted(self._counted, stored, *([] if standing is None else [standing]))
        return _Opened(rows, derived, stored, deleted)

    @property
    def _counted(self) -> tuple[str, ...]:
        """The columns whose distinct values are counted."""
        asked = self._order.spec.statistics
        return () if asked is None else asked.ndv

    def _check_columns(self, opened: _Opened) -> None:
        """Look that a table which follows a catalog has its columns."""
        order, now = self._order, self._table.now()
        before = None if now is None else now.marks.of(order.key)
        if now is not None and before is not None and order.spec.follows_changes and not order.force:
            from hipslake.steps.sink.changed_rows import check_has_columns  # files need nothing of catalogs

            # Another partitioning is refused by the table itself.
            pixels = {field.column for field in order.spec.partition} - set(opened.rows.schema.names)
            stored = pa.schema([field for field in opened.stored if field.name not in pixels])
            check_has_columns(order, before, stored, now.schema)

    def _shaped(self, opened: _Opened) -> TableState:
        """The table, made if there is none, and changed so that the rows fit."""
        shaped = self._table.shaped(self._order.spec, opened.stored)
        self._created |= shaped.created
        self._changes += shaped.changes
        return shaped.state

    def _try(self, opened: _Opened) -> SinkOutcome:
        """From what stands in the table now to a commit, unless these very rows were sunk before."""
        order = self._order
        if isinstance(opened.rows, NoRows):
            opened = self._opened()  # its columns are those of the table
        self._check_columns(opened)
        state = self._shaped(opened)  # others may have changed its columns
        before = state.marks.of(order.key)
        if before is not None and self._stands(before):
            log.info("Table %s: %s was sunk before, from the same rows.", order.spec.table, order.key)
            return SinkOutcome(
                table=order.spec.table,
                location=state.location,
                skipped=True,
                found_snapshot_id=state.version_of(before),
                found_rows=before.rows,
                swept=self._swept,
                seconds=self._phases.seconds,
            )
        if before is None:
            check_not_sunk_earlier(order, state)
        if (tag := order.tag) is not None:
            state.check_tag(tag, order.key)
        with ExitStack() as held, state.writing() as write:
            new = self._new_rows(opened, before, held)
            sort = tuple(each.model_copy(update={"field": in_table(each.field)}) for each in order.spec.sort)
            writer = write.writer(sort, self._counted)
            tried = SinkTry(
                order,
                self._engine,
                state,
                before,
                state.marks.may_stand(order.key),
                replace(new, schema=writer.arrow_schema),
                tuple(in_table(field) for field in order.spec.partition),
                write,
                writer,
                () if sort else state.clustered_by,
            )
            return self._sunk(tried)

    def _stands(self, before: SinkMark) -> bool:
        """Whether the table has the rows of the order, by the mark of its key."""
        order = self._order
        if order.batch is not None:
            return has_batch(before, order.batch, order.spec.table, force=order.force)
        return same_digest(before.fingerprint, order.fingerprint) and not order.force

    def _new_rows(self, opened: _Opened, before: SinkMark | None, held: ExitStack) -> NewRows:
        """The rows of a try: those of the order, or what changed since they were sunk last."""
        order = self._order
        if before is None or order.force or not order.spec.follows_changes:
            return NewRows(opened.rows, opened.stored, opened.derived, opened.deleted)
        from hipslake.steps.sink.changed_rows import changes_since  # files need nothing of catalogs

        with self._phases("compare"):
            found = changes_since(order, before)
        assert isinstance(order.rows, VersionRows), "a catalog has changes"
        keep_for_reading(held, Storage.at(order.rows.uri), found.feed.old.version)
        log.info(
            "Table %s: version %d of the catalog is compared with version %d, in %d stretches of the curve.",
            order.spec.table,
            found.feed.new.version,
            found.feed.old.version,
            len(found.feed.stretches),
        )
        return NewRows(found.came, opened.stored, opened.derived, found.went, follows=True)

    def _sunk(self, tried: SinkTry) -> SinkOutcome:
        """Write the files of a try, and commit them."""
        phases = self._phases
        with phases("write"):
            rolled = write_rolling(tried)
        written = self._written(tried) if rolled is None else rolled
        counted, replaced, plan, deletes = written.counted, written.replaced, written.plan, written.deletes
        check_files(
            self._order.spec.table,
            written.files,
            plan.shuffle,
            counted.rows + plan.rewritten,
            fewer=bool(tried.clustered_by),
        )
        with phases("commit"):
            committed = self._committed(tried, written)
            self._swept += committed.swept
        files = [*written.files, *written.kept]
        return SinkOutcome(
            table=self._order.spec.table,
            location=tried.table.location,
            snapshot_id=committed.version,
            created=self._created,
            columns_added=tuple(
                dict.fromkeys(each.column for each in self._changes if each.kind is EvolutionKind.ADD)
            ),
            changes=tuple(dict.fromkeys(each.text for each in self._changes)),
            swept=self._swept,
            rows_in=counted.rows + replaced.left_out + counted.delete_records,
            delete_records=counted.delete_records,
            rows_out=counted.rows,
            rows_left_out=replaced.left_out,
            rows_updated=replaced.rows - replaced.by_deletes,
            rows_deleted=replaced.by_deletes,
            missing_deletes=replaced.missing_deletes,
            outdated=replaced.outdated,
            rows_rewritten=plan.rewritten + sum(file.rows for file in written.kept),
            case=plan.shuffle.case.value,
            plan=plan.shuffle.explain(),
            expected_files=plan.shuffle.expected_files + len(written.kept),
            files_added=len(files),
            files_removed=len(replaced.removed),
            files_read=replaced.read,
            delete_files=len(deletes),
            bytes=sum(file.bytes for file in (*files, *(each.file for each in deletes))),
            task_bytes=written.task_bytes,
            attempts=committed.attempts,
            ndv=dict(committed.ndv),
            seconds=phases.seconds,
        )

    def _written(self, tried: SinkTry) -> WrittenRows:
        """Count the rows of a try, plan its files, and write them."""
        # Rows that are written as they come need nothing of it.
        from hipslake.steps.sink.earlier_sink import write_kept
        from hipslake.steps.sink.replaced_rows import find_replaced

        phases = self._phases
        with phases("count"):
            counted = count_rows(tried, NO_POSITIONS)
        with phases("find"):
            replaced = find_replaced(tried, counted)
            if replaced.left_out:
                again = count_rows(tried, replaced.dropped)
                counted = replace(
                    again, keys=counted.keys, ranges=counted.ranges
                )  # also of what was left out
        plan = plan_sink(tried, counted, replaced)
        log.info("%s", plan.shuffle.explain())
        with phases("sample") if tried.clustered_by else nullcontext():
            task = WriteRowsTask.of(tried, plan, replaced)
        with phases("write"):
            files = write_files(task, self._engine, tried.write.work)
            kept = write_kept(
                self._engine,
                tried.writer,
                tried.fields,
                self._order.spec.table,
                replaced.mixed,
                replaced.mixed_gone,
            )
            deletes = self._deletes(tried, replaced)
        with phases("statistics") if self._counted else nullcontext():
            stays = sketches_of_staying(tried, replaced)
        return WrittenRows(counted, plan, files, replaced, kept, deletes, stays, task.bytes_by_task(files))

    def _deletes(self, tried: SinkTry, replaced: Replaced) -> list[NewDeletes]:
        """Write the files of deletes of a try."""
        if not replaced.deleted:
            return []
        return write_deletes(
            self._engine,
            tried.write.deleter(),
            tried.new.schema,
            replaced.deleted,
            replaced.deleted_gone,
            replaced.deleted_rows,
        )

    def _committed(self, tried: SinkTry, written: WrittenRows) -> CommittedSink:
        order, before = self._order, tried.before
        counted, replaced = written.counted, written.replaced

        def check(now: TableState) -> None:
            if now.marks.of(order.key) != before or now.marks.may_stand(order.key) != tried.doubtful:
                raise ConflictError(f"table {order.spec.table}: another run has sunk {order.key} meanwhile")
            if now.version != tried.table.version:
                from hipslake.steps.sink.replaced_rows import check_none_came  # seldom

                check_none_came(tried, now, counted, replaced)

        mark = SinkMark(
            key=order.key,
            fingerprint=order.fingerprint,
            content=order.rows.content,
            rows=counted.rows,
            write=tried.write.write_id,
            at=datetime.now(UTC),
            start=order.start,
            end=order.end,
            whole=order.whole,
            source=order.rows if isinstance(order.rows, VersionRows) else None,
            batch=order.batch,
            alone=not written.plan.rewritten,  # the files of the new rows hold no others
            replaced=before.model_copy(update={"replaced": None}) if before else None,
        )
        change = WriteChange(
            [*written.files, *written.kept],
            replaced.removed,
            written.deletes,
            mark,
            tag=order.tag,
            stays=written.stays,
        )
        return tried.write.commit(change, check, self._stale_after)
