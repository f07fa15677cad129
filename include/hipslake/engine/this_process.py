"""The engine for little work: tasks run as threads of this process, and blocks wait in its memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TypeVar

import pyarrow as pa

from hipslake.engine.model import MAX_BLOCK_BYTES, Block, Counter, Mapper, Reducer, Scratch, Stage, Task, sent
from hipslake.engine.progress import reported

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class ThisProcess:
    """Runs tasks in threads; most of their time is spent in numpy and Arrow, which let others run.

    All rows of an exchange are held at once: it is for what a machine takes lightly.

    Parameters
    ----------
    cores : int, optional
        Tasks that run at once; by default one per core.
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or os.cpu_count() or 1
        self._stage = Stage("", 0, 0)
        self._counting = threading.Lock()

    @property
    def cores(self) -> int:
        return self._cores

    @property
    def holds_exchanges(self) -> bool:
        return True

    @property
    def on_this_machine(self) -> bool:
        return True

    def check_running(self) -> None:
        """Nothing to look for."""

    def counter(self) -> Counter:
        return _Counter()

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
        lock = threading.Lock()

        def work(number: int) -> list[pa.RecordBatch]:
            found = list(task(number))
            if ended is not None:
                with lock:
                    ended(number)
            return found

        return self._together("", work, list(range(tasks)), result)

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
        waiting: dict[int, list[Block]] = {}
        lock = threading.Lock()

        def route(number: int) -> list[pa.RecordBatch]:
            for target, block in sent(mapper, number, block_bytes):
                with lock:
                    waiting.setdefault(target, []).append(block)
            return []

        def gather(target: int) -> list[pa.RecordBatch]:
            blocks = waiting.pop(target)
            blocks.sort(key=lambda block: block.source)
            return list(reducer(target, blocks))

        self._together("routing", route, list(range(sources)), pa.schema([]))
        assert all(0 <= target < targets for target in waiting), "a target that was not announced"
        return self._together("gathering", gather, sorted(waiting), result, at_once)

    def _stages(self) -> list[Stage]:
        return [self._stage] if self._stage.tasks else []

    def _together(
        self,
        name: str,
        work: Callable[[int], list[pa.RecordBatch]],
        numbers: list[int],
        schema: pa.Schema,
        at_once: int = 1,
    ) -> pa.Table:
        def counted(number: int) -> list[pa.RecordBatch]:
            found = work(number)
            with self._counting:
                self._stage = self._stage._replace(done=self._stage.done + 1)
            return found

        self._stage = Stage(name, 0, len(numbers))
        if len(numbers) == 1:
            return pa.Table.from_batches(counted(numbers[0]), schema)
        with ThreadPoolExecutor(max(self._cores, at_once), thread_name_prefix="task") as pool:
            try:
                found = list(pool.map(counted, numbers))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return pa.Table.from_batches([batch for batches in found for batch in batches], schema)


def read_ahead(work: Callable[[Item], Outcome], items: Iterable[Item]) -> Iterator[Outcome]:
    """Work on items in threads, one per core, and yield the outcomes in the order of the items.

    No more items are begun than the caller takes, but for one more per core. The threads run in the caller's
    context, which holds the credentials of stores.
    """
    threads = os.cpu_count() or 1
    waiting: deque[Future[Outcome]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Counter:
    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def add(self, term: int) -> None:
        with self._lock:
            self._value += term

    @property
    def value(self) -> int:
        return self._value
