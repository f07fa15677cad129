"""The tasks of an index that goes on from an earlier one: what changed, the files that it meets, new cuts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.index import ROWS_COLUMN
from hipslake.catalog.metadata import IndexFile
from hipslake.engine.model import Block, Counter, Routed
from hipslake.errors import VerificationError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.index.index_files import KEY, IndexOrder, IndexWriter, cut_at, files_of, keyed, summed

MET = pa.schema([("number", pa.int64()), ("added", pa.int64()), ("file", pa.string())])
RECUT = pa.schema([("piece", pa.int64()), ("file", pa.string())])


class ChangedLeaves(NamedTuple):
    """The leaf files of a stretch of the curve that came or went: the same rows may be in both."""

    went: tuple[str, ...]
    came: tuple[str, ...]


@dataclass(frozen=True)
class MeetingTask:
    """Both halves of the exchange: entries that changed, and the files of the index that they meet.

    Attributes
    ----------
    order : IndexOrder
    leaves : tuple of tuple of ChangedLeaves
        Per map task.
    files : tuple of IndexFile
        Of the index that this one goes on from.
    bounds : pyarrow.Table
        Key and `_healpix_29` at which each of these but the first begins, ascending.
    moved : Intervals
        Where entries name another leaf by now, though their rows may be the same.
    done : Counter
        Rows read so far.
    """

    order: IndexOrder
    leaves: tuple[tuple[ChangedLeaves, ...], ...]
    files: tuple[IndexFile, ...]
    bounds: pa.Table
    moved: Intervals
    done: Counter

    @property
    def targets(self) -> int:
        """Reduce tasks; each has some files that follow one another."""
        return -(-len(self.files) // self.order.task_files)

    @cached_property
    def writer(self) -> IndexWriter:
        """Writes the files."""
        return self.order.writer

    def route(self, number: int) -> Iterator[Routed]:
        """Send the entries that changed in some leaves to the tasks of their files."""
        files = self.order.task_files
        begins = self.bounds.take(pa.array(np.arange(files - 1, self.bounds.num_rows, files)))
        for leaves in self.leaves[number]:
            changed = self._changed(leaves)
            for target, part in enumerate(cut_at(changed, begins)):
                yield from ((target, each) for each in part.combine_chunks().to_batches() if each.num_rows)

    def _changed(self, leaves: ChangedLeaves) -> pa.Table:
        """How many rows more or less each entry counts; none where as many came as went, unless it moved."""
        kind = self.order.schema.field(0).type
        found = [keyed(_nothing(kind), kind)]
        for paths, sign in ((leaves.went, -1), (leaves.came, 1)):
            for batch in files_of(self.order, paths).batches():
                self.done.add(batch.num_rows)
                found.append(keyed(batch, kind, sign))
        entries = summed(pa.Table.from_batches(found))
        differs = entries[ROWS_COLUMN].to_numpy() != 0
        return entries.filter(pa.array(differs | self.moved.hold(entries[HEALPIX_COLUMN].to_numpy())))

    def meet(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the files of a task that hold entries which changed, and say what is in them.

        Raises
        ------
        VerificationError
            A file is missing or damaged, or rows went that it does not count.
        """
        changed = summed(pa.Table.from_batches([block.rows for block in blocks]))
        blocks.clear()
        first = target * self.order.task_files
        for number, part in enumerate(
            cut_at(changed, self.bounds.slice(first, self.order.task_files - 1)), first
        ):
            if part.num_rows:
                yield self._met(number, part)

    def _met(self, number: int, changed: pa.Table) -> pa.RecordBatch:
        file = self.files[number]
        entries = summed(pa.concat_tables([self.writer.read(file.path, file.sha256), changed]))
        counts = entries[ROWS_COLUMN].to_numpy()
        if np.any(counts < 0):
            where = self.order.storage.uri(file.path)
            raise VerificationError(
                f"{where}: rows went that the index does not count; Catalog.verify() tells more"
            )
        entries = entries.filter(pa.array(counts > 0))
        text = json.dumps(self.writer.write(entries, file.sha256)) if entries.num_rows else ""
        return pa.record_batch([[number], [pc.sum(changed[ROWS_COLUMN]).as_py()], [text]], schema=MET)


def _nothing(kind: pa.DataType) -> pa.RecordBatch:
    """No row of `_healpix_29` and a column."""
    return pa.record_batch([pa.array([], pa.int64()), pa.array([], kind)], names=[HEALPIX_COLUMN, KEY])


class IndexPiece(NamedTuple):
    """The entries of a new file, which lie in one or several others.

    Attributes
    ----------
    number : int
        Ascending by value.
    sources : tuple of (str, str)
        Path and SHA-256 of the files, in order.
    start, stop : int or None
        It begins at this candidate of the first file, and ends before that one of the last; None: at the
        beginning, and at the end.
    """

    number: int
    sources: tuple[tuple[str, str], ...]
    start: int | None
    stop: int | None


@dataclass(frozen=True)
class RecutTask:
    """Writes files whose beginning or end has moved."""

    order: IndexOrder
    pieces: tuple[IndexPiece, ...]

    @cached_property
    def writer(self) -> IndexWriter:
        """Writes the files."""
        return self.order.writer

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the file of a piece, and say what is in it."""
        piece = self.pieces[task]
        parts = [self.writer.read(*source) for source in piece.sources]
        last, first = len(parts) - 1, 0
        if piece.stop is not None:
            parts[last] = parts[last].slice(0, self._place(parts[last], piece.stop))
        if piece.start is not None:
            parts[first] = parts[first].slice(self._place(parts[first], piece.start))
        entries = pa.concat_tables(parts).combine_chunks()
        yield pa.record_batch([[piece.number], [json.dumps(self.writer.write(entries))]], schema=RECUT)

    def _place(self, entries: pa.Table, candidate: int) -> int:
        places: NDArray[np.int64] = self.writer.candidates_of(entries)
        return int(places[candidate])
