"""The write step: every row through the exchange into its leaf file of every column group."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.layouts import exchange_root, rejects_root
from hipslake.engine.model import Engine
from hipslake.engine.scratch import blocks_in_write
from hipslake.errors import StepError, VerificationError
from hipslake.planning.splits import bytes_per_task
from hipslake.sources.file_listing import check_unchanged, located
from hipslake.sphere.pixels import starts
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.ingest.leaf_ends import store_ends
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.ingest.rows_to_merge import RowsToMerge
from hipslake.steps.ingest.write_state import WriteState
from hipslake.steps.ingest.write_tasks import RESULT_SCHEMA, WRITTEN_SCHEMA, WriteTask
from hipslake.steps.published import names_write
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import write_table
from hipslake.storage.atomic import sync_files
from hipslake.storage.small_files import in_threads, together
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.orphans import delete_temporary_files

log = logging.getLogger(__name__)


def run(request: WriteRequest, engine: Engine) -> WriteReport:
    """Write the planned leaves of a run into its write folder, which starts empty.

    Raises
    ------
    CorruptFileError, InputError
        If a source file changed or broke since it was listed.
    PlanError
        If a leaf is over a threshold in bytes and cannot be split.
    VerificationError
        If the rows written are not the rows counted.
    """
    phases = Phases()
    folder = request.folder
    counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    weights = tuple(sorted((group, weight.memory) for group, weight in counted.row_bytes.items()))
    size = sum(memory for _, memory in weights) * counted.rows_out
    target_bytes = bytes_per_task(size, request.target_bytes, engine.cores)
    attempt = secrets.token_hex(4)
    task = WriteTask(request.run_uri, attempt, target_bytes, weights, engine.cores, engine.counter())
    state = task.state
    write_id, catalog = state.run.write_id, state.catalog
    # What tasks write through the kernel of this machine is synced here, and they need not wait for it.
    task = replace(task, step_syncs=catalog.is_local and engine.on_this_machine)
    if names_write(catalog, write_id):
        raise StepError(
            f"{catalog.uri(write_id)} is published, or about to be; clear the run from its first task to "
            "write anew"
        )
    with phases("clear"):
        # Files of indices lay there, too: their step is not done any more.
        together(
            catalog,
            partial(catalog.delete_tree, write_id),
            partial(folder.storage.delete, RunFolder.INDICES),
        )
    log.info(
        "Writing %d rows from %d splits into %d leaves, %d reduce tasks.",
        counted.rows_out,
        len(state.splits.splits),
        sum(len(plan.npix) for plan in state.plans),
        state.targets,
    )
    groups = len(state.plans)
    with (
        phases("write"),
        Heartbeat(catalog, write_id),
        engine.progress("write", rows=groups * counted.rows_out, done=task.written),
        _kept_rows(folder, counted, state, engine) as kept,
    ):
        if kept is not None:
            stretches = [state.stretch_of(target) for target in range(state.targets)]
            written = engine.run(
                replace(task, kept=kept.path).merge,
                tasks=state.targets,
                result=WRITTEN_SCHEMA,
                ended=kept.freeing(stretches),
            )
        else:
            with blocks_in_write(catalog, exchange_root(write_id), size) as scratch:
                written = engine.exchange(
                    sources=len(task.sources),
                    mapper=task.route,
                    targets=state.targets,
                    reducer=task.write,
                    result=WRITTEN_SCHEMA,
                    block_bytes=request.block_bytes,
                    scratch=scratch,
                )
        if catalog.is_local:
            paths = written["path"].to_pylist() if task.step_syncs else []
            # The write folder's own name, too: the heartbeat has made it, which nobody syncs.
            sync_files((Path(catalog.uri(path)) for path in paths), [Path(catalog.root)])
    files = along_the_curve(written.select(RESULT_SCHEMA.names), [plan.group for plan in state.plans])
    _check_rows(files, state, counted.rows_out)
    with phases("store"):
        together(
            folder.storage,
            partial(write_table, folder.storage, RunFolder.PARTITIONS, files),
            partial(store_ends, folder, written),
        )
        delete_temporary_files(catalog, write_id, 0, recursive=True)  # of task attempts that were killed
    per_group = {plan.group: files.filter(pc.equal(files["group"], plan.group)) for plan in state.plans}
    return WriteReport(
        rows_in=counted.rows_in,
        rows_out=counted.rows_out,
        rows_rejected=counted.rows_rejected,
        rows_superseded=counted.rows_superseded,
        bytes=pc.sum(files["bytes"]).as_py(),
        files=files.num_rows,
        partitions={group: table.num_rows for group, table in per_group.items()},
        group_bytes={group: pc.sum(table["bytes"]).as_py() for group, table in per_group.items()},
        split_again=_split_again(state, per_group),
        rejected=counted.rejected,
        rejects_path=rejects_root(write_id) if counted.rows_rejected else None,
        tasks=state.targets,
        seconds=phases.seconds,
    )


@contextmanager
def _kept_rows(
    folder: RunFolder, counted: HistogramReport, state: WriteState, engine: Engine
) -> Iterator[RowsToMerge | None]:
    """The rows that the histogram step has kept, until the block ends; None: the files are read again."""
    storage, kept = folder.storage, None
    if counted.keeps_rows and engine.on_this_machine:
        kept = RowsToMerge.claimed(storage, state.splits.row_starts)
        if kept is None:
            log.info("The rows that were counted are not there any more: the files are read again.")
    if counted.keeps_rows:  # what is left belongs to attempts that were given up
        for entry in storage.list(RunFolder.SORTED):
            if kept is None or entry.path != kept.path:
                storage.delete_tree(entry.path)
    if kept is None:
        yield None
        return
    try:
        files = FrozenInputs.of(folder).files  # the version will say that it was made of them, as they are
        for _ in in_threads(located(files[0])[0], check_unchanged, files):
            pass
        yield kept
    finally:
        storage.delete_tree(kept.path)


def along_the_curve(files: pa.Table, groups: list[str]) -> pa.Table:
    """Return files in the order of their column groups, and those of a group along the curve."""
    first = starts(files["order"].to_numpy(), files["npix"].to_numpy())
    group = pc.index_in(files["group"], pa.array(groups)).to_numpy()
    return files.take(pa.array(np.lexsort((first, group))))


def _check_rows(files: pa.Table, state: WriteState, expected: int) -> None:
    for plan in state.plans:
        rows = pc.sum(files.filter(pc.equal(files["group"], plan.group))["rows"]).as_py() or 0
        if rows != expected:
            raise VerificationError(
                f"column group {plan.group!r}: {expected} rows were counted, but {rows} were written; "
                "nothing is published. Did a source file change in mid-run? Run it again"
            )


def _split_again(state: WriteState, per_group: dict[str, pa.Table]) -> int:
    """Planned leaves that came out over a threshold in bytes."""
    count = 0
    for plan in state.plans:
        order = per_group[plan.group]["order"].to_numpy()
        start = starts(order, per_group[plan.group]["npix"].to_numpy())
        at = np.minimum(np.searchsorted(start, plan.start), len(start) - 1)
        count += int(((start[at] != plan.start) | (order[at] != plan.order)).sum())
    return count
