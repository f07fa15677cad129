"""The sink: rows go into an Iceberg table, in files of about the size that is wanted, by one commit.

One job does all of it, since what an upsert rewrites is only right for the files that it was made from. If
other writers come first, an append is committed on top of theirs; where they touched what was read, the rows
are looked up again. It runs on any engine.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.catalog.committing import wait_for_others
from hipslake.engine.model import Engine, Scratch
from hipslake.errors import ConflictError, PlanError, SpecError, VerificationError
from hipslake.spark.sink_tasks import (
    COUNT_SCHEMA,
    POSITIONS_SCHEMA,
    CountOldTask,
    CountTask,
    Interval,
    NewRows,
    OldFile,
    WriteTask,
    from_ipc,
)
from hipslake.spark.upsert import find_old_versions
from hipslake.specs.partitioning import PartitionField, TransformName
from hipslake.specs.table import TableMode
from hipslake.steps.report import Phases
from hipslake.storage import Storage
from hipslake.tables.catalogs import OpenTable, find_table, fitting_table, in_table, open_catalog
from hipslake.tables.commit import Change, ChangeKind, Committed, commit
from hipslake.tables.data_files import check_no_delete_files, live_files
from hipslake.tables.keys import KeyFilter, check_key
from hipslake.tables.order import SinkOrder, SinkOutcome
from hipslake.tables.positions import NO_POSITIONS, Positions
from hipslake.tables.rows import Rows, rows_of
from hipslake.tables.schemas import arrow_schema, stored_schema
from hipslake.tables.shuffle import ShufflePlan, ValueCounts, plan_shuffle
from hipslake.tables.skipping import files_in_interval, files_of_write, files_with_keys
from hipslake.tables.sunk import Sunk, known_sink, sunk_properties
from hipslake.tables.transforms import result_type
from hipslake.tables.values import ROWS, PartitionValues
from hipslake.tables.writes import claim, finish, heartbeat, sweep_writes, writes_of
from hipslake.tables.writing import FILES_SCHEMA, FileWriter, WrittenFile, undescribed
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)

REPLANS = 30
_SAMPLES = 3


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


def _sunk_into(catalog: Catalog, order: SinkOrder, engine: Engine, stale_after: float | None) -> SinkOutcome:
    phases = Phases()
    with phases("prepare"):
        rows = rows_of(order.rows, engine, _standing(catalog, order))
        derived = tuple(
            field
            for field in (*order.spec.partition, *(sort.field for sort in order.spec.sort))
            if field.transform is TransformName.HEALPIX
        )
        stored = stored_schema(rows.schema, order.rows.columns, derived)
        check_key(stored, [name for name in order.spec.key if name in stored.names])
        _check_interval(order, stored)
        opened = fitting_table(catalog, order.spec, stored)
        for path in sweep_writes(catalog, order.spec.table, stale_after):
            log.info("Table %s: removed %s, which a dead write had left.", order.spec.table, path)
    for replan in range(1, REPLANS + 1):
        try:
            return _Sink(order, engine, catalog, opened, rows, derived, phases).run()
        except ConflictError:
            if replan == REPLANS:
                raise
            log.info(
                "Table %s: others have changed what was read; planning anew (%d).", order.spec.table, replan
            )
            wait_for_others(replan)
    raise AssertionError("unreachable")


def _standing(catalog: Catalog, order: SinkOrder) -> pa.Schema | None:
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


@dataclass(frozen=True)
class _Counted:
    """What a pass over the new rows found."""

    rows: int
    values: pa.Table | None  # per source: number, partition values, rows
    ranges: list[pa.Table]  # least and greatest keys
    keys: KeyFilter
    row_bytes: float


@dataclass(frozen=True)
class _Replaced:
    """What goes: whole files, files of which rows stay, and new rows that others replace."""

    files: tuple[DataFile, ...] = ()
    partly: tuple[tuple[DataFile, int], ...] = ()  # with the rows that stay
    gone: Positions = NO_POSITIONS
    dropped: Positions = NO_POSITIONS
    rows: int = 0  # of the table, that go
    left_out: int = 0  # of the new ones
    read: int = 0  # files


class _Sink:
    """One try at a sink: from what stands in the table now to a commit."""

    def __init__(
        self,
        order: SinkOrder,
        engine: Engine,
        catalog: Catalog,
        opened: OpenTable,
        rows: Rows,
        derived: tuple[PartitionField, ...],
        phases: Phases,
    ) -> None:
        self.order, self.spec, self.engine, self.catalog = order, order.spec, engine, catalog
        self.opened, self.rows, self.phases = opened, rows, phases
        self.table: Table = catalog.load_table(order.spec.table)
        self.fields = tuple(in_table(field) for field in order.spec.partition)
        self.derived = derived
        self.before = known_sink(self.table, order.key)

    def run(self) -> SinkOutcome:
        """Sink, unless these very rows were sunk before."""
        before = self.before
        if before is not None and before.fingerprint == self.order.fingerprint and not self.order.force:
            log.info("Table %s: %s was sunk before, from the same rows.", self.spec.table, self.order.key)
            return SinkOutcome(
                table=self.spec.table,
                location=self.table.location(),
                skipped=True,
                seconds=self.phases.seconds,
            )
        write_id = claim(self.table)
        try:
            with heartbeat(self.table, write_id) as beating:
                return self._sink(write_id, beating)
        except ConflictError:
            finish(self.table, write_id, ())  # it was overtaken, and nothing of it stands
            raise

    def _sink(self, write_id: str, beating: Heartbeat) -> SinkOutcome:
        work = writes_of(self.table).sub(write_id)
        writer = FileWriter.of(self.table, self._sort, write_id)
        new = NewRows(self.rows, writer.arrow_schema, self.derived)
        with self.phases("count"):
            counted = self._count(new, writer, NO_POSITIONS)
        with self.phases("find"):
            replaced = self._replaced(new, counted, work)
            if replaced.left_out:
                counted = self._count(new, writer, replaced.dropped)
        values, plan, old = self._plan(counted, replaced)
        log.info("%s", plan.explain())
        task = WriteTask(
            new,
            old,
            replaced.dropped,
            replaced.gone,
            self.fields,
            values,
            plan,
            writer,
            self.engine.counter(),
        )
        with self.phases("write"):
            files = self._write(task, work)
        rewritten = sum(file.rows for file in old)
        _check(self.spec.table, files, plan, counted.rows + rewritten)
        removed = [*replaced.files, *(file for file, _ in replaced.partly)]
        with self.phases("commit"):
            committed = self._commit(files, removed, write_id, counted, beating)
            paths = [file.path for file in files]
            finish(committed.table, write_id, paths, attempts=committed.attempts)
        return SinkOutcome(
            table=self.spec.table,
            location=self.table.location(),
            snapshot_id=committed.snapshot_id,
            created=self.opened.created,
            columns_added=self.opened.columns_added,
            rows_in=counted.rows + replaced.left_out,
            rows_out=counted.rows,
            rows_left_out=replaced.left_out,
            rows_updated=replaced.rows,
            rows_rewritten=rewritten,
            case=plan.case.value,
            plan=plan.explain(),
            expected_files=plan.expected_files,
            files_added=len(files),
            files_removed=len(removed),
            files_read=replaced.read,
            bytes=sum(file.bytes for file in files),
            task_bytes=task.bytes_by_task(files),
            attempts=committed.attempts,
            seconds=self.phases.seconds,
        )

    # -- what there is ------------------------------------------------------------------------------------

    def _count(self, new: NewRows, writer: FileWriter, dropped: Positions) -> _Counted:
        tasks = self.rows.tasks
        places = frozenset(np.linspace(0, max(tasks - 1, 0), min(_SAMPLES, tasks)).astype(int).tolist())
        within = self._interval if self.spec.mode is TableMode.OVERWRITE_INTERVAL else None
        task = CountTask(
            new, self.fields, self.spec.key, within, writer, places, dropped, self.engine.counter()
        )
        with self.engine.progress("count", tasks=tasks, rows=None, done=task.done):
            found = self.engine.run(task, tasks=tasks, result=COUNT_SCHEMA)
        counts, keys, ranges = [], KeyFilter(), []
        for row in found.to_pylist():
            if row["counts"] is not None:
                table = from_ipc(row["counts"])
                counts.append(
                    table.append_column(_SOURCE, pa.array([row["source"]] * len(table), pa.int64()))
                )
            if row["filter"] is not None:
                bits = pa.decompress(row["filter"], len(keys.bits), "zstd")
                keys.unite(KeyFilter(np.frombuffer(bits, np.uint8)))
                ranges.append(from_ipc(row["ranges"]))
        weights = [weight for weight in found["row_bytes"].to_pylist() if weight is not None]
        return _Counted(
            rows=pc.sum(found["rows"]).as_py() or 0,
            values=pa.concat_tables(counts) if counts else None,
            ranges=ranges,
            keys=keys,
            row_bytes=sum(weights) / len(weights) if weights else 1.0,
        )

    def _replaced(self, new: NewRows, counted: _Counted, work: Storage) -> _Replaced:
        if self.spec.mode is TableMode.UPSERT:
            return self._replaced_by_key(new, counted, work)
        if self.spec.mode is TableMode.OVERWRITE_INTERVAL:
            return self._replaced_in_interval(new, work)
        if self.before is None:
            return _Replaced()
        files = files_of_write(self._standing, self.before.write)
        rows = sum(file.record_count for file in files)
        if rows != self.before.rows:
            raise PlanError(
                f"table {self.spec.table}: {self.order.key} was sunk before, from other rows, and its "
                f"{self.before.rows} rows lie in files with others by now ({rows} do not), so they cannot be "
                "taken out. Use mode overwrite-interval or upsert, or delete them from the table by hand"
            )
        return _Replaced(tuple(files), rows=rows)

    def _replaced_by_key(self, new: NewRows, counted: _Counted, work: Storage) -> _Replaced:
        check_no_delete_files(self.table, "an upsert")
        candidates = files_with_keys(self._standing, self.table, self.spec.key, counted.ranges)
        joined = find_old_versions(
            self.engine,
            new=new,
            paths=tuple(file.file_path for file in candidates),
            key=self.spec.key,
            last_by=self.spec.duplicates.last_by,
            keys=counted.keys,
            rows=counted.rows,
            work=work,
            scratch=_scratch(work, "exchange-keys", 64.0 * counted.rows),
        )
        touched = [candidates[number] for number in sorted(joined.old)]
        going = [joined.old[number] for number in sorted(joined.old)]
        whole: list[DataFile] = []
        partly: list[tuple[DataFile, int]] = []
        positions = {}
        for file, at in zip(touched, going, strict=True):
            if len(at) == file.record_count:
                whole.append(file)
            else:
                positions[len(partly)] = at
                partly.append((file, file.record_count - len(at)))
        return _Replaced(
            files=tuple(whole),
            partly=tuple(partly),
            gone=Positions.kept(work.sub("gone"), positions),
            dropped=Positions.kept(work.sub("dropped"), joined.new),
            rows=sum(len(at) for at in going),
            left_out=sum(len(at) for at in joined.new.values()),
            read=len(candidates),
        )

    def _replaced_in_interval(self, new: NewRows, work: Storage) -> _Replaced:
        check_no_delete_files(self.table, "replacing an interval")
        within = self._interval
        whole, maybe = files_in_interval(self._standing, self.table, within.column, within.start, within.end)
        task = CountOldTask(tuple(file.file_path for file in maybe), within, new.schema)
        found = self.engine.run(task, tasks=len(maybe), result=POSITIONS_SCHEMA) if maybe else None
        partly: list[tuple[DataFile, int]] = []
        positions = {}
        rows = sum(file.record_count for file in whole)
        for row in [] if found is None else sorted(found.to_pylist(), key=lambda row: row["number"]):
            file, at = maybe[row["number"]], np.frombuffer(row["positions"], np.int64)
            if len(at) == file.record_count:
                whole.append(file)
            elif len(at):
                positions[len(partly)] = at
                partly.append((file, file.record_count - len(at)))
            rows += len(at)
        return _Replaced(
            tuple(whole),
            tuple(partly),
            Positions.kept(work.sub("gone"), positions),
            rows=rows,
            read=len(maybe),
        )

    # -- what comes of it ---------------------------------------------------------------------------------

    def _plan(
        self, counted: _Counted, replaced: _Replaced
    ) -> tuple[PartitionValues, ShufflePlan, tuple[OldFile, ...]]:
        spec_id = self.table.spec().spec_id
        other = sorted(file.file_path for file, _ in replaced.partly if file.spec_id != spec_id)
        if other:
            raise PlanError(
                f"table {self.spec.table}: {len(other)} files to be rewritten, such as {other[0]}, are "
                "of an older "
                "partition spec; rewrite them with the present one first (in Spark: CALL "
                "system.rewrite_data_files)"
            )
        counts = counted.values
        kinds = None if counts is None else counts.drop_columns([ROWS, _SOURCE])
        old = _partition_rows([file for file, _ in replaced.partly], kinds, self.table, self.fields)
        together = old if kinds is None else pa.concat_tables([old, kinds])
        values = PartitionValues.of(together)
        of_old = values.numbers(old, len(replaced.partly))
        files = tuple(
            OldFile(file.file_path, rows, int(value))
            for (file, rows), value in zip(replaced.partly, of_old, strict=True)
        )
        source = np.arange(len(files), dtype=np.int64)
        number, rows = of_old, np.array([file.rows for file in files], np.int64)
        if counts is not None and kinds is not None:
            source = np.append(source, counts[_SOURCE].to_numpy() + len(files))
            number = np.append(number, values.numbers(kinds, counts.num_rows))
            rows = np.append(rows, counts[ROWS].to_numpy())
        some = rows > 0
        pairs = ValueCounts(source[some], number[some], rows[some], values.count)
        plan = plan_shuffle(
            pairs,
            partition=self.spec.partition,
            upsert=self.spec.mode is TableMode.UPSERT,
            key=self.spec.key,
            sources=len(files) + self.rows.tasks,
            row_bytes=counted.row_bytes,
            target_bytes=self.spec.target_file_size.value,
            cores=self.engine.cores,
            rewrites=bool(files),
        )
        return values, plan, files

    def _write(self, task: WriteTask, work: Storage) -> list[WrittenFile]:
        plan = task.plan
        sources = len(task.old) + self.rows.tasks
        rows = int(plan.counts.totals.sum())
        if not rows:
            return []
        with self.engine.progress("write", tasks=plan.tasks, rows=rows, done=task.written):
            if not plan.shuffled:
                found = self.engine.run(task.write_directly, tasks=sources, result=FILES_SCHEMA)
            else:
                found = self.engine.exchange(
                    sources=sources,
                    mapper=task.route,
                    targets=plan.tasks,
                    reducer=task.write,
                    result=FILES_SCHEMA,
                    scratch=_scratch(work, "exchange-rows", 4 * rows * plan.row_bytes),
                )
        return undescribed(found)

    def _commit(
        self,
        files: list[WrittenFile],
        removed: list[DataFile],
        write_id: str,
        counted: _Counted,
        beating: Heartbeat,
    ) -> Committed:
        planned = self.table.metadata.current_snapshot_id

        def check(table: Table) -> None:
            beating.confirm()
            if known_sink(table, self.order.key) != self.before:
                raise ConflictError(
                    f"table {self.spec.table}: another run has sunk {self.order.key} meanwhile"
                )
            if table.metadata.current_snapshot_id != planned:
                self._check_unseen(table, counted)

        change = Change(
            ChangeKind.OVERWRITE if removed else ChangeKind.APPEND,
            write_id,
            files,
            removed,
            properties=sunk_properties(
                Sunk(
                    key=self.order.key,
                    fingerprint=self.order.fingerprint,
                    content=self.order.rows.content,
                    rows=counted.rows,
                    write=write_id,
                )
            ),
            summary={"hipslake.sink": self.order.key},
        )
        return commit(self.catalog, self.spec.table, change, check)

    def _check_unseen(self, table: Table, counted: _Counted) -> None:
        """Look whether files that came since the plan was made may hold what was to be replaced."""
        if self.spec.mode is TableMode.APPEND:
            return
        seen = {file.file_path for file in self._standing}
        came = [file for file in live_files(table) if file.file_path not in seen]
        if self.spec.mode is TableMode.UPSERT:
            found = files_with_keys(came, table, self.spec.key, counted.ranges)
        else:
            within = self._interval
            whole, maybe = files_in_interval(came, table, within.column, within.start, within.end)
            found = whole + maybe
        if found:
            raise ConflictError(
                f"table {self.spec.table}: {len(found)} files that came meanwhile may hold rows to be "
                "replaced"
            )

    @cached_property
    def _standing(self) -> list[DataFile]:
        return live_files(self.table)

    @property
    def _interval(self) -> Interval:
        assert self.spec.interval is not None and self.order.start is not None, "checked before"  # noqa: PT018
        return Interval(self.spec.interval, self.order.start, self.order.end)

    @property
    def _sort(self) -> tuple[Any, ...]:
        return tuple(sort.model_copy(update={"field": in_table(sort.field)}) for sort in self.spec.sort)


_SOURCE = "source"


def _partition_rows(
    files: list[DataFile], like: pa.Table | None, table: Table, fields: tuple[PartitionField, ...]
) -> pa.Table:
    """The partition values of files as rows, of the types that those of new rows have."""
    schema = arrow_schema(table.schema())
    found = {}
    for at, field in enumerate(fields):
        kind = result_type(field, schema.field(field.column).type)
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        values = [file.partition[at] for file in files]
        if pa.types.is_temporal(kind):
            plain = pa.int32() if kind.bit_width == 32 else pa.int64()
            found[str(at)] = pa.array(values, plain).view(kind)
        else:
            found[str(at)] = pa.array(values, kind)
    return pa.table(found)


def _check(name: str, files: list[WrittenFile], plan: ShufflePlan, rows: int) -> None:
    written = sum(file.rows for file in files)
    if written != rows or len(files) != plan.expected_files:
        raise VerificationError(
            f"table {name}: {plan.expected_files} files with {rows} rows were to be written, and "
            f"{len(files)} with "
            f"{written} were; nothing is committed. Did a source file change in mid-run? Run it again"
        )


def _scratch(work: Storage, name: str, size: float) -> Scratch | None:
    return Scratch(Path(work.uri(name)), size) if work.is_local else None
