"""What tasks have matched, waiting to be written: Arrow files in the write folder, one for each task.

Each holds one stretch of the curve, and the numbers of tasks ascend along it. So the rows of a leaf are a few
slices of a few neighbouring files; where the files are local they are mapped into memory, not read. They are
streams, as each batch may have dictionaries of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.merging import keys_of, within
from hipslake.storage.folder import Storage

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class Pieces:
    """The files of one attempt.

    Attributes
    ----------
    catalog : Storage
        At the root of the outcome.
    folder : str
        Relative to it.
    """

    catalog: Storage
    folder: str

    def path(self, task: int) -> str:
        """The file of a task."""
        return f"{self.folder}/{task:08d}.arrow"

    def write(
        self, task: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Store what a task has matched, and hand every batch on."""
        with (
            self.catalog.open(self.path(task), "wb", durable=False) as file,
            pa.ipc.new_stream(file, schema) as writer,
        ):
            for batch in batches:
                for first in range(0, batch.num_rows, BATCH_ROWS):
                    writer.write_batch(batch.slice(first, BATCH_ROWS))
                yield batch

    def read(self, task: int) -> list[pa.RecordBatch]:
        """What a task has matched."""
        path = self.path(task)
        source = pa.memory_map(self.catalog.uri(path)) if self.catalog.is_local else self.catalog.open(path)
        with source, pa.ipc.open_stream(source) as reader:
            return list(reader)


@dataclass(frozen=True)
class MatchedRows:
    """The rows of all tasks, along the curve.

    Attributes
    ----------
    pieces : Pieces
    tasks : int64[n]
        Those that have matched any row, ascending.
    start : int64[n]
        The order-29 pixel at which the stretch of each begins.
    stop : int64[n]
    """

    pieces: Pieces
    tasks: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    _held: dict[int, list[pa.RecordBatch]] = field(default_factory=dict, compare=False, repr=False)

    def within(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """The rows in [start, stop), order-29 pixels, in order."""
        first = np.searchsorted(self.stop, start, side="right")
        last = np.searchsorted(self.start, stop, side="left")
        found = []
        for task in self.tasks[first:last].tolist():
            found += [within(batch, start, stop) for batch in self._batches(task)]
        return [batch for batch in found if batch.num_rows]

    def keys_within(self, start: int, stop: int) -> NDArray[np.int64]:
        """`_healpix_29` of those rows."""
        keys = [keys_of(batch) for batch in self.within(start, stop)]
        return np.concatenate(keys) if keys else np.empty(0, np.int64)

    def _batches(self, task: int) -> list[pa.RecordBatch]:
        """Of neighbouring leaves, most rows lie in one file: it is kept until the next one is asked for."""
        if task not in self._held:
            for other in [held for held in self._held if held < task - 1]:
                del self._held[other]
            self._held[task] = self.pieces.read(task)
        return self._held[task]
