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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa
from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam

from hipslake.spark.block_server import remove_folder
from hipslake.spark.one_machine import FolderMark
from hipslake.storage.write_out import ScratchFile

_LOOKING_SECONDS = 0.2
_GROUPS = 16
_ALIGNMENT = 64  # of blocks in a file: what Arrow asks of buffers
_STREAM_BEGINS = b"\xff" * 4  # an Arrow IPC stream; a reference is text


class BlocksOutOfReachError(Exception):
    """A task cannot get the blocks that wait for it: their machine is another one, or they are gone."""


Pack = Callable[[int, pa.RecordBatch], pa.Buffer]
Reference = tuple[int, str, int, int]
"""The place of a payload among others, and of the block that it refers to: file, start and size."""


class Transport(Protocol):
    """What the exchange asks of a way to move blocks. It travels to the tasks."""

    def packing(self, source: int) -> AbstractContextManager[Pack]:
        """For one attempt at a map task: what turns a target and a block for it into the payload."""

    def unpacked(self, payloads: Sequence[pa.Buffer]) -> list[pa.RecordBatch]:
        """Turn all payloads of a target into their blocks again, in their order, as views where it can."""

    def arrived(self, target: int) -> None:
        """Say, in a reduce task, that its blocks are not needed any more if it succeeds."""


@dataclass(frozen=True)
class ThroughShuffle:
    """The payload is the block, as an Arrow IPC stream."""

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        packed = _Packing()
        yield lambda target, rows: pa.py_buffer(b"".join(packed(rows)))

    def unpacked(self, payloads: Sequence[pa.Buffer]) -> list[pa.RecordBatch]:
        return [*map(read_block, payloads)]

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
        mark = FolderMark.put(folder) if marked else None

        def free(group: int) -> None:
            shutil.rmtree(folder / str(group), ignore_errors=True)

        try:
            with freeing_groups(context, targets, free) as finished:
                yield cls(str(folder), targets, finished, write_out, mark)
        finally:
            remove_folder(folder)

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        if not self._is_here:
            with ThroughShuffle().packing(source) as pack_whole:
                yield pack_whole
            return
        with BlockFiles(Path(self.folder), source, self.write_out) as files:

            def pack(target: int, rows: pa.RecordBatch) -> pa.Buffer:
                return pa.py_buffer(files.append(group_of(target, self.targets), rows).encode())

            yield pack

    def unpacked(self, payloads: Sequence[pa.Buffer]) -> list[pa.RecordBatch]:
        blocks, references = references_of(payloads)
        if references and not self._is_here:
            raise BlocksOutOfReachError(
                f"{self.folder}: blocks of an exchange lie there, on another machine than this task's"
            )
        mapped = Mapped()
        for at, name, start, size in references:
            blocks[at] = read_block(mapped.slice(Path(self.folder, name), start, size))
        return [block for block in blocks if block is not None]

    @property
    def _is_here(self) -> bool:
        return self.mark is None or self.mark.seen()

    def arrived(self, target: int) -> None:
        if self.finished is not None:
            self.finished.add([target])


def group_of(target: int, targets: int) -> int:
    """The group of a target. Spark starts neighbours one after another, so they also end together."""
    return target * min(_GROUPS, targets) // targets


@contextmanager
def freeing_groups(
    context: SparkContext, targets: int, free: Callable[[int], None]
) -> Iterator[Accumulator[list[int]]]:
    """Have the blocks of each group of targets removed once all its tasks have succeeded, as the block runs.

    Parameters
    ----------
    context : SparkContext
    targets : int
        Number of reduce tasks.
    free : callable
        Takes a group, in another thread.

    Yields
    ------
    Accumulator
        Takes the targets whose tasks have succeeded.
    """
    waiting = Counter(group_of(target, targets) for target in range(targets))

    def ended(target: int) -> None:
        group = group_of(target, targets)
        waiting[group] -= 1
        if not waiting[group]:
            free(group)

    with told_of_ends(context, ended) as finished:
        yield finished


@contextmanager
def told_of_ends(context: SparkContext, ended: Callable[[int], object]) -> Iterator[Accumulator[list[int]]]:
    """Call a function with the number of each task that has succeeded, in another thread, as the block runs.

    Yields
    ------
    Accumulator
        Each task adds its number.
    """
    finished = context.accumulator([], _Numbers())
    stopping = Event()

    def look() -> None:
        known: set[int] = set()
        while not stopping.wait(_LOOKING_SECONDS):
            for number in set(finished.value) - known:
                known.add(number)
                ended(number)

    thread = Thread(target=look, name="ended tasks", daemon=True)
    thread.start()
    try:
        yield finished
    finally:
        stopping.set()
        thread.join()


class BlockFiles:
    """The files that one attempt at a map task puts its blocks into, one for each group of targets.

    Parameters
    ----------
    folder : Path
        There; a file is `<group>/<source>-<attempt>.blocks` in it.
    source : int
    write_out : bool
        As of `ThroughFiles`.
    """

    def __init__(self, folder: Path, source: int, write_out: bool) -> None:
        self._folder = folder
        self._name = f"{source:08d}-{secrets.token_hex(8)}.blocks"  # attempts may run at the same time
        self._write_out = write_out
        self._packed = _Packing()
        self._files: dict[int, _BlockFile] = {}
        self._opened = ExitStack()

    def __enter__(self) -> BlockFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def append(self, group: int, rows: pa.RecordBatch) -> str:
        """Write a block; return its reference: file, start and size in bytes, parted by blanks."""
        if group not in self._files:
            path = self._folder / str(group) / self._name
            path.parent.mkdir(exist_ok=True)
            self._files[group] = self._opened.enter_context(_BlockFile(path, self._write_out))
        start, size = self._files[group].append(self._packed(rows))
        return f"{group}/{self._name} {start} {size}"


def references_of(payloads: Sequence[pa.Buffer]) -> tuple[list[pa.RecordBatch | None], list[Reference]]:
    """Part the payloads that are blocks from those that refer to some; None stands for one of these."""
    blocks: list[pa.RecordBatch | None] = []
    references: list[Reference] = []
    for at, payload in enumerate(payloads):
        if payload.slice(0, len(_STREAM_BEGINS)).to_pybytes() == _STREAM_BEGINS:
            blocks.append(read_block(payload))
        else:
            name, start, size = payload.to_pybytes().decode().rsplit(" ", 2)
            blocks.append(None)
            references.append((at, name, int(start), int(size)))
    return blocks, references


class Mapped:
    """Files that are mapped into memory; blocks that come of them keep them so."""

    def __init__(self) -> None:
        self._files: dict[Path, pa.Buffer] = {}

    def slice(self, path: Path, start: int, size: int) -> pa.Buffer:
        """Some bytes of a file."""
        if path not in self._files:
            with pa.memory_map(str(path)) as file:
                self._files[path] = file.read_buffer()
        return self._files[path].slice(start, size)


class _BlockFile:
    """A file that blocks are appended to."""

    def __init__(self, path: Path, write_out: bool) -> None:
        self._path = path
        self._write_out = write_out
        self._size = 0

    def __enter__(self) -> _BlockFile:
        self._file = ScratchFile(self._path, write_out=self._write_out)
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, block: Sequence[pa.Buffer]) -> tuple[int, int]:
        """Write the parts of a block; return where it begins, and its size in bytes."""
        start = -(-self._size // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(start)
        size = sum(map(self._file.write, block))
        self._size = start + size
        return start, size


class _Numbers(AccumulatorParam[list[int]]):
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


def read_block(stream: pa.Buffer) -> pa.RecordBatch:
    """The block of an Arrow IPC stream, as a view of it."""
    return pa.ipc.open_stream(stream).read_next_batch()
