"""What a step asks of the engine that runs its tasks: numbers to count with, tasks, and the exchange.

`hipslake.spark.engine` runs tasks in Spark. `hipslake.engine.this_process` runs a few of them where it is
called, which is quicker than starting Spark when there is little to do. A step cannot tell them apart, and
leaves the same bytes with either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

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
        """The sum so far, readable by the code that started the tasks."""


class Stage(NamedTuple):
    """Tasks that run side by side, and how many of them are done."""

    name: str  # "" where there is no other
    done: int
    tasks: int


@dataclass(frozen=True)
class Scratch:
    """Where blocks may wait for their reduce task.

    Attributes
    ----------
    folder : Path or None
        A local folder that does not exist yet, for an engine whose tasks all run on this machine. It is gone
        when the exchange ends. None: where the engine has its own files, as what is made of the blocks goes
        into a store.
    bytes : float
        Of all blocks together, about.
    """

    folder: Path | None
    bytes: float


class Engine(Protocol):
    """Runs the tasks of a step."""

    @property
    def cores(self) -> int:
        """Tasks that run at once."""

    @property
    def holds_exchanges(self) -> bool:
        """Whether all rows of an exchange are in the memory of one process at once."""

    @property
    def on_this_machine(self) -> bool:
        """Whether tasks run on the cores of this machine: then threads of this process may do their work."""

    def check_running(self) -> None:
        """Raise if tasks cannot be run any more, since their session is gone. For work of threads."""

    def counter(self) -> Counter:
        """A number that starts at 0."""

    def progress(
        self, what: str, *, rows: int | None = None, done: Counter | None = None
    ) -> AbstractContextManager[None]:
        """Log how far the tasks in the block are; parameters as for `hipslake.engine.progress.reported`."""

    def run(
        self,
        task: Task,
        *,
        tasks: int,
        result: pa.Schema,
        ended: Callable[[int], object] | None = None,
    ) -> pa.Table:
        """Run a task for every number in [0, tasks), and return what they gave, in no particular order.

        Parameters
        ----------
        task : callable
            Takes its number; yields batches of the result. It may run more than once.
        tasks : int
        result : pyarrow.Schema
        ended : callable, optional
            Called in another thread, here and not where tasks run, with the number of each task that will not
            run again, since it has succeeded. The last ones may be left out.

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
        at_once: int = 1,
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
        at_once : int
            Reduce tasks that may run at once even if there are fewer cores: they wait for a store more than
            they work, and memory holds so many. An engine whose tasks are processes does not heed it.

        Raises
        ------
        HipslakeError
            What a task raised.
        """


@dataclass(frozen=True)
class ArrivingFiles:
    """Files that come by and by, and what is known of those that came before.

    Attributes
    ----------
    name : str
        Of the stream, as it is shown.
    pattern : str
        A glob of local files, with `*`, `?`, `[...]` and `{...}`, or a folder; a backslash makes a sign
        plain. All files below matching folders count.
    checkpoint : str
        Local folder in which it is kept which files have come.
    most : int, optional
        Files of a batch.
    """

    name: str
    pattern: str
    checkpoint: str
    most: int | None = None


class BatchTask(Protocol):
    """What is done with a batch of files."""

    def __call__(self, number: int, checkpoint: str, paths: Callable[[], list[str]]) -> None:
        """Take the files of a batch; called again with the same number if it was not known to be done.

        Parameters
        ----------
        number : int
        checkpoint : str
            The id of the checkpoint.
        paths : callable
            Looks up where the files are.
        """


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine that knows which files it has handed over before."""

    def drain(self, arriving: ArrivingFiles, task: BatchTask) -> None:
        """Hand over all files that have come since the last time, batch by batch, and return.

        Raises
        ------
        Exception
            What the task raised; its batch comes again the next time.
        StorageError
            Files cannot be listed, or it cannot be gone on from the checkpoint.
        """


def by_target(target: NDArray[np.int64], targets: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows of each reduce task in [0, targets) that has any, in their order; others have none.

    Examples
    --------
    >>> [(to, rows.tolist()) for to, rows in by_target(np.array([1, -1, 0, 1]), 3)]
    [(0, [2]), (1, [0, 3])]
    """
    order = np.argsort(target, kind="stable")
    cuts = np.searchsorted(target[order], np.arange(targets + 1)).tolist()
    for to, (low, high) in enumerate(pairwise(cuts)):
        if high > low:
            yield to, order[low:high]


def sent(mapper: Mapper, number: int, block_bytes: int) -> Iterator[tuple[int, Block]]:
    """The blocks of a map task, each with the reduce task that it goes to.

    The `source` of a block is `number << 32 | n`, where `n` counts the blocks of the task.
    """
    sources = count(number << 32)
    for target, rows in mapper(number):
        for part in cut(rows, min(block_bytes, MAX_BLOCK_BYTES)):
            yield target, Block(next(sources), part)


def cut(rows: pa.RecordBatch, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of at most `block_bytes`, but one row at least; an empty one is one slice."""
    rows = own_dictionaries(rows)
    # Of the buffers as a whole, which others may share: asked first, as it costs next to nothing.
    if (
        rows.num_rows <= 1
        or rows.get_total_buffer_size() <= block_bytes
        or (size := rows.nbytes) <= block_bytes
    ):
        yield rows
        return
    half = rows.num_rows // 2
    fixed_width = all(pa.types.is_primitive(field.type) for field in rows.schema)
    step = max(1, int(rows.num_rows * block_bytes / size)) if fixed_width else half
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        if part.nbytes <= block_bytes:
            yield part
        else:
            yield from cut(part, block_bytes)


def own_dictionaries(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out the words of dictionaries that no row uses: a slice still holds those of the whole file."""
    for at, kind in enumerate(rows.schema.types):
        if pa.types.is_dictionary(kind) and len((column := rows.column(at)).dictionary) > len(column):
            words = column.indices.drop_null().unique()
            indices = pa.compute.index_in(column.indices, words).cast(column.type.index_type)
            own = pa.DictionaryArray.from_arrays(
                indices, column.dictionary.take(words), ordered=column.type.ordered
            )
            rows = rows.set_column(at, rows.schema.field(at), own)
    return rows
