"""The histogram step: one pass over the positions, and more over crowded pixels only.

Every task counts its splits and leaves a part (a sparse histogram) in the run folder; only a few numbers per
split pass through Spark. The driver adds the parts up. Pixels over a threshold are counted again at deeper
orders in the same session, so that planning needs no Spark.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.claimed_pixels import check_claims
from hipslake.catalog.placement import NULL_OBJECT, OTHER_CLAIM, REASONS, Placer
from hipslake.catalog.schema import as_described, check_columns
from hipslake.engine.model import Engine
from hipslake.errors import BadRowsError, EmptySourceError
from hipslake.planning.pixel_histogram import Histogram, coarser_orders
from hipslake.sources import Source, open_source
from hipslake.sources.names import check_names
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.ingest.crowding import crowded_pixels, deeper_order
from hipslake.steps.ingest.gather_objects import gather_object_pixels
from hipslake.steps.ingest.histogram_tasks import RESULT, CountTask, SplitFinding
from hipslake.steps.ingest.newest_rows import check_newest, find_superseded
from hipslake.steps.ingest.night_records import check_records, find_records, store_no_records
from hipslake.steps.ingest.pixel_counts import PixelCounts, sum_parts
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.ingest.row_bytes import sampled_row_bytes
from hipslake.steps.ingest.sorted_rows import SortedRows, may_keep_rows
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.ingest.superseded_rows import PieceCounts, SupersededRows, store_counts
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import write_table, write_tables
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside

log = logging.getLogger(__name__)

_PARTS = "histogram/parts"


def run(request: HistogramRequest, engine: Engine) -> HistogramReport:
    """Count the rows of a run's files per pixel, and find their schema and their rows on the way.

    Raises
    ------
    EmptySourceError, CorruptFileError, SchemaMismatchError, ReservedColumnError
        If the files are not what a catalog can be made of.
    BadRowsError
        If more rows have no place on the sky than the spec allows.
    InputError
        If rows of a key share their order, where the spec asks for the newest; in mode upsert, if the records
        do not say what becomes of which row.
    """
    with ExitStack() as failing:
        report = _run(request, engine, failing)
        failing.pop_all()
    return report


def _run(request: HistogramRequest, engine: Engine, failing: ExitStack) -> HistogramReport:
    phases = Phases()
    folder, storage = request.folder, request.folder.storage
    run, inputs = FrozenRun.of(folder), FrozenInputs.of(folder)
    spec, source_spec = run.spec, run.source
    source = open_source(source_spec)
    parts = f"{_PARTS}/{secrets.token_hex(4)}"  # an attempt that was given up may still be running
    with phases("splits"), beside(storage) as begin:
        begin(lambda: _delete_parts(storage, _PARTS))
        if storage.is_local:
            _delete_parts(storage, RunFolder.SORTED)
        splits = SplitList.of(source.splits(inputs.files, request.split_target_bytes))
        schema = source.schema(inputs.files)
        if schema is not None:
            schema = as_described(spec, schema, run.felis)
            _check(schema, spec)
    if not len(splits):
        return _nothing(folder, schema)
    placer = Placer(spec)
    if spec.position_from is not None:
        with phases("objects"):
            placer = Placer(spec, gather_object_pixels(folder, source, splits, schema, engine))

    def superseded_by(schema: pa.Schema | None) -> SupersededRows | None:
        if schema is not None and spec.mode is Mode.UPSERT:
            with phases("records"):
                find_records(folder, source, splits, schema, placer, engine)
        if spec.newest is None or schema is None:
            return None
        with phases("newest"):
            return find_superseded(folder, source, splits, schema, placer, engine)

    kept = None
    keeps = request.keep_rows and engine.on_this_machine and may_keep_rows(folder)
    if keeps and schema is not None:
        kept = SortedRows.of(storage, spec, schema, source_bytes=inputs.total_bytes, at_once=engine.cores)
    if kept is not None:
        failing.callback(kept.give_up)
    log.info("Counting the rows of %d files in %d splits.", len(inputs.files), len(splits))
    tasks = splits.runs(engine.cores)
    task = CountTask(
        folder=storage,
        parts=f"{parts}/0",
        source=source,
        spec=spec,
        splits=splits,
        placer=placer,
        tasks=tasks,
        schema=schema,
        order=max(spec.mapping_order, spec.lowest_order),
        max_examples=request.max_examples,
        done=engine.counter(),
        superseded=superseded_by(schema),
        sorted_rows=kept,
    )
    known_catalog(request.run_uri).claim_for_append(Storage.at(run.catalog_uri))  # while rows are counted
    with ThreadPoolExecutor(1) as pool:  # the driver weighs rows while the tasks count them
        weighing = (
            pool.submit(sampled_row_bytes, source, inputs.files, schema, spec) if schema is not None else None
        )
        with phases("count"):
            counted = _count(engine, task)
    if schema is None:
        schema = as_described(spec, _inferred(source, task, counted), run.felis)
        _check(schema, spec)
        placer.check(schema)
        if spec.newest is not None or spec.mode is Mode.UPSERT:  # types of keys are known now
            again = superseded_by(schema)
            task = replace(
                task, schema=schema, superseded=again, parts=f"{parts}/newest", done=engine.counter()
            )
            with phases("count"):
                counted = _count(engine, task)
    for line in source.shaping_lines(schema):
        log.info("%s", line)
    findings, rejected_in = counted.findings, np.zeros(len(splits), np.int64)
    for finding in findings:
        rejected_in[finding.split] = sum(finding.rejected.values())
    table = SplitTable(splits, counted.rows, rejected_in)
    rows, rejected = int(table.rows.sum()), rejected_by_reason(findings)
    superseded = sum(finding.superseded for finding in findings)
    deletes = sum(finding.deletes for finding in findings)
    if rows == 0:
        return _nothing(folder, schema)
    shown = examples(findings, table, request.max_examples)
    check_bad_rows(spec, rows=rows, rejected=rejected, shown=shown)
    if sum(rejected.values()) == rows:  # no record of a key either
        raise EmptySourceError(
            f"{source_spec.uri}: of {rows} rows not one is on the sky. First: " + "; ".join(shown)
        )
    with phases("weigh"):
        weights = weighing.result() if weighing else sampled_row_bytes(source, inputs.files, schema, spec)
    with phases("deepen"):
        histogram = Histogram.from_counts(counted.counts.order, *counted.counts.total())
        row_bytes = {group: weight.disk for group, weight in weights.items()}
        deepened: dict[int, int] = {}
        while (crowded := crowded_pixels(histogram, spec, row_bytes)).any():
            histogram = _deepened(engine, task, schema, histogram, crowded, parts)
            order = int(histogram.order.max())
            deepened[order] = int(crowded.sum())
            log.info("Counted %d crowded pixels again at order %d.", deepened[order], order)
    bad = sum(rejected.values())
    with phases("store"), beside(storage) as begin:
        begin(lambda: storage.delete_tree(parts))
        # The write step tells of the rows that have no place, and so reads all.
        if kept is not None and (bad or not kept.store(len(tasks))):
            why = f"{bad} rows have no place on the sky" if bad else "a task could not keep its rows"
            log.info("The write step reads the files again: %s.", why)
            kept.give_up()
            kept = None
        store_histogram(storage, table, schema, histogram, row_bytes)
    return HistogramReport(
        files=len(inputs.files),
        rows_in=rows,
        rows_out=rows - bad - superseded - deletes,
        rows_rejected=bad,
        rows_superseded=superseded,
        delete_records=deletes,
        bytes=inputs.total_bytes,
        splits=len(splits),
        cells=len(histogram),
        highest_order=int(histogram.order.max(initial=0)),
        crowded=deepened,
        rejected=rejected,
        unmatched=sum(finding.unmatched for finding in findings),
        examples=shown,
        group_bytes={
            group: int(weight.disk * (rows - bad - superseded - deletes)) for group, weight in weights.items()
        },
        row_bytes=weights,
        keeps_rows=kept is not None,
        seconds=phases.seconds,
    )


def _delete_parts(folder: Storage, path: str) -> None:
    """Delete what earlier attempts have left; of most there is nothing, and one listing tells that."""
    for entry in folder.list(path):
        folder.delete_tree(entry.path)


def _check(schema: pa.Schema, spec: CatalogSpec) -> None:
    check_claims(spec, schema)
    check_names(schema, spec)
    check_columns(spec, schema)
    check_newest(spec, schema)
    check_records(spec, schema)


def _nothing(folder: RunFolder, schema: pa.Schema | None) -> HistogramReport:
    """What is left of files without rows: for an increment that is an empty night, else an error."""
    run, inputs = FrozenRun.of(folder), FrozenInputs.of(folder)
    if not run.spec.mode.by_intervals:
        raise EmptySourceError(
            f"{run.source.uri}: {len(inputs.files)} files match, but they hold not one row; put files with "
            "rows there"
        )
    none = Histogram.from_counts(run.spec.mapping_order, np.empty(0, np.int64), np.empty(0, np.int64))
    if run.spec.newest is not None:
        store_counts(folder, PieceCounts(bounds=(0,), rows={}))
    if run.spec.mode is Mode.UPSERT:
        store_no_records(folder)
    splits = SplitTable(SplitList.of([]), np.empty(0, np.int64), np.empty(0, np.int64))
    store_histogram(folder.storage, splits, schema or pa.schema([]), none, {})
    return HistogramReport(files=len(inputs.files), bytes=inputs.total_bytes)


def store_histogram(
    folder: Storage,
    splits: SplitTable,
    schema: pa.Schema,
    histogram: Histogram,
    row_bytes: Mapping[str, float],
) -> None:
    """Leave in a run folder what the plan and write steps read of the rows that were counted.

    Parameters
    ----------
    folder : Storage
        The run folder.
    splits : SplitTable
    schema : pyarrow.Schema
        Of the rows.
    histogram : Histogram
    row_bytes : mapping of str to float
        Per column group, the bytes of a row in a leaf file.
    """
    with ThreadPoolExecutor(1) as pool, beside(folder) as begin:
        begin(lambda: splits.write(folder, RunFolder.SPLITS))
        begin(lambda: folder.write(RunFolder.SCHEMA, schema.serialize().to_pybytes()))
        summed = pool.submit(
            lambda: write_table(folder, RunFolder.PER_ORDER, coarser_orders(histogram, row_bytes))
        )
        write_tables(folder, RunFolder.HISTOGRAM, histogram.to_tables(row_bytes))
        summed.result()


class _Counted(NamedTuple):
    """What the tasks have found: the sum of their parts, and per split its rows and what was met in it.

    `like` is the split whose finding tells the schema of each, where it had to be inferred.
    """

    counts: PixelCounts
    rows: NDArray[np.int64]
    like: list[int | None]
    findings: tuple[SplitFinding, ...]


def _count(engine: Engine, task: CountTask) -> _Counted:
    with engine.progress("histogram", done=task.done):
        found = engine.run(task, tasks=len(task.tasks), result=RESULT).sort_by("split")
    parts = [task.part_path(number) for number in range(len(task.tasks))]
    texts = found["found"].drop_null().to_pylist()
    return _Counted(
        sum_parts(task.folder, parts, task.order),
        found["rows"].to_numpy(),
        found["like"].to_pylist(),
        tuple(SplitFinding.model_validate_json(text) for text in texts),
    )


def _inferred(source: Source, task: CountTask, counted: _Counted) -> pa.Schema:
    schemas = {finding.split: finding.arrow_schema() for finding in counted.findings}
    uris, position = task.splits.table["uri"].to_pylist(), task.spec.position
    found = [(uri, schemas[like]) for uri, like in zip(uris, counted.like, strict=True) if like is not None]
    return source.unify(
        [(uri, schema) for uri, schema in found if schema is not None], numbers=(position.ra, position.dec)
    )


def _deepened(
    engine: Engine,
    first: CountTask,
    schema: pa.Schema,
    histogram: Histogram,
    crowded: NDArray[np.bool_],
    parts: str,
) -> Histogram:
    """Count crowded cells again, some orders deeper. They all lie at one order: the deepest."""
    cells = histogram.select(crowded)
    order, deeper = int(cells.order.max()), deeper_order(cells, first.spec)
    task = first.deeper(deeper, (order, cells.npix.astype(np.int64)), schema, f"{parts}/{deeper}")
    counts = _count(engine, task).counts
    return histogram.refined(crowded, Histogram.from_counts(counts.order, *counts.total()))


def rejected_by_reason(findings: Sequence[SplitFinding]) -> dict[str, int]:
    """Rows per reason, over all splits."""
    total: Counter[int] = Counter()
    for finding in findings:
        total.update(finding.rejected)
    return {REASONS[code]: total[code] for code in sorted(total)}


def examples(findings: Sequence[SplitFinding], table: SplitTable, most: int) -> tuple[str, ...]:
    """The first bad rows in source order: file, row (from 1, without the header), values and reason."""
    before = table.rows_in_file_before
    lines: list[str] = []
    for finding in findings:
        for bad in finding.examples[: most - len(lines)]:
            uri, row = table.splits.uri_of(finding.split), int(before[finding.split]) + bad.row + 1
            lines.append(f"{uri}, row {row}: {bad.id or f'{bad.lon}, {bad.lat}'} ({REASONS[bad.reason]})")
    return tuple(lines)


def check_bad_rows(spec: CatalogSpec, *, rows: int, rejected: dict[str, int], shown: Sequence[str]) -> None:
    """Hold the bad rows against the policy, and those of no object against theirs.

    Raises
    ------
    BadRowsError
        With counts by reason and the first examples.
    """
    ids = {reason: count for reason, count in rejected.items() if reason in REASONS[NULL_OBJECT:OTHER_CLAIM]}
    places = {reason: count for reason, count in rejected.items() if reason not in ids}
    policy, given = spec.bad_rows, spec.position_from
    if mend := _broken("bad_rows", "policy", policy.policy, policy.max_fraction, places, rows):
        what = f"have no place on the sky in columns {spec.position.ra}, {spec.position.dec}"
        if set(places) & set(REASONS[OTHER_CLAIM:]):
            what += ", or say that they lie in another pixel (source.healpix: verify)"
        raise BadRowsError(_message(spec, rows, places, what, mend, shown))
    if given is not None and (
        mend := _broken("position_from", "unmatched", given.unmatched, given.max_fraction, ids, rows)
    ):
        what = f"have no object of catalog {given.catalog} in column {given.column}"
        raise BadRowsError(_message(spec, rows, ids, what, mend, shown))


def _broken(
    block: str, key: str, policy: str, max_fraction: float, rejected: dict[str, int], rows: int
) -> str | None:
    """How to mend it, if a policy, `key` in a block of the spec, does not allow the rejected rows."""
    bad = sum(rejected.values())
    if bad == 0 or (policy == "quarantine" and bad <= max_fraction * rows):
        return None
    if policy == "fail":
        return f"mend them, or set {block}.{key}: quarantine to keep them apart"
    return f"that is more than {block}.max_fraction = {max_fraction:g} allows"


def _message(
    spec: CatalogSpec, rows: int, rejected: dict[str, int], what: str, mend: str, shown: Sequence[str]
) -> str:
    reasons = ", ".join(f"{count} with {reason}" for reason, count in rejected.items())
    return (
        f"{sum(rejected.values())} of {rows} rows of {spec.source.uri} {what}: {reasons}; {mend}. First: "
        + "; ".join(shown)
    )
