"""Joins of two catalogs: tasks join stretches of the curve, and others write the leaves of the outcome.

Nothing is shuffled. The outcome lies where the left rows lie, and a task joins the left rows of one
stretch: so what it leaves is a stretch of the outcome, sorted. Once all are counted, the leaves are planned
as those of any catalog, and each is written from the slices of a few neighbouring stretches.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.stretch_plan import StretchPlan
from hipslake.catalog.layouts import exchange_root
from hipslake.catalog.merging import keys_of
from hipslake.catalog.placement import icrs_and_index, place
from hipslake.catalog.schema import ICRS_COLUMNS, check_columns
from hipslake.engine.model import Counter, Engine
from hipslake.errors import EmptySourceError, NotWritableError, StepError, VerificationError
from hipslake.planning.histogram import Histogram, coarser_orders
from hipslake.planning.splits import assign_targets, crowded_cells
from hipslake.sources.model import Split
from hipslake.spark.counting import PixelCounts, sum_parts, write_parts
from hipslake.spark.match_pieces import MatchedRows, Pieces
from hipslake.spark.row_bytes import SAMPLE_ROWS, mean_row_bytes, weight_of
from hipslake.spark.write_tasks import RESULT_SCHEMA, LeafWriter
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.threshold import ThresholdUnit
from hipslake.sphere.pixels import Pixel, starts
from hipslake.steps import plan as planning
from hipslake.steps.frozen_join import frozen_join
from hipslake.steps.histogram import HistogramReport, HistogramRequest, RowBytes
from hipslake.steps.joining import COUNTS, JoinReport, JoinRequest
from hipslake.steps.published import names_write
from hipslake.steps.report import Phases
from hipslake.steps.run import FrozenRun, RunFolder
from hipslake.steps.split_table import SplitTable
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.write import WriteReport, WriteRequest
from hipslake.storage import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import pinning

log = logging.getLogger(__name__)

DEEPER_BY = 5  # orders at once: a crowded pixel becomes up to 1024 cells
_STRETCHES = "join/stretches.parquet"
_MATCHED_STRETCHES = "join/matched.parquet"
_MATCHED = pa.schema([("task", pa.int64()), ("rows", pa.int64())])


def join(request: JoinRequest, engine: Engine) -> JoinReport:
    """Join, and write the leaves of the outcome into the write folder of the run, which starts empty.

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
    frozen = folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    told = frozen_join(folder)
    if names_write(catalog, frozen.write_id):
        raise StepError(
            f"{catalog.uri(frozen.write_id)} is published; clear the run from its first task to write anew"
        )
    with ExitStack() as stack:
        stack.enter_context(Heartbeat(catalog, frozen.write_id))
        for side in (told.left, told.right):
            _keep(stack, Storage.at(side.uri), side.version)
        with phases("clear"):
            for name in (exchange_root(frozen.write_id), f"{frozen.write_id}/{_group_of(frozen.spec)}"):
                catalog.delete_tree(name)
        with phases("align"):
            match = told.open()
            stretches = match.stretches(request.task_rows or match.task_rows)
            _store_stretches(folder, stretches)
        attempt = f"{exchange_root(frozen.write_id)}/{secrets.token_hex(4)}"  # another may still be running
        task = MatchTask(request.run_uri, attempt, engine.counter())
        left_rows = int(stretches.rows.sum())
        log.info("Matching %d rows in %d tasks.", left_rows, len(stretches))
        with (
            phases("match"),
            engine.progress("match", tasks=len(stretches), rows=left_rows, done=task.done),
        ):
            found = engine.run(task, tasks=len(stretches), result=_MATCHED)
        with phases("plan"):
            rows = _planned(folder, frozen, match, attempt, found).rows_out
            state = _load(request.run_uri, attempt, request.target_bytes, engine.cores)
        log.info("Writing %d rows into %d leaves, %d tasks.", rows, len(state.npix), state.tasks)
        writing = WriteMatchesTask(
            request.run_uri, attempt, request.target_bytes, engine.cores, engine.counter()
        )
        with (
            phases("write"),
            engine.progress("write", tasks=state.tasks, rows=rows, done=writing.written),
        ):
            files = engine.run(writing, tasks=state.tasks, result=RESULT_SCHEMA)
        with phases("store"):
            catalog.delete_tree(exchange_root(frozen.write_id))
            files = _store_written(folder, frozen, rows, files, state.tasks)
    return JoinReport(
        step=request.step,
        rows_in=rows,
        rows_out=rows,
        bytes=pc.sum(files["bytes"]).as_py(),
        files=files.num_rows,
        left_rows=left_rows,
        leaves=files.num_rows,
        tasks=len(stretches),
        seconds=phases.seconds,
    )


@dataclass(frozen=True)
class MatchTask:
    """Matches the left rows of one stretch; small, so that it travels with every task.

    Attributes
    ----------
    run_uri, attempt : str
    done : Counter
        Left rows that were read so far.
    """

    run_uri: str
    attempt: str
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Leave the outcome of a stretch, and its histogram; say how many rows there are."""
        folder = RunFolder(self.run_uri)
        match, spec, catalog, stretches = _load_match(self.run_uri, self.attempt)
        counts, rows = PixelCounts(max(spec.mapping_order, spec.lowest_order)), 0
        schema = check_columns(spec, match.columns.schema)[_group_of(spec)]
        outcome = _with_icrs(
            spec, schema, match.batches(int(stretches.start[task]), int(stretches.stop[task]))
        )
        for batch in Pieces(catalog, self.attempt).write(task, schema, outcome):
            counts.add_rows(keys_of(batch))
            rows += batch.num_rows
        write_parts(folder.storage, _counts_path(self.attempt, task), counts)
        self.done.add(int(stretches.rows[task]))
        yield pa.record_batch([[task], [rows]], schema=_MATCHED)


@dataclass(frozen=True)
class WriteMatchesTask:
    """Writes a run of leaves from what was matched.

    Attributes
    ----------
    run_uri, attempt : str
    target_bytes : int
        Most bytes in memory of the rows of a task, about.
    cores : int
        Of the engine: with few rows, tasks are smaller, so that every core has some.
    written : Counter
        Rows written so far.
    """

    run_uri: str
    attempt: str
    target_bytes: int
    cores: int
    written: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the leaves of a task; give a row for each file."""
        state = _load(self.run_uri, self.attempt, self.target_bytes, self.cores)
        matched, group = state.matched(), _group_of(state.spec)
        with LeafWriter(state.catalog, state.write_id, state.spec, group, state.schema) as writer:
            for leaf in np.flatnonzero(state.task == task).tolist():
                pixel = Pixel(int(state.order[leaf]), int(state.npix[leaf]))
                writer.write(pixel, matched.within(*pixel.interval))
                self.written.add(int(state.rows[leaf]))
        yield pa.RecordBatch.from_pylist(writer.files, schema=RESULT_SCHEMA)


@dataclass(frozen=True)
class _State:
    """What the tasks that write know."""

    catalog: Storage
    write_id: str
    spec: CatalogSpec
    schema: pa.Schema
    pieces: Pieces
    stretches: pa.Table  # those with rows: task, start, stop
    order: NDArray[np.int64]
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    task: NDArray[np.int32]  # of each leaf

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.task[-1]) + 1

    def matched(self) -> MatchedRows:
        """What was matched; each task has its own, since it holds what it has opened."""
        return MatchedRows(
            self.pieces, *(self.stretches[name].to_numpy() for name in ("task", "start", "stop"))
        )


@lru_cache(maxsize=2)
def _load(run_uri: str, attempt: str, target_bytes: int, cores: int) -> _State:
    folder = RunFolder(run_uri)
    run, spec = folder.run(), folder.run().spec
    catalog = Storage.at(run.catalog_uri)
    group = _group_of(spec)
    counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    plan = read_table(folder.storage, RunFolder.PLAN)
    order, npix, rows = (plan[name].to_numpy().astype(np.int64) for name in ("order", "npix", "rows"))
    sizes = (rows * counted.row_bytes[group].memory).astype(np.int64)
    target_bytes = max(1, min(target_bytes, int(sizes.sum() / (2 * cores)) + 1))
    return _State(
        catalog,
        run.write_id,
        spec,
        check_columns(spec, folder.schema())[group],
        Pieces(catalog, attempt),
        read_table(folder.storage, _MATCHED_STRETCHES),
        order,
        npix,
        rows,
        assign_targets(sizes, target_bytes),
    )


@lru_cache(maxsize=2)
def _load_match(run_uri: str, attempt: str) -> tuple[CatalogJoin, CatalogSpec, Storage, StretchPlan]:
    folder = RunFolder(run_uri)
    run = folder.run()
    table = read_table(folder.storage, _STRETCHES)
    stretches = StretchPlan(*(table[name].to_numpy() for name in ("start", "stop", "rows")))
    return frozen_join(folder).open(), run.spec, Storage.at(run.catalog_uri), stretches


def _group_of(spec: CatalogSpec) -> str:
    """The only column group of an outcome."""
    (group,) = spec.column_groups
    return group.name


def _keep(stack: ExitStack, catalog: Storage, version: int) -> None:
    """Hold a vacuum off a version that is read, if its catalog can be written to at all."""
    with suppress(NotWritableError):
        catalog.check_writable()
        stack.enter_context(pinning(catalog)).hold(version)


def _store_stretches(folder: RunFolder, stretches: StretchPlan) -> None:
    columns = {name: getattr(stretches, name) for name in ("start", "stop", "rows")}
    write_table(folder.storage, _STRETCHES, pa.table(columns))


def _counts_path(attempt: str, task: int) -> str:
    return f"{COUNTS}/{attempt.rpartition('/')[2]}/{task}.arrow"


def _with_icrs(
    spec: CatalogSpec, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows as leaves store them: with ICRS degrees, where the catalog adds them."""
    for batch in batches:
        columns = batch.columns
        if ICRS_COLUMNS[0] in schema.names and ICRS_COLUMNS[0] not in batch.schema.names:
            placed = place(batch, spec.position)
            columns += [
                pa.array(degrees) for degrees in icrs_and_index(placed.lon, placed.lat, spec.position)[:2]
            ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _planned(
    folder: RunFolder, frozen: FrozenRun, match: CatalogJoin, attempt: str, found: pa.Table
) -> HistogramReport:
    """Leave in the run folder what the histogram and plan steps of an ingest leave."""
    spec, storage, inputs = frozen.spec, folder.storage, folder.inputs()
    rows = pc.sum(found["rows"]).as_py() or 0
    if rows == 0:
        raise EmptySourceError(
            f"no row of {match.left_catalog} is in the outcome ({match.described}); nothing is published"
        )
    stretches = read_table(storage, _STRETCHES)
    filled = found.filter(pc.greater(found["rows"], 0)).sort_by("task")
    begun = stretches.take(filled["task"])
    table = pa.table({"task": filled["task"], "start": begun["start"], "stop": begun["stop"]})
    write_table(storage, _MATCHED_STRETCHES, table)
    pieces = Pieces(Storage.at(frozen.catalog_uri), attempt)
    matched = MatchedRows(pieces, *(table[name].to_numpy() for name in table.column_names))
    paths = [_counts_path(attempt, task) for task in filled["task"].to_pylist()]
    counts = sum_parts(storage, paths, max(spec.mapping_order, spec.lowest_order))
    weight = _weight(matched, spec)
    histogram = _deepened(Histogram.from_counts(counts.order, *counts.total()), matched, spec, weight)
    storage.delete_tree(COUNTS)
    group = _group_of(spec)
    row_bytes = {group: weight.disk}
    splits = tuple(
        Split(ordinal=file.ordinal, file=file, unit="rows", start=0, stop=rows) for file in inputs.files
    )
    # Every row of the outcome is counted with the left catalog, whose row it is.
    of_side = np.where(np.arange(len(splits)) == 0, rows, 0)
    SplitTable(splits, of_side, np.zeros(len(splits), np.int64)).write(storage, RunFolder.SPLITS)
    storage.write(RunFolder.SCHEMA, match.columns.schema.serialize().to_pybytes())
    write_table(storage, RunFolder.HISTOGRAM, histogram.to_table(row_bytes))
    write_table(storage, RunFolder.PER_ORDER, coarser_orders(histogram, row_bytes))
    report = HistogramReport(
        files=len(inputs.files),
        rows_in=rows,
        rows_out=rows,
        bytes=inputs.total_bytes,
        cells=len(histogram),
        highest_order=int(histogram.order.max()),
        row_bytes={group: weight},
    )
    folder.write(RunFolder.report_path(HistogramRequest.step), report)
    planning.run(planning.PlanRequest(run_uri=folder.uri))
    return report


def _weight(matched: MatchedRows, spec: CatalogSpec) -> RowBytes:
    """What a row of the outcome weighs, from the first rows of the first, the middle and the last stretch."""
    last = len(matched.tasks) - 1
    samples = []
    for at in sorted({0, last // 2, last}):
        first = matched.pieces.read(int(matched.tasks[at]))[0]
        samples.append({"": weight_of(first.slice(0, SAMPLE_ROWS), spec.parquet)})
    return mean_row_bytes(samples)[""]


def _deepened(histogram: Histogram, matched: MatchedRows, spec: CatalogSpec, weight: RowBytes) -> Histogram:
    """Count crowded cells deeper, until each can be a leaf."""
    threshold = spec.threshold
    share = weight.disk if threshold.unit is ThresholdUnit.BYTES else 1.0
    while True:
        held = (histogram.rows * share).astype(np.int64)
        crowded = crowded_cells(histogram, held, threshold.value, highest_order=spec.highest_order)
        crowded &= histogram.rows > 1
        if not crowded.any():
            return histogram
        cells = histogram.select(crowded)
        deeper = min(int(cells.order.max()) + DEEPER_BY, spec.highest_order)
        counts = PixelCounts(deeper)
        for order, npix in zip(cells.order.tolist(), cells.npix.tolist(), strict=True):
            counts.add_rows(matched.keys_within(*Pixel(order, npix).interval))
        histogram = histogram.refined(crowded, Histogram.from_counts(deeper, *counts.total()))


def _store_written(folder: RunFolder, frozen: FrozenRun, rows: int, files: pa.Table, tasks: int) -> pa.Table:
    """Leave in the run folder what the write step of an ingest leaves; return the files along the curve."""
    written = pc.sum(files["rows"]).as_py()
    if written != rows:
        raise VerificationError(
            f"{rows} rows were matched, but {written} were written; nothing is published. Run it again; if "
            "it happens twice, report it as a bug"
        )
    along = np.argsort(starts(files["order"].to_numpy(), files["npix"].to_numpy()))
    files = files.take(pa.array(along))
    write_table(folder.storage, RunFolder.PARTITIONS, files)
    catalog = Storage.at(frozen.catalog_uri)
    delete_temporary_files(catalog, frozen.write_id, 0, recursive=True)  # of task attempts that were killed
    group = _group_of(frozen.spec)
    size = pc.sum(files["bytes"]).as_py()
    report = WriteReport(
        rows_in=rows,
        rows_out=rows,
        bytes=size,
        files=files.num_rows,
        partitions={group: files.num_rows},
        group_bytes={group: size},
        tasks=tasks,
    )
    folder.write(RunFolder.report_path(WriteRequest.step), report)
    return files
