"""What the tasks of a table's compaction do: sample, read and route rows, write files and read them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.clustering.checksum import row_checksum
from hipslake.clustering.placement import NOISE_BITS, Placement, noise_of
from hipslake.clustering.planning import ClusterMark
from hipslake.compaction.model import FileAccess
from hipslake.engine.model import Block, Counter, Routed

RESULT = pa.schema([("rows", pa.int64()), ("checksum", pa.int64()), ("file", pa.string())])
"""Of what was read, without a file; and of each file that was written, as it was read again."""

SAMPLE_RESULT = pa.schema([("file", pa.int64()), ("rows", pa.binary())])

_READ = pa.schema([("rows", pa.int64()), ("checksum", pa.int64())])
_FILE_SHIFT = 40  # a row's number: number of its file << 40 | number in it


@dataclass(frozen=True)
class SampleTask:
    """Draws rows of a file.

    Attributes
    ----------
    access : FileAccess
    paths : tuple of str
    shares : tuple of float
        Per file, the share of rows that is drawn.
    columns : tuple of str
    seed : int
    done : Counter
    """

    access: FileAccess
    paths: tuple[str, ...]
    shares: tuple[float, ...]
    columns: tuple[str, ...]
    seed: int
    done: Counter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give the sample of a file, as an Arrow IPC stream."""
        least = int(self.shares[number] * 2**NOISE_BITS)
        drawn, rows = [], 0
        for batch in self.access.read(self.paths[number], self.columns):
            numbers = _numbers(number, rows, batch.num_rows)
            drawn.append(batch.filter(pa.array(noise_of(numbers, ~self.seed) < least)))
            rows += batch.num_rows
            self.done.add(batch.num_rows)
        yield pa.record_batch([[number], [_to_ipc(drawn)]], schema=SAMPLE_RESULT)


@dataclass(frozen=True)
class MoveRows:
    """Reads a file, and sends its rows to the new files.

    Attributes
    ----------
    access : FileAccess
    sources : tuple of (str, int, int)
        Per file that is read: its path, its group, and the first target of that.
    columns : tuple of str
    placements : tuple of Placement, optional
        Per group; without them a group has one target.
    ledger : int
        The target that hears how many rows were read, and their checksum.
    """

    access: FileAccess
    sources: tuple[tuple[str, int, int], ...]
    columns: tuple[str, ...]
    placements: tuple[Placement, ...] | None
    ledger: int

    def __call__(self, source: int) -> Iterator[Routed]:
        """Yield targets with rows for them, and what was read."""
        path, group, first = self.sources[source]
        rows = checksum = 0
        for batch in self.access.read(path, self.columns):
            numbers = _numbers(source, rows, batch.num_rows)
            rows += batch.num_rows
            checksum += row_checksum(batch)
            if self.placements is None:
                yield first, batch
                continue
            files, keys = self.placements[group].place(batch, numbers)
            order = np.lexsort((keys, files))
            batch, files = batch.take(pa.array(order)), files[order]
            starts = np.flatnonzero(np.diff(files, prepend=-1))
            for start, stop in zip(starts, [*starts[1:], len(files)], strict=True):
                yield first + int(files[start]), batch.slice(start, stop - start)
        yield self.ledger, pa.record_batch([[rows], [_signed(checksum)]], schema=_READ)


@dataclass(frozen=True)
class WriteFiles:
    """Writes a file of the rows that were sent to it, and reads it again.

    Attributes
    ----------
    access : FileAccess
    targets : tuple of (str, str, int)
        Per file: its partition, its name and its group. The target behind them is the ledger.
    columns : tuple of str
    placements : tuple of Placement, optional
        Per group: rows are sorted along its curve.
    marks : tuple of ClusterMark or None
        Per group.
    done : Counter
    """

    access: FileAccess
    targets: tuple[tuple[str, str, int], ...]
    columns: tuple[str, ...]
    placements: tuple[Placement, ...] | None
    marks: tuple[ClusterMark | None, ...]
    done: Counter

    def __call__(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the file of a target, and say what it holds."""
        if target == len(self.targets):
            told = pa.Table.from_batches([block.rows for block in blocks])
            checksum = sum(told["checksum"].to_pylist()) % 2**64
            yield _result(sum(told["rows"].to_pylist()), checksum, None)
            return
        partition, name, group = self.targets[target]
        rows = pa.Table.from_batches([block.rows for block in blocks])
        blocks.clear()
        if self.placements is not None:
            placement = self.placements[group]
            keys = placement.bounds.keys(rows, placement.curve)
            rows = rows.take(pa.array(np.argsort(keys, kind="stable")))
        file = self.access.write(rows, partition, name, self.marks[group])
        self.done.add(rows.num_rows)
        found = checksum = 0
        for batch in self.access.read(file.path, self.columns):
            found += batch.num_rows
            checksum += row_checksum(batch)
        yield _result(found, checksum % 2**64, file.model_dump_json())


def from_ipc(data: bytes) -> pa.Table:
    """The rows of a sample."""
    return pa.ipc.open_stream(data).read_all()


def _to_ipc(batches: list[pa.RecordBatch]) -> bytes:
    if not batches:
        return pa.table({}).schema.serialize().to_pybytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _numbers(file: int, first: int, count: int) -> np.ndarray:
    return (file << _FILE_SHIFT) + np.arange(first, first + count)


def _result(rows: int, checksum: int, file: str | None) -> pa.RecordBatch:
    return pa.record_batch([[rows], [_signed(checksum)], [file]], schema=RESULT)


def _signed(checksum: int) -> int:
    """Of 64 bits, as engines know them: with a sign."""
    checksum %= 2**64
    return checksum - 2**64 if checksum >= 2**63 else checksum
