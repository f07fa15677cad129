"""How the data files of a sink are written: as their rows come, or through an exchange."""

from __future__ import annotations

import logging

from hipslake.engine.model import Engine
from hipslake.engine.scratch import block_bytes, blocks_in_folder
from hipslake.steps.sink.streamed_files import StreamedFiles, may_stream
from hipslake.steps.sink.tasks import WriteRowsTask
from hipslake.storage.folder import Storage
from hipslake.tables.new_files import FILES_SCHEMA, NewFile, undescribed

log = logging.getLogger(__name__)


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
            return StreamedFiles(task, sources, engine.check_running).write(engine.cores)
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
