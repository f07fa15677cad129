"""What goes from a table when rows are sunk: by key, in an interval, or of an earlier sink of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, PlanError
from hipslake.spark.scratch import blocks_in_folder
from hipslake.spark.sink_counting import Counted
from hipslake.spark.sink_rows import Interval, NewRows
from hipslake.spark.upsert import find_old_versions
from hipslake.specs.table import TableMode
from hipslake.storage import Storage
from hipslake.tables.data_files import check_no_delete_files, live_files
from hipslake.tables.old_rows import StoredFile, read_data_file
from hipslake.tables.order import SinkOrder
from hipslake.tables.positions import NO_POSITIONS, Positions
from hipslake.tables.skipping import files_in_interval, files_of_write, files_with_keys
from hipslake.tables.sunk import Sunk

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
    """

    table: Table
    before: Sunk | None

    @cached_property
    def files(self) -> list[DataFile]:
        """Its live data files."""
        return live_files(self.table)


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
    dropped: Positions = NO_POSITIONS
    rows: int = 0
    left_out: int = 0
    read: int = 0

    @property
    def removed(self) -> list[DataFile]:
        """All files that the table no longer names."""
        return [*self.files, *(file for file, _ in self.partly)]


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
    return Replaced() if standing.before is None else _sunk_before(order, standing.before, standing.files)


def check_none_came(order: SinkOrder, standing: Standing, table: Table, counted: Counted) -> None:
    """Look whether files that came into the table since may hold what was to be replaced.

    Raises
    ------
    ConflictError
        Some may.
    PlanError
        Delete files came: the rows that they take away would stand again in the files that are written anew.
    """
    if order.spec.mode is TableMode.APPEND:
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


def _sunk_before(order: SinkOrder, before: Sunk, standing: list[DataFile]) -> Replaced:
    files = files_of_write(standing, before.write)
    rows = sum(file.record_count for file in files)
    if rows != before.rows:
        raise PlanError(
            f"table {order.spec.table}: {order.key} was sunk before, from other rows, and its {before.rows} "
            f"rows lie in files with others by now ({rows} do not), so they cannot be taken out. Use mode "
            "overwrite-interval or upsert, or delete them from the table by hand"
        )
    return Replaced(tuple(files), rows=rows)


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
    going = [joined.old[number] for number in numbers]
    whole, partly, gone = _cut([candidates[number] for number in numbers], going)
    return Replaced(
        files=tuple(whole),
        partly=tuple(partly),
        gone=Positions.kept(work.sub("gone"), gone),
        dropped=Positions.kept(work.sub("dropped"), joined.new),
        rows=sum(len(at) for at in going),
        left_out=sum(len(at) for at in joined.new.values()),
        read=len(candidates),
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
    whole, partly, gone = _cut([maybe[row["number"]] for row in found], going)
    return Replaced(
        files=(*inside, *whole),
        partly=tuple(partly),
        gone=Positions.kept(work.sub("gone"), gone),
        rows=sum(file.record_count for file in inside) + sum(len(at) for at in going),
        read=len(maybe),
    )


def _cut(
    files: list[DataFile], going: list[NDArray[np.int64]]
) -> tuple[list[DataFile], list[tuple[DataFile, int]], dict[int, NDArray[np.int64]]]:
    """Files all of whose rows go, those of which rows stay, and the positions that go of the latter."""
    whole: list[DataFile] = []
    partly: list[tuple[DataFile, int]] = []
    positions = {}
    for file, at in zip(files, going, strict=True):
        if len(at) == file.record_count:
            whole.append(file)
        elif len(at):
            positions[len(partly)] = at
            partly.append((file, file.record_count - len(at)))
    return whole, partly, positions


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
