"""What goes from a table when rows are sunk: by key, in an interval, or of an earlier sink of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.engine.model import Engine
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import ConflictError
from hipslake.specs.table_spec import TableMode
from hipslake.steps.sink.new_rows import Counted
from hipslake.steps.sink.sink_rows import Interval, NewRows
from hipslake.steps.sink.taking_out import follow_sink
from hipslake.steps.sink.upsert import find_old_versions
from hipslake.storage.folder import Storage
from hipslake.tables.data_files import check_no_delete_files, live_files
from hipslake.tables.lineage import files_by_write
from hipslake.tables.old_rows import StoredFile, read_data_file
from hipslake.tables.order import SinkOrder
from hipslake.tables.positions import NO_POSITIONS, Positions
from hipslake.tables.skipping import files_in_interval, files_with_keys
from hipslake.tables.sunk import StandingSinks, spec_of
from hipslake.tables.sunk_model import Sunk

_KEY_BYTES = 64.0
_RESULT = pa.schema([("number", pa.int64()), ("positions", pa.binary())])


@dataclass(frozen=True)
class Standing:
    """The table as it is when a sink is tried.

    Attributes
    ----------
    table : pyiceberg.table.Table
    before : Sunk or None
        What was sunk under the key of the order.
    doubtful : bool
        Whether some sink of that key may stand of which no more is known.
    spec : str
        The name of its spec.
    """

    table: Table
    before: Sunk | None
    doubtful: bool
    spec: str

    @cached_property
    def files(self) -> list[DataFile]:
        """Its live data files."""
        return live_files(self.table)

    def keeps_apart(self, file: DataFile) -> bool:
        """Whether what stays of a file is written apart from the new rows.

        If it is partitioned in another way than the table is now; or if other specs sink into the table too,
        for their sinks are followed, and must not be taken for this one.
        """
        return self._has_others or bool(file.spec_id != self.table.spec().spec_id)

    @cached_property
    def _has_others(self) -> bool:
        return any(spec_of(key) != self.spec for key in StandingSinks(self.table).keys)


@dataclass(frozen=True)
class Replaced:
    """What goes: whole files, files of which rows stay, and new rows that others replace.

    Attributes
    ----------
    files : tuple of DataFile
        That go as a whole.
    partly : tuple of (DataFile, int)
        Files that are rewritten, and how many rows of each stay.
    gone : Positions
        Rows of each file of `partly` that go.
    mixed : tuple of (DataFile, int)
        Files as those of `partly`, of which what stays is written apart from the new rows.
    mixed_gone : Positions
        Rows of each file of `mixed` that go.
    dropped : Positions
        Rows of each part of the new ones that are left out.
    rows : int
        Of the table, that go.
    left_out : int
        New rows that a later one of the same key replaces.
    read : int
        Files that were looked through.
    """

    files: tuple[DataFile, ...] = ()
    partly: tuple[tuple[DataFile, int], ...] = ()
    gone: Positions = NO_POSITIONS
    mixed: tuple[tuple[DataFile, int], ...] = ()
    mixed_gone: Positions = NO_POSITIONS
    dropped: Positions = NO_POSITIONS
    rows: int = 0
    left_out: int = 0
    read: int = 0

    @property
    def removed(self) -> list[DataFile]:
        """All files that the table no longer names."""
        return [*self.files, *(file for file, _ in (*self.partly, *self.mixed))]


def find_replaced(
    order: SinkOrder, engine: Engine, standing: Standing, new: NewRows, counted: Counted, work: Storage
) -> Replaced:
    """Find what the new rows of an order replace.

    Parameters
    ----------
    order : SinkOrder
    engine : Engine
    standing : Standing
    new : NewRows
    counted : Counted
        What there is of them.
    work : Storage
        At the folder of the write, where positions may lie.

    Raises
    ------
    InputError
        Several new rows have one key, and the spec does not say which stays.
    PlanError
        What was sunk before cannot be told from other rows any more, or the table has delete files.
    """
    if order.spec.mode is TableMode.UPSERT:
        return _by_key(order, engine, standing, new, counted, work)
    if order.spec.mode is TableMode.OVERWRITE_INTERVAL:
        return _in_interval(Interval.of(order), engine, standing, new, work)
    if standing.before is None or not standing.before.rows:
        return Replaced()
    return _sunk_before(order, engine, standing, standing.before, new, work)


def check_none_came(
    order: SinkOrder, standing: Standing, table: Table, counted: Counted, replaced: Replaced
) -> None:
    """Look whether files that came into the table since may hold what was to be replaced.

    Raises
    ------
    ConflictError
        Some may.
    PlanError
        Delete files came: the rows that they take away would stand again in the files that are written anew.
    """
    if order.spec.mode is TableMode.APPEND:
        if replaced.removed:
            check_no_delete_files(table, "to replace what was sunk before")
        return
    check_no_delete_files(table, f"mode {order.spec.mode}")
    seen = {file.file_path for file in standing.files}
    came = [file for file in live_files(table) if file.file_path not in seen]
    if order.spec.mode is TableMode.UPSERT:
        found = files_with_keys(came, table, order.spec.key, counted.ranges)
    else:
        within = Interval.of(order)
        whole, maybe = files_in_interval(came, table, within.column, within.start, within.end)
        found = whole + maybe
    if found:
        raise ConflictError(
            f"table {order.spec.table}: {len(found)} files that came meanwhile may hold rows to be replaced"
        )


def _sunk_before(
    order: SinkOrder, engine: Engine, standing: Standing, before: Sunk, new: NewRows, work: Storage
) -> Replaced:
    check_no_delete_files(standing.table, "to replace what was sunk before")
    files = files_by_write(standing.table, standing.files, before.write)
    rows = sum(file.record_count for file in files)
    if before.alone and rows == before.rows:
        return Replaced(tuple(files), rows=rows)
    descent, followed = follow_sink(engine, standing.table, before, new, work, force=order.force)
    numbers = sorted(followed.mine)
    going = [followed.mine[number] for number in numbers]
    found = [descent.files[number] for number in numbers]
    return _Cut.of(found, going).replaced(work, apart=lambda file: True, read=len(descent.files))


def _by_key(
    order: SinkOrder, engine: Engine, standing: Standing, new: NewRows, counted: Counted, work: Storage
) -> Replaced:
    check_no_delete_files(standing.table, "mode upsert")
    key = order.spec.key
    candidates = files_with_keys(standing.files, standing.table, key, counted.ranges)
    joined = find_old_versions(
        engine,
        new=new,
        files=tuple(StoredFile.of(file, standing.table) for file in candidates),
        key=key,
        last_by=order.spec.duplicates.last_by,
        keys=counted.keys,
        rows=counted.rows,
        work=work,
        scratch=blocks_in_folder(work, "exchange-keys", _KEY_BYTES * counted.rows),
    )
    numbers = sorted(joined.old)
    cut = _Cut.of([candidates[number] for number in numbers], [joined.old[number] for number in numbers])
    found = cut.replaced(work, apart=standing.keeps_apart, read=len(candidates))
    return replace(
        found,
        dropped=Positions.kept(work.sub("dropped"), joined.new),
        left_out=sum(len(at) for at in joined.new.values()),
    )


def _in_interval(
    within: Interval, engine: Engine, standing: Standing, new: NewRows, work: Storage
) -> Replaced:
    check_no_delete_files(standing.table, "mode overwrite-interval")
    inside, maybe = files_in_interval(standing.files, standing.table, within.column, within.start, within.end)
    task = FindInIntervalTask(
        tuple(StoredFile.of(file, standing.table) for file in maybe), within, new.schema
    )
    with engine.progress("find"):
        found = engine.run(task, tasks=len(maybe), result=_RESULT).to_pylist() if maybe else []
    found.sort(key=lambda row: row["number"])
    going = [np.frombuffer(row["positions"], np.int64) for row in found]
    cut = _Cut.of([maybe[row["number"]] for row in found], going)
    replaced = cut.replaced(work, apart=standing.keeps_apart, read=len(maybe))
    rows = replaced.rows + sum(file.record_count for file in inside)
    return replace(replaced, files=(*inside, *replaced.files), rows=rows)


@dataclass(frozen=True)
class _Cut:
    """Files all of whose rows go, and those of which rows stay: file, positions that go, rows that stay."""

    whole: tuple[DataFile, ...]
    parts: tuple[tuple[DataFile, NDArray[np.int64], int], ...]

    @classmethod
    def of(cls, files: list[DataFile], going: list[NDArray[np.int64]]) -> _Cut:
        """Cut files by the positions of the rows that go of each."""
        found = [(file, at, file.record_count - len(at)) for file, at in zip(files, going, strict=True)]
        parts = tuple(each for each in found if each[2] and len(each[1]))
        return cls(tuple(file for file, _, rest in found if not rest), parts)

    def replaced(self, work: Storage, *, apart: Callable[[DataFile], bool], read: int) -> Replaced:
        """What goes; `apart` says of which files what stays is written apart from the new rows."""
        mixed = [each for each in self.parts if apart(each[0])]
        partly = [each for each in self.parts if not apart(each[0])]
        return Replaced(
            files=self.whole,
            partly=tuple((file, rest) for file, _, rest in partly),
            gone=_kept(work.sub("gone"), partly),
            mixed=tuple((file, rest) for file, _, rest in mixed),
            mixed_gone=_kept(work.sub("gone-apart"), mixed),
            rows=sum(file.record_count for file in self.whole) + sum(len(at) for _, at, _ in self.parts),
            read=read,
        )


def _kept(storage: Storage, parts: list[tuple[DataFile, NDArray[np.int64], int]]) -> Positions:
    return Positions.kept(storage, {number: at for number, (_, at, _) in enumerate(parts)})


@dataclass(frozen=True)
class FindInIntervalTask:
    """Finds the positions of the rows of old files that lie in an interval."""

    files: tuple[StoredFile, ...]
    within: Interval
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Look through a file."""
        position, found = 0, []
        for batch in read_data_file(self.files[number], self.schema, [self.within.column]):
            inside = pc.fill_null(self.within.holds(batch), False).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(inside) + position)
            position += batch.num_rows
        positions = np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
        yield pa.record_batch([[number], [positions.tobytes()]], schema=_RESULT)
