"""How blocks get from map tasks to reduce tasks: inside Spark's shuffle, or in files that only it points to.

Through the shuffle works everywhere. Where all tasks run on one machine, a block can be written to a file and
mapped into memory again, which spares its copies through the JVM: there only references are shuffled.
Executors of a cluster may be on one machine too; each of their tasks looks whether it is so.
"""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa
from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam

from hipslake.spark.one_machine import FolderMark
from hipslake.storage.write_out import start_write_out

_FREEING_SECONDS = 0.2
_GROUPS = 16
_ALIGNMENT = 64  # of blocks in a file: what Arrow asks of buffers
_PIECE = 64 << 10  # see hipslake.storage.local
_WRITTEN_OUT = 4 << 20  # bytes that the kernel is told to write out at once
_STREAM_BEGINS = b"\xff" * 4  # an Arrow IPC stream; a reference is text


class BlocksOutOfReachError(Exception):
    """A task does not see the folder where blocks wait for it: it runs on another machine."""


Pack = Callable[[int, pa.RecordBatch], pa.Buffer]
Unpack = Callable[[pa.Buffer], pa.RecordBatch]


class Transport(Protocol):
    """What the exchange asks of a way to move blocks. It travels to the tasks."""

    def packing(self, source: int) -> AbstractContextManager[Pack]:
        """For one attempt at a map task: what turns a target and a block for it into the payload."""

    def unpacking(self) -> Unpack:
        """For one reduce task: what turns a payload into the block again, as a view where it can."""

    def arrived(self, target: int) -> None:
        """Say, in a reduce task, that its blocks are not needed any more if it succeeds."""


@dataclass(frozen=True)
class ThroughShuffle:
    """The payload is the block, as an Arrow IPC stream."""

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        packed = _Packing()
        yield lambda target, rows: pa.py_buffer(b"".join(packed(rows)))

    def unpacking(self) -> Unpack:
        return _read

    def arrived(self, target: int) -> None:
        """Spark clears its shuffle itself."""


@dataclass(frozen=True)
class ThroughFiles:
    """The payload says where in a file the block lies: `<group of targets>/<source>-<attempt>.blocks`.

    An attempt at a map task puts all its blocks for some targets, one after another, into one file: a file
    for each block costs the kernel several times what the block itself does.

    Attributes
    ----------
    folder : str
        A local folder that all tasks see. Whoever made it removes it.
    targets : int
        Number of reduce tasks.
    finished : Accumulator or None
        Takes the targets whose tasks have succeeded; see `freeing`.
    write_out : bool
        Let the kernel begin to write blocks to disk at once. It would come to that anyway where there are
        more than it keeps in memory, and then it lets map tasks wait.
    mark : FolderMark or None
        Stands in the folder where tasks might run elsewhere. A map task that does not see it sends its blocks
        themselves, and a reduce task that does not see it cannot read those of others.
    """

    folder: str
    targets: int
    finished: Accumulator[list[int]] | None = None
    write_out: bool = False
    mark: FolderMark | None = None

    @classmethod
    @contextmanager
    def freeing(
        cls,
        context: SparkContext,
        folder: Path,
        targets: int,
        *,
        write_out: bool = False,
        marked: bool = False,
    ) -> Iterator[ThroughFiles]:
        """Remove the blocks of targets as their tasks succeed, and the folder at the end of the block.

        So the disk need not hold both all blocks and all that is made of them.
        """
        folder.mkdir(parents=True)
        finished = context.accumulator([], _Targets())
        mark = FolderMark.put(folder) if marked else None
        transport = cls(str(folder), targets, finished, write_out, mark)
        ended = Event()

        def free() -> None:
            waiting = Counter(map(transport.group_of, range(targets)))
            known: set[int] = set()
            while not ended.wait(_FREEING_SECONDS):
                for target in set(finished.value) - known:
                    known.add(target)
                    group = transport.group_of(target)
                    waiting[group] -= 1
                    if not waiting[group]:
                        shutil.rmtree(folder / str(group), ignore_errors=True)

        thread = Thread(target=free, name="free blocks", daemon=True)
        thread.start()
        try:
            yield transport
        finally:
            ended.set()
            thread.join()
            _remove(folder)

    def group_of(self, target: int) -> int:
        """The group of a target. Spark starts neighbours one after another, so they also end together."""
        return target * min(_GROUPS, self.targets) // self.targets

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        if not self._is_here:
            with ThroughShuffle().packing(source) as pack_whole:
                yield pack_whole
            return
        name = f"{source:08d}-{secrets.token_hex(8)}.blocks"  # attempts may run at the same time
        with ExitStack() as opened:
            files: dict[int, _BlockFile] = {}
            packed = _Packing()

            def pack(target: int, rows: pa.RecordBatch) -> pa.Buffer:
                group = self.group_of(target)
                if group not in files:
                    path = Path(self.folder, str(group), name)
                    path.parent.mkdir(exist_ok=True)
                    files[group] = opened.enter_context(_BlockFile(path, self.write_out))
                start, size = files[group].append(packed(rows))
                return pa.py_buffer(f"{group}/{name} {start} {size}".encode())

            yield pack

    def unpacking(self) -> Unpack:
        files: dict[str, pa.Buffer] = {}  # mapped; blocks that come of them keep them so

        def unpack(payload: pa.Buffer) -> pa.RecordBatch:
            if payload.slice(0, len(_STREAM_BEGINS)).to_pybytes() == _STREAM_BEGINS:
                return _read(payload)
            if not files and not self._is_here:
                raise BlocksOutOfReachError(
                    f"{self.folder}: blocks of an exchange lie there, on another machine than this task's"
                )
            name, start, size = payload.to_pybytes().decode().rsplit(" ", 2)
            if name not in files:
                with pa.memory_map(f"{self.folder}/{name}") as file:
                    files[name] = file.read_buffer()
            return _read(files[name].slice(int(start), int(size)))

        return unpack

    @property
    def _is_here(self) -> bool:
        return self.mark is None or self.mark.seen()

    def arrived(self, target: int) -> None:
        if self.finished is not None:
            self.finished.add([target])


def _remove(folder: Path) -> None:
    """Remove a folder while attempts that nobody waits for any more may still be writing to it.

    Under its new name they open no further file in it, which would be left over.
    """
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


class _BlockFile:
    """A file that blocks are appended to."""

    def __init__(self, path: Path, write_out: bool) -> None:
        self._path = path
        self._write_out = write_out
        self._size = self._told = 0

    def __enter__(self) -> _BlockFile:
        self._file = self._path.open("xb", buffering=0)
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, block: Sequence[pa.Buffer]) -> tuple[int, int]:
        """Write the parts of a block; return where it begins, and its size in bytes."""
        start = -(-self._size // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(start)
        for part in block:
            content, at = memoryview(part), 0
            while at < len(content):
                at += self._file.write(content[at : at + _PIECE])
        size = sum(part.size for part in block)
        self._size = start + size
        if self._write_out and self._size - self._told >= _WRITTEN_OUT:
            start_write_out(self._file.fileno())
            self._told = self._size
        return start, size


class _Targets(AccumulatorParam[list[int]]):
    """Spark applies what a task adds when the task has succeeded, and only then."""

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        value1 += value2
        return value1


class _Packing:
    """Turns batches into Arrow IPC streams of one batch each, in parts that follow one another.

    A stream is the message of a schema and that of a batch. The former is the same for most, and the latter
    has its size from the beginning, so that it is not copied as it grows.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._head: pa.Buffer | None = None  # None: there are dictionaries, which are messages of their own

    def __call__(self, rows: pa.RecordBatch) -> list[pa.Buffer]:
        if self._schema is None or not rows.schema.equals(self._schema, check_metadata=True):
            self._schema = rows.schema
            plain = not any(map(_has_dictionary, rows.schema.types))
            self._head = rows.schema.serialize() if plain else None
        if self._head is not None:
            return [self._head, rows.serialize()]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return [sink.getvalue()]


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inner))


def _read(stream: pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_stream(stream).read_next_batch()
