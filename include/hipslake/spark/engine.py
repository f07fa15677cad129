"""The engine that runs tasks in Spark, on whatever master its session has."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import Accumulator
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hipslake.engine.model import (
    MAX_BLOCK_BYTES,
    ArrivingFiles,
    BatchTask,
    Counter,
    Mapper,
    Reducer,
    Scratch,
    Stage,
    Task,
)
from hipslake.engine.progress import reported
from hipslake.spark.exchange import THROUGH_SHUFFLE, collected, exchange, run_tasks
from hipslake.spark.one_machine import FolderMark, executors_at_one_address
from hipslake.spark.stream_drains import drain_files
from hipslake.spark.transport import BlocksOutOfReachError, ThroughFiles, Transport
from hipslake.storage.write_out import bytes_kept_unwritten

log = logging.getLogger(__name__)


class SparkEngine:
    """Runs the tasks of a step as stages of a Spark session.

    Parameters
    ----------
    session : SparkSession or Future of SparkSession
        One that is still being opened is waited for when it is first needed.
    """

    def __init__(self, session: SparkSession | Future[SparkSession]) -> None:
        self._session = session

    @property
    def _spark(self) -> SparkSession:
        return self._session.result() if isinstance(self._session, Future) else self._session

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    @property
    def holds_exchanges(self) -> bool:
        return False

    @property
    def on_this_machine(self) -> bool:
        return bool(self._spark.sparkContext.master.startswith("local"))

    def check_running(self) -> None:
        """Raise py4j's error if the JVM is gone, and Spark's if the session was stopped."""
        self._spark.sparkContext.statusTracker().getActiveStageIds()

    def counter(self) -> Accumulator[int]:
        return self._spark.sparkContext.accumulator(0)

    def progress(
        self, what: str, *, rows: int | None = None, done: Counter | None = None
    ) -> AbstractContextManager[None]:
        return reported(what, rows=rows, done=done, stages=self._stages)

    def run(self, task: Task, *, tasks: int, result: pa.Schema) -> pa.Table:
        frame = run_tasks(self._spark, sources=tasks, task=task, result=from_arrow_schema(result))
        return collected(frame)

    def exchange(
        self,
        *,
        sources: int,
        mapper: Mapper,
        targets: int,
        reducer: Reducer,
        result: pa.Schema,
        block_bytes: int = MAX_BLOCK_BYTES,
        scratch: Scratch | None = None,
        at_once: int = 1,
    ) -> pa.Table:
        def through(transport: Transport) -> pa.Table:
            frame = exchange(
                self._spark,
                sources=sources,
                mapper=mapper,
                targets=targets,
                reducer=reducer,
                result=from_arrow_schema(result),
                block_bytes=block_bytes,
                transport=transport,
            )
            return collected(frame)

        with self._transport(scratch, targets) as transport:
            try:
                return through(transport)
            except PythonException as error:
                if BlocksOutOfReachError.__name__ not in str(error):
                    raise
                # An executor has come on another machine: then as on any cluster.
                log.warning("Executors are not all on this machine any more: blocks go through the shuffle.")
                return through(THROUGH_SHUFFLE)

    def drain(self, arriving: ArrivingFiles, task: BatchTask) -> None:
        drain_files(self._spark, arriving, task)

    @contextmanager
    def _transport(self, scratch: Scratch | None, targets: int) -> Iterator[Transport]:
        """Blocks take the short way where all tasks run on this machine."""
        context, local = self._spark.sparkContext, self.on_this_machine
        if scratch is None or not (local or executors_at_one_address(context)):
            yield THROUGH_SHUFFLE
            return
        # Spark removes its own folder when it ends, and would have the blocks there in its shuffle else.
        folder = scratch.folder or Path(context._temp_dir, f"blocks-{secrets.token_hex(8)}")
        write_out = scratch.bytes > bytes_kept_unwritten()
        with ThroughFiles.freeing(
            context, folder, targets, write_out=write_out, marked=not local
        ) as transport:
            yield transport if transport.mark is None or self._all_see(transport.mark) else THROUGH_SHUFFLE

    def _all_see(self, mark: FolderMark) -> bool:
        """Ask as many tasks as run at once."""
        told = pa.schema([("seen", pa.bool_())])
        asked = self.run(
            lambda number: [pa.record_batch([[mark.seen()]], told)], tasks=self.cores, result=told
        )
        return all(asked["seen"].to_pylist())

    def _stages(self) -> list[Stage]:
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        active = [stage for stage in stages if stage is not None]
        return [Stage(f"stage {each.stageId}", each.numCompletedTasks, each.numTasks) for each in active]
