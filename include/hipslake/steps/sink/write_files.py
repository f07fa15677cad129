"""How the data files of a sink are written: as their rows come, or through an exchange."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hipslake.engine.model import Engine
from hipslake.engine.scratch import block_bytes, blocks_in_folder
from hipslake.steps.sink.count_rows import Counted
from hipslake.steps.sink.replaced import Replaced
from hipslake.steps.sink.rolling_files import RollingFiles, TooManyValuesError, may_roll, sample_rows
from hipslake.steps.sink.sink_try import SinkTry
from hipslake.steps.sink.streamed_files import MOST_FILES, PlannedFiles, StreamedFiles, may_stream
from hipslake.steps.sink.tasks import SinkPlan, WriteRowsTask
from hipslake.storage.folder import Storage
from hipslake.tables.new_files import FILES_SCHEMA, NewFile, undescribed
from hipslake.tables.protocol import NewDeletes
from hipslake.tables.value_sketches import Sketch

log = logging.getLogger(__name__)

_NOTHING = Replaced()


@dataclass(frozen=True)
class WrittenRows:
    """What a try has written.

    Attributes
    ----------
    counted : Counted
    plan : SinkPlan
    files : list of NewFile
        Of the new rows, and of those that are written again with them.
    replaced : Replaced
    kept : list of NewFile
        Of rows that stay, written apart from the new ones.
    deletes : list of NewDeletes
    stays : dict of str to Sketch or None
        Of the distinct values of what stays, by column.
    task_bytes : tuple of int
        Of the files that each task has written.
    """

    counted: Counted
    plan: SinkPlan
    files: list[NewFile]
    replaced: Replaced = _NOTHING
    kept: Sequence[NewFile] = ()
    deletes: Sequence[NewDeletes] = ()
    stays: dict[str, Sketch] | None = None
    task_bytes: tuple[int, ...] = ()


def write_files(task: WriteRowsTask, engine: Engine, work: Storage) -> list[NewFile]:
    """Write the data files of a plan.

    Parameters
    ----------
    task : WriteRowsTask
    engine : Engine
    work : Storage
        At the folder of the write, where blocks may wait.
    """
    plan = task.plan
    sources = len(task.old) + task.new.rows.tasks
    rows = int(plan.counts.totals.sum())
    if not rows:
        return []
    with engine.progress("write", rows=rows, done=task.written):
        if may_stream(task, engine):
            log.info("Rows are written as they come, by %d threads of one process.", engine.cores)
            return StreamedFiles(PlannedFiles(task), engine.check_running).write(engine.cores)
        if not plan.shuffled:
            found = engine.run(task.write_directly, tasks=sources, result=FILES_SCHEMA)
        else:
            found = engine.exchange(
                sources=sources,
                mapper=task.route,
                targets=plan.tasks,
                reducer=task.write,
                result=FILES_SCHEMA,
                scratch=blocks_in_folder(
                    work, "exchange-rows", block_bytes(task.new.schema, rows, rows * plan.row_bytes)
                ),
            )
    return undescribed(found)


def write_rolling(tried: SinkTry) -> WrittenRows | None:
    """Write new rows as they come, without counting them before; None where they have to be counted.

    They have to where they replace others, where files cannot be written as their rows come, and where rows
    are in an order of their partition values, or these are many: then not all files could be open.
    """
    if not may_roll(tried):
        return None
    sampled = sample_rows(tried)
    if not sampled.is_mixed:
        return None
    rolling, engine = RollingFiles(tried, sampled.row_bytes), tried.engine
    log.info("Rows are written as they come, in one pass, by %d threads of one process.", engine.cores)
    streamed = StreamedFiles(rolling, engine.check_running)
    try:
        with engine.progress("write", done=rolling.written):
            files = streamed.write(engine.cores)
    except TooManyValuesError:
        log.info("There are more than %d partition values: rows are counted first.", MOST_FILES)
        for path in streamed.complete:
            storage, name = Storage.of_file(path)
            storage.delete(name)
        return None
    counted, plan = rolling.plan()
    return WrittenRows(counted, plan, files)
