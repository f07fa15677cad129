"""Which rows a sink replaces in its table: by key, in an interval, or those of an earlier sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hipslake.errors import ConflictError, PlanError
from hipslake.specs.table_writing import RowOperation, TableMode
from hipslake.steps.sink.count_rows import Counted
from hipslake.steps.sink.cut_files import CutFiles
from hipslake.steps.sink.earlier_sink import follow_sink
from hipslake.steps.sink.find_passing import find_passing
from hipslake.steps.sink.key_join import find_old_versions
from hipslake.steps.sink.live_rows import live_rows
from hipslake.steps.sink.position_deletes import merges_on_read
from hipslake.steps.sink.replaced import Replaced
from hipslake.steps.sink.sink_try import Interval, RowPositions, SinkTry
from hipslake.storage.folder import Storage
from hipslake.tables.file_pruning import files_in_interval, files_with_keys, in_interval
from hipslake.tables.marks import SinkMark, spec_of
from hipslake.tables.protocol import LiveFile, TableState

_REPLACING = "to replace what was sunk before"


def find_replaced(tried: SinkTry, counted: Counted) -> Replaced:
    """Find what the new rows of a sink replace.

    Raises
    ------
    InputError
        Several new rows have one key, and the spec does not say which stays.
    PlanError
        What was sunk before cannot be told from other rows any more, or the table has delete files.
    """
    if _is_written_anew(tried):
        return _all_rows(tried, counted)
    if tried.order.spec.mode is TableMode.UPSERT:
        return _by_key(tried, counted)
    if tried.order.spec.mode is TableMode.OVERWRITE_INTERVAL:
        return _in_interval(tried, Interval.of(tried.order))
    if tried.before is None or not tried.before.rows or tried.order.batch is not None:
        return Replaced()
    return _sunk_before(tried, tried.before)


def check_none_came(tried: SinkTry, now: TableState, counted: Counted, replaced: Replaced) -> None:
    """Look whether files that came into the table since may hold what was to be replaced.

    Raises
    ------
    ConflictError
        Some may.
    PlanError
        Delete files came, and an earlier sink was to be replaced: they may have changed its rows.
    """
    spec = tried.order.spec
    if spec.mode is TableMode.APPEND:
        if replaced.removed:
            now.check_no_delete_files(_REPLACING)
        return
    _check_none_deleted(tried, now, replaced)
    seen = {file.path for file in tried.table.files}
    came = [file for file in now.files if file.path not in seen]
    if _is_written_anew(tried):
        found = came
    elif spec.mode is TableMode.UPSERT:
        found = files_with_keys(came, spec.key, counted.ranges)
    else:
        within = Interval.of(tried.order)
        whole, maybe = files_in_interval(came, now.schema, within.column, within.start, within.end)
        found = whole + maybe
    if found:
        raise ConflictError(
            f"table {spec.table}: {len(found)} files that came meanwhile may hold rows to be replaced"
        )


def _check_none_deleted(tried: SinkTry, now: TableState, replaced: Replaced) -> None:
    """Look that others have deleted no rows of files of which rows were read, to be written anew."""
    before = {file.path: set(file.stored.deletes) for file in replaced.removed}
    others = [
        file for file in now.files if file.path in before and set(file.stored.deletes) - before[file.path]
    ]
    if others:
        raise ConflictError(
            f"table {tried.order.spec.table}: others have deleted rows meanwhile of {len(others)} files that "
            f"were read, such as {others[0].path}"
        )


def _is_written_anew(tried: SinkTry) -> bool:
    """Whether a table that follows a catalog is to have the rows of it and no others."""
    return tried.order.spec.follows_changes and tried.order.force


def _all_rows(tried: SinkTry, counted: Counted) -> Replaced:
    spec = tried.order.spec
    if others := sorted({spec_of(key) for key in tried.table.marks.keys} - {spec.name}):
        raise PlanError(
            f"table {spec.table}: force writes a table that follows a catalog anew, and {', '.join(others)} "
            "sinks into it too, whose rows would go; let each have a table of its own"
        )
    find_old_versions(tried, (), counted)  # tells of new rows that share their key
    files = tuple(tried.table.files)
    return Replaced(files, rows=sum(_live_rows(tried, files)))


def _live_rows(tried: SinkTry, files: Sequence[LiveFile]) -> list[int]:
    return live_rows(tried.engine, files, tried.new.schema)


def _sunk_before(tried: SinkTry, before: SinkMark) -> Replaced:
    tried.table.check_no_delete_files(_REPLACING)
    files = tried.table.files_of(before)
    rows = sum(file.rows for file in files)
    if before.alone and rows == before.rows:
        return Replaced(tuple(files), rows=rows)
    descent, followed = follow_sink(tried, before)
    cut = CutFiles.of(descent.files, followed.mine, lambda some: [file.rows for file in some])
    return _cut_out(cut, tried.write.work, apart=lambda file: True, read=len(descent.files))


def _by_key(tried: SinkTry, counted: Counted) -> Replaced:
    spec, work = tried.order.spec, tried.write.work
    candidates = files_with_keys(tried.table.files, spec.key, counted.ranges)
    joined = find_old_versions(tried, tuple(file.stored for file in candidates), counted)
    cut = CutFiles.of(candidates, joined.old, lambda some: _live_rows(tried, some))
    return replace(
        _cut_out(cut, work, apart=_kept_apart(tried), read=len(candidates), on_read=_on_read(tried, "merge")),
        dropped=RowPositions.kept(work.sub("dropped"), joined.new),
        left_out=sum(len(at) for at in joined.new.values()),
        by_deletes=joined.deleted,
        missing_deletes=joined.missing,
        outdated=joined.outdated,
    )


def _in_interval(tried: SinkTry, within: Interval) -> Replaced:
    table, engine = tried.table, tried.engine
    inside, maybe = files_in_interval(table.files, table.schema, within.column, within.start, within.end)
    predicate = in_interval(within.column, within.start, within.end)
    going = find_passing(engine, maybe, predicate, tried.new.schema)
    cut = CutFiles.of(maybe, going, lambda some: _live_rows(tried, some))
    on_read = _on_read(tried, "update")
    replaced = _cut_out(cut, tried.write.work, apart=_kept_apart(tried), read=len(maybe), on_read=on_read)
    rows = replaced.rows + sum(_live_rows(tried, inside))
    return replace(replaced, files=(*inside, *replaced.files), rows=rows)


def _on_read(tried: SinkTry, operation: RowOperation) -> bool:
    spec = tried.order.spec
    return merges_on_read(tried.table, spec.table, spec.write, operation)


def _kept_apart(tried: SinkTry) -> Callable[[LiveFile], bool]:
    """Whether what stays of a file is written apart from the new rows.

    If it is partitioned in another way than the table is now; or if other specs sink into the table too,
    for their sinks are followed, and must not be taken for this one.
    """
    has_others = any(spec_of(key) != tried.order.spec.name for key in tried.table.marks.keys)
    return lambda file: has_others or not file.is_current


def _cut_out(
    cut: CutFiles, work: Storage, *, apart: Callable[[LiveFile], bool], read: int, on_read: bool = False
) -> Replaced:
    """What goes; `apart` says of which files what stays is written apart from the new rows.

    `on_read`: no file is written anew, rows of files go by files of deletes.
    """
    if on_read:
        return Replaced(
            files=cut.whole,
            deleted=tuple(file for file, _, _ in cut.parts),
            deleted_gone=_kept(work.sub("gone"), list(cut.parts)),
            deleted_rows=sum(len(at) for _, at, _ in cut.parts),
            rows=cut.rows,
            read=read,
        )
    mixed = [each for each in cut.parts if apart(each[0])]
    partly = [each for each in cut.parts if not apart(each[0])]
    return Replaced(
        files=cut.whole,
        partly=tuple((file, rest) for file, _, rest in partly),
        gone=_kept(work.sub("gone"), partly),
        mixed=tuple((file, rest) for file, _, rest in mixed),
        mixed_gone=_kept(work.sub("gone-apart"), mixed),
        rows=cut.rows,
        read=read,
    )


def _kept(storage: Storage, parts: list[tuple[LiveFile, NDArray[np.int64], int]]) -> RowPositions:
    return RowPositions.kept(storage, {number: at for number, (_, at, _) in enumerate(parts)})
