"""How blocks get from map tasks to reduce tasks: inside Spark's shuffle, or in files that only it points to.

Through the shuffle works everywhere. Where all tasks run on one machine, a block can be written to a file and
mapped into memory again, which spares its copies through the JVM: there only references are shuffled.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa
from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam

from hipslake.spark.kernel import start_write_out

_FREEING_SECONDS = 0.2

Pack = Callable[[int, pa.RecordBatch], pa.Buffer]


class Transport(Protocol):
    """What the exchange asks of a way to move blocks. It travels to the tasks."""

    def packing(self, source: int) -> Pack:
        """For one attempt at a map task: what turns a target and a block for it into the payload."""

    def unpack(self, payload: pa.Buffer) -> pa.RecordBatch:
        """Turn a payload into the block again, as a view where it can."""

    def arrived(self, target: int) -> None:
        """Say, in a reduce task, that its blocks are not needed any more if it succeeds."""


@dataclass(frozen=True)
class ThroughShuffle:
    """The payload is the block, as an Arrow IPC stream."""

    def packing(self, source: int) -> Pack:
        def pack(target: int, rows: pa.RecordBatch) -> pa.Buffer:
            sink = pa.BufferOutputStream()
            _write(sink, rows)
            return sink.getvalue()

        return pack

    def unpack(self, payload: pa.Buffer) -> pa.RecordBatch:
        return _read(payload)

    def arrived(self, target: int) -> None:
        """Spark clears its shuffle itself."""


@dataclass(frozen=True)
class ThroughFiles:
    """The payload names the file that holds the block: `<target>/<source>-<attempt>-<number>.block`.

    Attributes
    ----------
    folder : str
        A local folder that all tasks see. Whoever made it removes it.
    finished : Accumulator or None
        Takes the targets whose tasks have succeeded; see `freeing`.
    write_out : bool
        Let the kernel begin to write each block to disk at once. It would come to that anyway where there are
        more than it keeps in memory, and then it lets map tasks wait.
    """

    folder: str
    finished: Accumulator[list[int]] | None = None
    write_out: bool = False

    @classmethod
    @contextmanager
    def freeing(
        cls, context: SparkContext, folder: Path, *, write_out: bool = False
    ) -> Iterator[ThroughFiles]:
        """Remove the blocks of targets as their tasks succeed, and the folder at the end of the block.

        So the disk need not hold both all blocks and all that is made of them.
        """
        folder.mkdir(parents=True)
        finished = context.accumulator([], _Targets())
        ended = Event()

        def free() -> None:
            freed = 0
            while not ended.wait(_FREEING_SECONDS):
                targets = finished.value[freed:]
                for target in targets:
                    shutil.rmtree(folder / str(target), ignore_errors=True)
                freed += len(targets)

        thread = Thread(target=free, name="free blocks", daemon=True)
        thread.start()
        try:
            yield cls(str(folder), finished, write_out)
        finally:
            ended.set()
            thread.join()
            shutil.rmtree(folder, ignore_errors=True)

    def packing(self, source: int) -> Pack:
        attempt, number = secrets.token_hex(8), count()  # attempts may run at the same time

        def pack(target: int, rows: pa.RecordBatch) -> pa.Buffer:
            name = f"{target}/{source:08d}-{attempt}-{next(number)}.block"
            path = Path(self.folder, name)
            path.parent.mkdir(exist_ok=True)
            with pa.OSFile(str(path), "wb") as file:
                _write(file, rows)
                if self.write_out:
                    start_write_out(file.fileno())
            return pa.py_buffer(name.encode())

        return pack

    def unpack(self, payload: pa.Buffer) -> pa.RecordBatch:
        with pa.memory_map(str(Path(self.folder, payload.to_pybytes().decode()))) as file:
            return _read(file.read_buffer())

    def arrived(self, target: int) -> None:
        if self.finished is not None:
            self.finished.add([target])


class _Targets(AccumulatorParam[list[int]]):
    """Spark applies what a task adds when the task has succeeded, and only then."""

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        value1 += value2
        return value1


def _write(sink: pa.NativeFile, rows: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)


def _read(stream: pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_stream(stream).read_next_batch()
