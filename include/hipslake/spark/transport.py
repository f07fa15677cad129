"""How blocks get from map tasks to reduce tasks: inside Spark's shuffle, or in files that only it points to.

Through the shuffle works everywhere. Where all tasks run on one machine, a block can be written to a file and
mapped into memory again, which spares its copies through the JVM: there only references are shuffled.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

_ALIGNMENT = 64  # bytes; Arrow buffers begin at multiples of it
_REFERENCE = np.dtype([("offset", "<i8"), ("size", "<i8"), ("name", "S64")])

Pack = Callable[[pa.RecordBatch], pa.Buffer]
Unpack = Callable[[pa.Buffer], pa.RecordBatch]


class Transport(Protocol):
    """What the exchange asks of a way to move blocks. It travels to the tasks."""

    def packing(self, source: int) -> AbstractContextManager[Pack]:
        """For one attempt at a map task: gives what turns a block into the payload that is shuffled."""

    def unpacking(self) -> Unpack:
        """For one reduce task: what turns payloads into blocks again, as views where it can."""


@dataclass(frozen=True)
class ThroughShuffle:
    """The payload is the block, as an Arrow IPC stream."""

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        def pack(rows: pa.RecordBatch) -> pa.Buffer:
            sink = pa.BufferOutputStream()
            _write(sink, rows)
            return sink.getvalue()

        yield pack

    def unpacking(self) -> Unpack:
        return _read


@dataclass(frozen=True)
class ThroughFiles:
    """The payload says where the block lies: every attempt at a map task has one file for its blocks.

    Attributes
    ----------
    folder : str
        A local folder that all tasks see. Whoever made it removes it.
    """

    folder: str

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        name = f"{source:08d}-{secrets.token_hex(8)}.blocks"  # attempts may run at the same time
        with pa.OSFile(str(Path(self.folder) / name), "wb") as file:

            def pack(rows: pa.RecordBatch) -> pa.Buffer:
                start = file.tell()
                if start % _ALIGNMENT:
                    start += file.write(bytes(_ALIGNMENT - start % _ALIGNMENT))
                _write(file, rows)
                reference = np.array((start, file.tell() - start, name.encode()), _REFERENCE)
                return pa.py_buffer(reference.tobytes())

            yield pack

    def unpacking(self) -> Unpack:
        files: dict[str, pa.Buffer] = {}

        def unpack(payload: pa.Buffer) -> pa.RecordBatch:
            reference = np.frombuffer(payload, _REFERENCE)[0]
            name = reference["name"].decode()
            if name not in files:
                with pa.memory_map(str(Path(self.folder) / name)) as file:
                    files[name] = file.read_buffer()
            return _read(files[name].slice(int(reference["offset"]), int(reference["size"])))

        return unpack


def _write(sink: pa.NativeFile, rows: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)


def _read(stream: pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_stream(stream).read_next_batch()
