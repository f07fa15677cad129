"""The export: one process writes the file; where there are many rows, tasks read and cut them before.

Each task has a stretch of the curve; its rows wait in the run folder, as an Arrow file.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.changes.change_feed import ChangeFeed
from hipslake.catalog.exporting import Export
from hipslake.engine.model import Counter, Engine
from hipslake.errors import SpecError
from hipslake.exports.writers import Exported
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals
from hipslake.steps.export.outputs import refuse_published
from hipslake.steps.export.request import ExportReport, ExportRequest
from hipslake.steps.given_files import check_region
from hipslake.steps.report import Phases
from hipslake.steps.row_routing import runs_of
from hipslake.steps.run import catalog_uri
from hipslake.storage.folder import Storage
from hipslake.versions.pins import keep_for_reading

PIECES = "export/pieces"
_RESULT = pa.schema([("piece", pa.int64()), ("rows", pa.int64())])


def run(request: ExportRequest, engine: Engine) -> ExportReport:
    """Export rows of a catalog, or what changed in them; in one process, leaf by leaf, else by tasks.

    Run again, also after it was killed before its report, it writes the file anew.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If there is no such catalog or version.
    SpecError
        If the region, a filter, the format or the output makes no sense.
    SchemaMismatchError
        If there is no such column, or the format has no form for one.
    NotWritableError
        If something lies at the output already.
    """
    phases = Phases()
    with preparing(request, phases) as export:
        rows = export.rows() if engine.holds_exchanges else _read_by_tasks(request, export, engine, phases)
        with phases("write"):
            exported = written(request, export, rows)
        request.folder.storage.delete_tree(PIECES)
    return ExportReport(
        rows_in=exported.rows,
        rows_out=exported.rows,
        bytes=exported.bytes,
        files=1,
        version=export.catalog.version,
        changes_since=request.changes_since,
        catalog_uri=export.catalog.uri,
        output=exported.uri,
        seconds=phases.seconds,
    )


def _read_by_tasks(
    request: ExportRequest, export: Export, engine: Engine, phases: Phases
) -> Iterator[pa.Table]:
    """Have tasks leave the rows in the run folder, and return them from there."""
    folder = request.folder.storage
    fixed = request.model_copy(update={"version": export.catalog.version})
    stretches = _stretches(export, request.task_bytes) if export.feed is None else _compared(export.feed)
    task = ExportTask(fixed, stretches, engine.counter())
    tasks = len(task.stretches)
    folder.delete_tree(PIECES)
    if tasks:
        with phases("read"), engine.progress("export", done=task.done):
            engine.run(task, tasks=tasks, result=_RESULT)
    if export.feed is None:
        return _rows(folder, tasks)
    return export.feed.told(lambda: _rows(folder, tasks))


def _stretches(export: Export, task_bytes: int) -> tuple[tuple[int, int], ...]:
    """The stretch of the curve of each task, as order-29 pixels [start, stop)."""
    parts = export.parts()
    numbers = assign_targets(np.array([part.bytes for part in parts], np.int64), task_bytes)
    return tuple((parts[a].start, parts[b - 1].stop) for a, b in runs_of(numbers))


def _compared(feed: ChangeFeed) -> tuple[tuple[int, int], ...]:
    """The stretch of the curve that each task compares."""
    return tuple(zip(feed.stretches.start.tolist(), feed.stretches.stop.tolist(), strict=True))


@dataclass(frozen=True)
class ExportTask:
    """Reads the rows of each task's stretch, or compares them, and leaves them in the run folder.

    Attributes
    ----------
    request : ExportRequest
        With the version that is exported.
    stretches : tuple of (int, int)
        Per task, order-29 pixels [start, stop).
    done : Counter
        Rows read so far.
    """

    request: ExportRequest
    stretches: tuple[tuple[int, int], ...]
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Leave the rows of a task; give how many there are."""
        export = _export(self.request)
        start, stop = self.stretches[task]
        if export.feed is None:
            schema, tables = export.schema, export.rows(Intervals.union([start], [stop]))
        else:
            schema, tables = export.feed.carried_schema, iter([export.feed.carried(start, stop)])
        rows = 0
        with (
            self.request.folder.storage.open(_piece(task), "wb", durable=False) as file,
            pa.ipc.new_stream(file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
        ):
            for table in tables:
                writer.write_table(table)
                rows += table.num_rows
                self.done.add(table.num_rows)
        yield pa.record_batch([[task], [rows]], schema=_RESULT)


@lru_cache(maxsize=2)
def _export(request: ExportRequest) -> Export:
    return export_of(
        request, CatalogReader.open(catalog_uri(request.warehouse, request.catalog), request.version)
    )


def _piece(task: int) -> str:
    return f"{PIECES}/{task:06d}.arrow"


def _rows(folder: Storage, pieces: int) -> Iterator[pa.Table]:
    """The rows of all pieces, in order."""
    for piece in range(pieces):
        with folder.open(_piece(piece)) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                yield pa.Table.from_batches([batch])


MARKS = "export/marks"
"""In the run folder: the marks of the files that its attempts have made at the output."""


def written(request: ExportRequest, export: Export, rows: Iterable[pa.Table]) -> Exported:
    """Write the rows of an export where nothing stands but, maybe, what an earlier attempt has left.

    Raises
    ------
    NotWritableError
        Somebody else has written there meanwhile, and is not to be overwritten.
    """
    folder = request.folder.storage

    def note(mark: str) -> None:
        folder.write(folder.join(MARKS, f"{secrets.token_hex(4)}.txt"), mark.encode())

    if not request.overwrite and _stands_by_this_run(request, export):
        place, name = Storage.of_file(export.uri)
        place.delete(name)
    return export.write(rows, overwrite=request.overwrite, note=note)


def _stands_by_this_run(request: ExportRequest, export: Export) -> bool:
    """Whether an attempt at this run made what lies at the output."""
    marks = request.folder.storage.list(MARKS)
    if not marks:
        return False
    place, name = Storage.of_file(export.uri)
    try:
        standing = place.mark_of(name)
    except FileNotFoundError:
        return False
    return standing in {request.folder.storage.read(entry.path).decode() for entry in marks}


@contextmanager
def preparing(request: ExportRequest, phases: Phases) -> Iterator[Export]:
    """Resolve an export and look whether it can be written; no vacuum takes its version while the block runs.

    Errors as of `run`.
    """
    root = Storage.at(catalog_uri(request.warehouse, request.catalog))
    with phases("prepare"):
        catalog = CatalogReader.open(root.root, request.version)
        refuse_published(request.output_uri)
        export = export_of(request, catalog)
        export.check(overwrite=request.overwrite or _stands_by_this_run(request, export))
    with ExitStack() as held:
        for version in {catalog.version, request.changes_since or catalog.version}:
            keep_for_reading(held, root, version)
        yield export


def export_of(request: ExportRequest, catalog: CatalogReader) -> Export:
    """Return the export that a request asks for, of a catalog."""
    check_region(request.region, request.warehouse)
    if request.changes_since is not None:
        return Export.of_changes(
            catalog,
            request.changes_since,
            request.output_uri,
            region=request.region,
            columns=request.columns,
            filters=request.filters,
            key=request.key,
            format=request.format,
        )
    if request.key is not None:
        raise SpecError("key: tells updates among changes; give the version that they begin with, too")
    return Export.of(
        catalog,
        request.output_uri,
        region=request.region,
        columns=request.columns,
        filters=request.filters,
        format=request.format,
    )


def bytes_to_export(request: ExportRequest) -> int:
    """Return how many bytes of leaf files an export reads; that decides whether Spark runs the step."""
    root = catalog_uri(request.warehouse, request.catalog)
    return export_of(request, CatalogReader.open(root, request.version)).bytes
