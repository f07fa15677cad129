"""The tasks of an index that is built whole: find where files begin, then send every entry to its file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.index_cuts import entry_hashes
from hipslake.engine.model import Block, Counter, Routed
from hipslake.joins.key_codes import plain_keys
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.index.index_files import KEY, IndexOrder, IndexWriter, cut_at, in_order, keyed, summed
from hipslake.steps.tables import to_ipc

CANDIDATES = pa.schema([("entries", pa.binary())])
WRITTEN = pa.schema([("file", pa.string())])


@dataclass(frozen=True)
class CandidateTask:
    """Finds the entries at which a file may begin, in the leaf files of each task."""

    files: tuple[ColumnFiles, ...]
    order: IndexOrder

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give keys and `_healpix_29`, each pair once, as an Arrow IPC stream."""
        rule, kind, found = self.order.rule, self.order.schema.field(0).type, []
        for batch in self.files[task].batches():
            rows = keyed(batch, kind)
            hashes = entry_hashes(plain_keys(rows[KEY]), rows[HEALPIX_COLUMN].to_numpy())
            chosen = rows.filter(pa.array(rule.candidates(hashes)))
            if chosen.num_rows:
                found.append(distinct(pa.Table.from_batches([chosen])))
        if found:
            yield pa.record_batch([[to_ipc(distinct(pa.concat_tables(found)))]], schema=CANDIDATES)


@dataclass(frozen=True)
class IndexTask:
    """Both halves of the exchange.

    Attributes
    ----------
    files : tuple of ColumnFiles
        Per map task.
    order : IndexOrder
    bounds : pyarrow.Table
        Key and `_healpix_29` at which each file but the first begins, ascending.
    done : Counter
        Rows read so far.
    """

    files: tuple[ColumnFiles, ...]
    order: IndexOrder
    bounds: pa.Table
    done: Counter

    @property
    def targets(self) -> int:
        """Reduce tasks; each writes some files that follow one another."""
        return self.bounds.num_rows // self.order.task_files + 1

    @cached_property
    def writer(self) -> IndexWriter:
        """Writes the files."""
        return self.order.writer

    def route(self, number: int) -> Iterator[Routed]:
        """Send the entries of some leaves to the tasks of their files."""
        files, kind = self.order.task_files, self.order.schema.field(0).type
        begins = self.bounds.take(pa.array(np.arange(files - 1, self.bounds.num_rows, files)))
        for batch in self.files[number].batches():
            self.done.add(batch.num_rows)
            entries = summed(pa.Table.from_batches([keyed(batch, kind)]))
            for target, part in enumerate(cut_at(entries, begins)):
                yield from ((target, each) for each in part.combine_chunks().to_batches() if each.num_rows)

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the files of a task, and say what is in them."""
        entries = summed(pa.Table.from_batches([block.rows for block in blocks]))
        blocks.clear()
        files = self.order.task_files
        for piece in cut_at(entries, self.bounds.slice(target * files, files - 1)):
            if piece.num_rows:
                yield pa.record_batch([[json.dumps(self.writer.write(piece))]], schema=WRITTEN)


def distinct(candidates: pa.Table) -> pa.Table:
    """Keys and `_healpix_29`, each pair once, sorted by both."""
    return in_order(candidates.group_by([KEY, HEALPIX_COLUMN], use_threads=False).aggregate([]))
