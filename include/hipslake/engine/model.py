"""What a step asks of the engine that runs its tasks: numbers to count with, tasks, and the exchange.

`hipslake.spark.engine` runs tasks in Spark. `hipslake.engine.this_process` runs a few of them where it is
called, which is quicker than starting Spark when there is little to do. A step cannot tell them apart, and
leaves the same bytes with either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

MAX_BLOCK_BYTES = 32 << 20


class Block(NamedTuple):
    """Rows that one map task sent to one reduce task."""

    source: int  # blocks sorted by it are in source order
    rows: pa.RecordBatch


Routed = tuple[int, pa.RecordBatch]
Mapper = Callable[[int], Iterable[Routed]]
Reducer = Callable[[int, "list[Block]"], Iterable[pa.RecordBatch]]
Task = Callable[[int], Iterable[pa.RecordBatch]]


class Counter(Protocol):
    """A number that tasks add to. What a task adds may count twice if the task runs twice."""

    def add(self, term: int) -> None:
        """Add, in a task."""

    @property
    def value(self) -> int:
        """The sum so far, for whoever started the tasks."""


class Stage(NamedTuple):
    """Tasks that run side by side, and how many of them are done."""

    name: str  # "" where there is no other
    done: int
    tasks: int


@dataclass(frozen=True)
class Scratch:
    """Where blocks may wait for their reduce task, if all tasks run on this machine.

    Attributes
    ----------
    folder : Path
        A local folder that does not exist yet. It is gone when the exchange ends.
    bytes : float
        Of all blocks together, about.
    """

    folder: Path
    bytes: float


class Engine(Protocol):
    """Runs the tasks of a step."""

    @property
    def cores(self) -> int:
        """Tasks that run at once."""

    @property
    def holds_exchanges(self) -> bool:
        """Whether all rows of an exchange are in the memory of one process at once."""

    def counter(self) -> Counter:
        """A number that starts at 0."""

    def progress(
        self, what: str, *, rows: int | None = None, done: Counter | None = None
    ) -> AbstractContextManager[None]:
        """Log how far the tasks in the block are; parameters as for `hipslake.engine.progress.reported`."""

    def run(self, task: Task, *, tasks: int, result: pa.Schema) -> pa.Table:
        """Run a task for every number in [0, tasks), and return what they gave, in no particular order.

        Raises
        ------
        HipslakeError
            What a task raised.
        """

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
    ) -> pa.Table:
        """Route rows from map tasks to reduce tasks, and return what those gave, in no particular order.

        Both functions must give the same for the same number, since a task may run more than once.

        Parameters
        ----------
        sources : int
            Number of map tasks.
        mapper : callable
            Takes the number of a map task; yields (target, record batch).
        targets : int
            Number of reduce tasks; each has one target.
        reducer : callable
            Takes a target and its blocks in source order; yields batches of the result. It is not called for
            targets that got no block. It may empty the list to free memory.
        result : pyarrow.Schema
        block_bytes : int
            Largest block in bytes; a batch above it is cut by rows, and a single row above it travels alone.
        scratch : Scratch, optional

        Raises
        ------
        HipslakeError
            What a task raised.
        """
