"""The export of many rows: tasks read and cut them, and one process writes the file.

Each task has a stretch of the curve; its rows wait in the run folder, as an Arrow file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.exporting import Export
from hipslake.engine.model import Counter, Engine
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals
from hipslake.steps.export.request import (
    ExportReport,
    ExportRequest,
    export_of,
    preparing,
    report_of,
    written,
)
from hipslake.steps.report import Phases
from hipslake.steps.run import catalog_uri
from hipslake.storage.folder import Storage

PIECES = "export/pieces"
_RESULT = pa.schema([("piece", pa.int64()), ("rows", pa.int64())])


def run(request: ExportRequest, engine: Engine) -> ExportReport:
    """Export by the tasks of an engine; outcome and errors as of `hipslake.steps.export.request.run`."""
    phases = Phases()
    folder = request.folder.storage
    with preparing(request, phases) as export:
        fixed = request.model_copy(update={"version": export.catalog.version})
        task = ExportTask(fixed, _stretches(export, request.task_bytes), engine.counter())
        tasks = len(task.stretches)
        folder.delete_tree(PIECES)
        if tasks:
            with phases("read"), engine.progress("export", done=task.done):
                engine.run(task, tasks=tasks, result=_RESULT)
        with phases("write"):
            exported = written(request, export, _rows(folder, tasks))
        folder.delete_tree(PIECES)
        return report_of(export, exported, phases)


def _stretches(export: Export, task_bytes: int) -> tuple[tuple[int, int], ...]:
    """The stretch of the curve of each task, as order-29 pixels [start, stop)."""
    parts = export.parts()
    if not parts:
        return ()
    numbers = assign_targets(np.array([part.bytes for part in parts], np.int64), task_bytes)
    first = np.flatnonzero(np.diff(numbers, prepend=-1))
    last = np.append(first[1:], len(parts)) - 1
    return tuple((parts[a].start, parts[b].stop) for a, b in zip(first, last, strict=True))


@dataclass(frozen=True)
class ExportTask:
    """Reads the rows of each task's stretch and leaves them in the run folder.

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
        rows = 0
        with (
            self.request.folder.storage.open(_piece(task), "wb", durable=False) as file,
            pa.ipc.new_stream(
                file, export.selection.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            ) as writer,
        ):
            for table in export.rows(Intervals.union([start], [stop])):
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
