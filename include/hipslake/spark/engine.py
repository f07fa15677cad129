"""The engine that runs tasks in Spark, on whatever master its session has."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Accumulator
from pyspark.errors import PySparkException
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
from hipslake.spark.exchange import THROUGH_SHUFFLE, collected, exchange, run_tasks, telling
from hipslake.spark.one_machine import FolderMark, executors_at_one_address
from hipslake.spark.served_blocks import ThroughServers, may_serve
from hipslake.spark.stream_drains import drain_files
from hipslake.spark.transport import BlocksOutOfReachError, ThroughFiles, Transport, told_of_ends
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
        self._reaches_blocks = True  # tasks those of others, so far

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

    def run(
        self,
        task: Task,
        *,
        tasks: int,
        result: pa.Schema,
        ended: Callable[[int], object] | None = None,
    ) -> pa.Table:
        with ExitStack() as stack:
            if ended is not None:
                task = telling(task, stack.enter_context(told_of_ends(self._spark.sparkContext, ended)))
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
            except (PySparkException, Py4JError) as error:
                if BlocksOutOfReachError.__name__ not in str(error):
                    raise
        # An executor has come on another machine, or one with blocks has gone, or cannot be called. What was
        # written is gone by here, so that the disks need not hold it twice.
        log.warning("Blocks are out of reach of tasks: they go through the shuffle, from here on.")
        self._reaches_blocks = False
        return through(THROUGH_SHUFFLE)

    def drain(self, arriving: ArrivingFiles, task: BatchTask) -> None:
        drain_files(self._spark, arriving, task)

    @contextmanager
    def _transport(self, scratch: Scratch | None, targets: int) -> Iterator[Transport]:
        """Blocks wait in files where that serves: of this machine, or of the executor that made them."""
        if scratch is None or not self._reaches_blocks:
            yield THROUGH_SHUFFLE
            return
        context, local = self._spark.sparkContext, self.on_this_machine
        write_out = scratch.bytes > bytes_kept_unwritten()
        with ExitStack() as stack:
            if local or executors_at_one_address(context):
                # Spark removes its own folder when it ends, where its shuffle would have the blocks else.
                folder = scratch.folder or Path(context._temp_dir, f"blocks-{secrets.token_hex(8)}")
                files = stack.enter_context(
                    ThroughFiles.freeing(context, folder, targets, write_out=write_out, marked=not local)
                )
                if files.mark is None or self._all_see(files.mark):
                    yield files
                    return
                stack.close()
            yield self._served(stack, scratch.bytes, targets, write_out)

    def _served(self, stack: ExitStack, size: float, targets: int, write_out: bool) -> Transport:
        """Through the servers of executors until the stack is closed; else through the shuffle."""
        context = self._spark.sparkContext
        if not may_serve(context.getConf(), size):
            return THROUGH_SHUFFLE
        try:
            return stack.enter_context(ThroughServers.serving(context, targets, write_out=write_out))
        except OSError as error:
            log.warning("Servers of blocks cannot call the driver: blocks go through the shuffle. %s", error)
            return THROUGH_SHUFFLE

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
