"""The drain step: all files that have come since the last run go into the table, batch by batch.

Each batch is one commit, which also sets the mark of its number. A batch that was committed by a run which
died before the checkpoint said so comes again, is known by its mark, and leaves the table as it is.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import closing

from hipslake.engine.model import Engine, StreamingEngine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import StepError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.spec_folder import COMPACTION as COMPACTION_TYPE
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.steps.compact_table.request import FrozenCompaction
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.sink.request import FrozenSink
from hipslake.steps.sink.sink_table import sink
from hipslake.steps.sink.stream_batches import has_batch
from hipslake.steps.stream.arrived_files import (
    DRAINED,
    ArrivedFiles,
    DrainedListing,
    arriving_files,
    stream_folder,
)
from hipslake.steps.stream.request import COMPACTION, DrainReport, DrainRequest, SunkBatch
from hipslake.tables.opening import open_table
from hipslake.tables.sink_order import BatchRows, FileRows, SinkOrder, SinkOutcome, StreamBatch, stream_key

log = logging.getLogger(__name__)

IN_SPARK = 128 << 20
"""Bytes of the files of a batch from which on Spark sinks them; fewer are sunk sooner without it."""
_MOST_TOLD = 20
_SUMS = (
    "rows_in",
    "rows_out",
    "delete_records",
    "bytes",
    "files_removed",
    "delete_files",
    "rows_updated",
    "rows_deleted",
    "missing_deletes",
    "outdated",
    "rows_rewritten",
)


def run(request: DrainRequest, engine: Engine) -> DrainReport:
    """Drain a stream.

    Run again, also after it was killed, it goes on where it stopped.

    Raises
    ------
    StepError
        The engine knows no streams.
    PlanError
        The checkpoint is not the one that the table was fed from.
    InputError
        A file of a batch is gone.
    StorageError
        Files cannot be listed, or it cannot be gone on from the checkpoint.
    HipslakeError
        As of `hipslake.steps.sink.sink_table.sink`.
    """
    if not isinstance(engine, StreamingEngine):
        raise StepError("a stream is drained by Spark; do not perform this step in another process")
    frozen = request.frozen()
    drained = _Drain(frozen, engine)
    with drained.phases("list"):
        listing = drained.arrived.listed()
    arriving = arriving_files(frozen.spec, frozen.warehouse)
    folder = stream_folder(frozen.warehouse, frozen.table)
    if drained.arrived.are_there or folder.exists(""):
        engine.drain(arriving, drained.take)
        folder.write(DRAINED, DrainedListing(listing=listing).model_dump_json().encode())
    if frozen.spec.stream is not None and frozen.spec.stream.compact:
        _freeze_compaction(frozen, request)
    return drained.report()


class _Drain:
    """What the batches of a run came to."""

    def __init__(self, frozen: FrozenSink, engine: Engine) -> None:
        assert isinstance(frozen.spec.source, FileRowsSpec), "a stream is of files"
        self.phases = Phases()
        self.arrived = ArrivedFiles(frozen.source)
        self.checkpoint = ""
        self._frozen = frozen
        self._columns = frozen.spec.source.columns
        self._engine = engine
        self._total = dict.fromkeys(_SUMS, 0)
        self._seconds: dict[str, float] = {}
        self._last: deque[SunkBatch] = deque(maxlen=_MOST_TOLD)
        self._outcome: SinkOutcome | None = None
        self._batches = self._found = self._files = self._source_files = self._source_bytes = 0
        self._left_out = 0
        self._created = False
        self._columns_added: list[str] = []

    def take(self, number: int, checkpoint: str, paths: Callable[[], list[str]]) -> None:
        """Sink a batch, unless the table has it."""
        self.checkpoint = checkpoint
        batch = StreamBatch(query=self._frozen.table, number=number, checkpoint=checkpoint)
        if self._stands(batch):
            log.info("Batch %d was committed before, by a run that could not note it.", number)
            self._found += 1
            self._last.append(SunkBatch(number=number, skipped=True))
            return
        files = self.arrived.of(paths())
        if not files:
            log.info("Batch %d has no file that matches the source.", number)
            return
        order = SinkOrder(
            spec=self._frozen.spec,
            warehouse=self._frozen.warehouse,
            rows=BatchRows(
                batch=batch, given=FileRows(source=self._frozen.source, files=files, columns=self._columns)
            ),
            write_id=self._frozen.write_id,
            force=self._frozen.force,
        )
        size = sum(file.size for file in files)
        self._add(number, sink(order, self._engine if size >= IN_SPARK else ThisProcess()))
        self._source_files += len(files)
        self._source_bytes += size

    def report(self) -> DrainReport:
        """Say what was done."""
        outcome, passed_over = self._outcome, self.arrived.passed_over
        return DrainReport(
            **self._total,
            rows_rejected=self._left_out,
            files=self._files,
            table=self._frozen.spec.table,
            location="" if outcome is None else outcome.location,
            checkpoint=self.checkpoint,
            snapshot_id=None if outcome is None else outcome.snapshot_id,
            batches=self._batches,
            found=self._found,
            source_files=self._source_files,
            source_bytes=self._source_bytes,
            created=self._created,
            columns_added=", ".join(dict.fromkeys(self._columns_added)),
            last=tuple(self._last),
            passed_over=passed_over[:_MOST_TOLD],
            passed_over_count=len(passed_over),
            text="" if outcome is None else f"The last batch: {outcome.plan}",
            seconds={**self.phases.seconds, **self._seconds},
        )

    def _stands(self, batch: StreamBatch) -> bool:
        spec = self._frozen.spec
        with (
            self.phases("look"),
            closing(open_table(spec.place, self._frozen.warehouse, spec.table)) as opened,
        ):
            table = opened.now()
            newest = None if table is None else table.marks.of(stream_key(spec.name))
        return newest is not None and has_batch(newest, batch, spec.table, force=self._frozen.force)

    def _add(self, number: int, outcome: SinkOutcome) -> None:
        if outcome.skipped:  # by another process, since it was looked for
            self._found += 1
            self._last.append(SunkBatch(number=number, skipped=True))
            return
        self._outcome = outcome
        self._batches += 1
        self._files += outcome.files_added
        self._left_out += outcome.rows_left_out
        self._created |= outcome.created
        self._columns_added += outcome.columns_added
        for name in _SUMS:
            self._total[name] += getattr(outcome, name)
        for phase, seconds in outcome.seconds.items():
            self._seconds[phase] = round(self._seconds.get(phase, 0.0) + seconds, 4)
        self._last.append(
            SunkBatch(
                number=number,
                snapshot_id=outcome.snapshot_id,
                rows=outcome.rows_out,
                files_added=outcome.files_added,
            )
        )


def _freeze_compaction(frozen: FrozenSink, request: DrainRequest) -> None:
    """Freeze the compaction that follows, as a run in the folder of this one."""
    spec = frozen.spec
    folder = RunFolder(f"{request.run_uri}/{COMPACTION}")
    compaction = FrozenCompaction(
        dag_id=frozen.dag_id,
        run_id=frozen.run_id,
        run_uri=folder.uri,
        warehouse=frozen.warehouse,
        created=now_utc(),
        library_version=frozen.library_version,
        table=spec.name,
        spec=CompactionSpec(
            name=spec.name,
            type=COMPACTION_TYPE,
            format=spec.format,
            iceberg=spec.iceberg,
            delta=spec.delta,
            table=spec.table,
            target_file_size=spec.target_file_size,
        ),
        spec_file=frozen.spec_file,
    )
    folder.write(RunFolder.RUN, compaction)
