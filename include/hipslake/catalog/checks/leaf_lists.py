"""The leaf files that tasks look at, one batch of a list for each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from hipslake.catalog.metadata import Partition
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.engine.model import Engine
from hipslake.storage.folder import Storage

TASK_BYTES = 256 << 20  # of leaf files in one task at most: progress is seen, and little is done again
_TASK_LEAVES = 10_000
_TASKS_PER_CORE = 4
_FILE = "verify/work.arrow"
_SCHEMA = pa.schema([("leaf", pa.int64()), ("group", pa.string()), *PARTITION_SCHEMA])

Leaf = tuple[str, Partition]
"""A leaf file, and the name of its column group or margin."""


def tasks_for(engine: Engine) -> int:
    """How many tasks some work is cut into, if it is not so much that there have to be more."""
    return _TASKS_PER_CORE * engine.cores


@dataclass(frozen=True)
class LeafList:
    """A list of leaf files, numbered from 0 and cut into tasks.

    Attributes
    ----------
    tasks : int
    data : pyarrow.Buffer or None
        The list, where tasks run in this process.
    folder : Storage or None
        A folder that holds it as a file, where they do not: so neither a task nor the driver holds all of it.
    """

    tasks: int
    data: pa.Buffer | None = None
    folder: Storage | None = None

    @classmethod
    def of(
        cls, leaves: Iterable[Leaf], total_bytes: int, engine: Engine, scratch: Storage | None
    ) -> LeafList:
        """Write a list.

        Parameters
        ----------
        leaves : iterable of Leaf
        total_bytes : int
            Of all of them, about.
        engine : Engine
            Will run the tasks.
        scratch : Storage or None
            A folder for the file; None if the engine runs tasks in this process.
        """
        runs = _runs(leaves, min(TASK_BYTES, total_bytes // tasks_for(engine) + 1))
        if scratch is None:
            sink = pa.BufferOutputStream()
            return cls(_write(sink, runs), data=sink.getvalue())
        with scratch.open(_FILE, "wb", durable=False) as file:
            return cls(_write(file, runs), folder=scratch)

    def read(self, task: int) -> Iterator[tuple[int, str, Partition]]:
        """The leaf files of a task: number, group, and what metadata.json says."""
        with pa.BufferReader(self.data) if self.folder is None else self.folder.open(_FILE) as file:
            rows = pa.ipc.open_file(file).get_batch(task).to_pylist()
        for row in rows:
            yield row.pop("leaf"), row.pop("group"), Partition.model_construct(**row)

    def delete(self) -> None:
        """Delete the file, if there is one."""
        if self.folder is not None:
            self.folder.delete(_FILE)


def _runs(leaves: Iterable[Leaf], most_bytes: int) -> Iterator[list[dict[str, Any]]]:
    """Runs of neighbouring leaves, each for one task."""
    run: list[dict[str, Any]] = []
    size = 0
    for number, (group, partition) in enumerate(leaves):
        if run and (size + partition.bytes > most_bytes or len(run) == _TASK_LEAVES):
            yield run
            run, size = [], 0
        run.append({"leaf": number, "group": group, **vars(partition)})
        size += partition.bytes
    if run:
        yield run


def _write(sink: BinaryIO, runs: Iterable[list[dict[str, Any]]]) -> int:
    """Write a batch for each task; gives the number of tasks."""
    tasks = 0
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        for run in runs:
            writer.write_batch(pa.RecordBatch.from_pylist(run, _SCHEMA))
            tasks += 1
    return tasks
