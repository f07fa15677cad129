"""Joins of two catalogs: tasks join stretches of the curve, and others write the leaves of the outcome.

Nothing is shuffled. The outcome lies where the left rows lie, and a task joins the left rows of one
stretch: so what it leaves is a stretch of the outcome, sorted. Once all are counted, the leaves are planned
as those of any catalog, and each is written from the slices of a few neighbouring stretches.

Where the outcome has a version already, only those places are joined where rows of the sides came or went
since, and those near them. Of the others, leaves that are as they were are named again: `StandingOutcome`.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.layouts import exchange_root
from hipslake.catalog.partitions import total_of
from hipslake.engine.model import Engine, Task
from hipslake.errors import StepError, VerificationError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.request import WriteReport, WriteRequest
from hipslake.steps.ingest.write import along_the_curve
from hipslake.steps.ingest.write_tasks import RESULT_SCHEMA
from hipslake.steps.join.compare_sides import standing_outcome
from hipslake.steps.join.frozen_join import FrozenCrossmatch, FrozenEquijoin, frozen_join
from hipslake.steps.join.margin_beside import build_margin_beside
from hipslake.steps.join.outcome_plan import PlannedOutcome, plan_outcome
from hipslake.steps.join.request import CrossmatchReport, EquijoinReport, EquijoinRequest, JoinRequest
from hipslake.steps.join.standing_outcome import StandingOutcome, store_standing
from hipslake.steps.join.state import load_outcome, only_group, store_stretches
from hipslake.steps.join.tasks import MATCHED, JoinTask, WriteOutcomeTask
from hipslake.steps.published import names_write
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import write_table
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import keep_for_reading

log = logging.getLogger(__name__)


def run(request: JoinRequest, engine: Engine) -> Any:
    """Run the cross-match or equi-join that the run has frozen; return the report of the request's kind.

    The leaves of the outcome are written into the write folder of the run, which starts empty.

    Raises
    ------
    EmptySourceError
        If the outcome has no row.
    PlanError
        If no plan of leaves keeps the threshold.
    VerificationError
        If the rows written are not the rows matched.
    """
    phases = Phases()
    folder = request.folder
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    told = frozen_join(folder)
    if names_write(catalog, frozen.write_id):
        raise StepError(
            f"{catalog.uri(frozen.write_id)} is published; clear the run from its first task to write anew"
        )
    with ExitStack() as stack:
        stack.enter_context(Heartbeat(catalog, frozen.write_id))
        for side in told.sides:
            keep_for_reading(stack, Storage.at(side.uri), side.version)
        with phases("clear"):
            for name in (exchange_root(frozen.write_id), f"{frozen.write_id}/{only_group(frozen.spec)}"):
                catalog.delete_tree(name)
        for at, right in enumerate(told.rights if isinstance(told, FrozenCrossmatch) else ()):
            if right.builds_margin is not None:
                with phases("margin"):
                    build_margin_beside(folder, at, right.side, right.builds_margin, engine)
        match = told.open(folder)
        held = match.held if isinstance(match, Crossmatch) else []
        if held:
            with phases("hold"):
                held_rows = sum(rows.store() for rows in held)
            log.info("Every task holds the %d rows of the small sides: no margin is needed.", held_rows)
        with phases("align"):
            standing, because = _standing(stack, frozen, told, match)
            task_rows = request.task_rows or match.task_rows
            stretches = match.stretches(task_rows, None if standing is None else standing.changed)
            if standing is not None:
                stretches, standing = standing.pieces(stretches)
            store_stretches(folder, stretches)
            store_standing(folder, standing)
        attempt = f"{exchange_root(frozen.write_id)}/{secrets.token_hex(4)}"  # another may still be running
        task = JoinTask(request.run_uri, attempt, engine.counter())
        left_rows = int(stretches.rows.sum())
        log.info("Matching %d rows in %d tasks.", left_rows, len(stretches))
        with phases("match"), engine.progress("match", rows=left_rows, done=task.done):
            found = _run(engine, task, len(stretches), MATCHED)
        lacking = None
        if match.open_borders is not None:
            lacking = pc.sum(found["rows_near_borders"]).as_py() or 0
            log.warning("%s", match.open_borders.told(lacking))
        with phases("plan"):
            planned = plan_outcome(folder, frozen, match, attempt, found, standing)
            state = load_outcome(request.run_uri, attempt, request.target_bytes, engine.cores)
        leaves = len(state.plan.npix)
        log.info("Writing %d rows into %d leaves, %d tasks.", planned.written, leaves, state.tasks)
        writing = WriteOutcomeTask(
            request.run_uri, attempt, request.target_bytes, engine.cores, engine.counter()
        )
        with phases("write"), engine.progress("write", rows=planned.written, done=writing.written):
            files = _run(engine, writing, state.tasks, RESULT_SCHEMA)
        with phases("store"):
            catalog.delete_tree(exchange_root(frozen.write_id))
            base = None if standing is None else standing.metadata.version
            told_too = {"rows_near_borders": lacking, "base_version": base, "full_because": because}
            files = _store_written(folder, frozen, planned, files, tasks=state.tasks, **told_too)
    kept = files.num_rows - _own(files, frozen.write_id).num_rows
    of_all = {
        "rows_in": planned.rows,
        "rows_out": planned.rows,
        "bytes": pc.sum(files["bytes"]).as_py(),
        "files": files.num_rows,
        "left_rows": left_rows,
        "leaves": files.num_rows,
        "tasks": len(stretches),
        "rows_joined": pc.sum(found["rows"]).as_py() or 0,
        "leaves_kept": kept,
        "leaves_written": files.num_rows - kept,
        "base_version": base,
        "full_because": because,
        "seconds": phases.seconds,
    }
    if base is not None:
        log.info(
            "%d of %d leaves are written, all others are those of version %d or before.",
            files.num_rows - kept,
            files.num_rows,
            base,
        )
    if isinstance(request, EquijoinRequest):
        return EquijoinReport(**of_all)
    return CrossmatchReport(**of_all, rows_near_borders=lacking, held_rows=held_rows if held else None)


def _standing(
    held: ExitStack, frozen: FrozenRun, told: FrozenCrossmatch | FrozenEquijoin, join: CatalogJoin
) -> tuple[StandingOutcome | None, str | None]:
    """What is taken over of the last version of the outcome, or why all rows are joined."""
    found = standing_outcome(held, frozen, told, join)
    if isinstance(found, str):
        log.info("All rows are joined: %s.", found)
        return None, found
    return found, None


def _run(engine: Engine, task: Task, tasks: int, result: pa.Schema) -> pa.Table:
    """Run tasks, if there are any."""
    return engine.run(task, tasks=tasks, result=result) if tasks else result.empty_table()


def _own(files: pa.Table, write_id: str) -> pa.Table:
    """The files that lie in the folder of a write."""
    return files.filter(pc.starts_with(files["path"], f"{write_id}/"))


def _store_written(
    folder: RunFolder,
    frozen: FrozenRun,
    planned: PlannedOutcome,
    files: pa.Table,
    **told: Any,
) -> pa.Table:
    """Leave in the run folder what the write step of an ingest leaves; return all files along the curve.

    `told` are further fields of its report.
    """
    rows, written = planned.written, total_of(files, "rows")
    if written != rows:
        raise VerificationError(
            f"{rows} rows were matched, but {written} were written; nothing is published. Run it again; if "
            "it happens twice, report it as a bug"
        )
    group = only_group(frozen.spec)
    kept = planned.kept.add_column(0, "group", pa.array([group] * planned.kept.num_rows, pa.string()))
    files = along_the_curve(pa.concat_tables([files, kept.cast(RESULT_SCHEMA)]), [group])
    rows = planned.rows
    write_table(folder.storage, RunFolder.PARTITIONS, files)
    catalog = Storage.at(frozen.catalog_uri)
    delete_temporary_files(catalog, frozen.write_id, 0, recursive=True)  # of task attempts that were killed
    size = pc.sum(files["bytes"]).as_py()
    report = WriteReport(
        rows_in=rows,
        rows_out=rows,
        bytes=size,
        files=files.num_rows,
        partitions={group: files.num_rows},
        group_bytes={group: size},
        **told,
        own_bytes=total_of(_own(files, frozen.write_id), "bytes"),
    )
    folder.write(RunFolder.report_path(WriteRequest.step), report)
    return files
