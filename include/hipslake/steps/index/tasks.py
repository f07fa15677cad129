"""The tasks of the index step: sample the values, then send every entry to the file of its range."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.index import ROWS_COLUMN, encode_index, index_file_path
from hipslake.catalog.partitions import pixels_in
from hipslake.engine.model import Block, Counter, Routed
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.tables import to_ipc
from hipslake.storage.folder import Storage

SAMPLE = pa.schema([("rows", pa.binary())])
WRITTEN = pa.schema([("file", pa.string())])


@dataclass(frozen=True)
class SampleTask:
    """Takes some values of the files of each task, evenly."""

    files: tuple[ColumnFiles, ...]
    schema: pa.Schema
    most: int

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give values and their pixels, as an Arrow IPC stream."""
        kept: list[pa.RecordBatch] = []
        for batch in self.files[task].batches():
            rows = _keyed(batch, self.schema.field(0).type)
            chosen = np.unique(np.linspace(0, rows.num_rows - 1, min(self.most, rows.num_rows)).astype(int))
            kept += [rows.take(pa.array(chosen, pa.int64()))]
        if kept:
            table = pa.Table.from_batches(kept)
            chosen = np.unique(np.linspace(0, table.num_rows - 1, min(self.most, table.num_rows)).astype(int))
            found = pa.Table.from_arrays(table.take(pa.array(chosen, pa.int64())).columns, schema=self.schema)
            yield pa.record_batch([[to_ipc(found)]], schema=SAMPLE)


@dataclass(frozen=True)
class IndexTask:
    """Both halves of the exchange.

    Attributes
    ----------
    files : tuple of ColumnFiles
        Per map task.
    schema : pyarrow.Schema
        Of an index file.
    bounds : pyarrow.Table
        Value and pixel at which each reduce task but the first begins, ascending.
    pixels : dict of int to str
        The leaves of the catalog, per order as ranges.
    storage : Storage
        At the catalog's root.
    write_id : str
    done : Counter
        Rows read so far.
    """

    files: tuple[ColumnFiles, ...]
    schema: pa.Schema
    bounds: pa.Table
    pixels: dict[int, str]
    storage: Storage
    write_id: str
    done: Counter

    @property
    def column(self) -> str:
        """The column that is indexed."""
        return self.schema.names[0]

    @cached_property
    def tree(self) -> PixelTree:
        """The leaves of the catalog."""
        return PixelTree(*pixels_in(self.pixels))

    def route(self, number: int) -> Iterator[Routed]:
        """Send the entries of some leaves to the files of their ranges."""
        for batch in self.files[number].batches():
            self.done.add(batch.num_rows)
            rows = pa.Table.from_batches([_keyed(batch, self.schema.field(0).type)])
            entries = _summed(rows.append_column(ROWS_COLUMN, pa.array(np.ones(rows.num_rows, np.int64))))
            entries = entries.sort_by([("key", "ascending"), (HEALPIX_COLUMN, "ascending")])
            cuts = [0, *_places(entries, self.bounds).tolist(), entries.num_rows]
            for target, (low, high) in enumerate(pairwise(cuts)):
                for part in entries.slice(low, high - low).combine_chunks().to_batches():
                    if part.num_rows:
                        yield target, part

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the index file of a range, and say what is in it."""
        table = _summed(pa.Table.from_batches([block.rows for block in blocks]))
        blocks.clear()
        h29 = table[HEALPIX_COLUMN].to_numpy()
        at = self.tree.find(h29)
        columns = [*table.columns, pa.array(self.tree.order[at]), pa.array(self.tree.npix[at])]
        table = pa.table(columns, names=self.schema.names).cast(self.schema)
        keys = [self.column, "Norder", "Npix", HEALPIX_COLUMN]
        table = table.sort_by([(name, "ascending") for name in keys]).combine_chunks()
        content = encode_index(table)
        path = index_file_path(self.write_id, self.column, target)
        self.storage.write(path, content)
        row = {
            "path": path,
            "rows": table.num_rows,
            "bytes": content.size,
            "sha256": hashlib.sha256(content).hexdigest(),
            "first": table[self.column][0].as_py(),
            "last": table[self.column][-1].as_py(),
            "of_rows": pc.sum(table[ROWS_COLUMN]).as_py(),
        }
        yield pa.record_batch([[json.dumps(row)]], schema=WRITTEN)


def _keyed(batch: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """Rows with a value, as columns `key` and `_healpix_29`."""
    h29, keys = batch.column(0), batch.column(1).cast(kind)
    if keys.null_count:
        there = keys.is_valid()
        h29, keys = h29.filter(there), keys.filter(there)
    return pa.record_batch([keys, h29], names=["key", HEALPIX_COLUMN])


def _summed(rows: pa.Table) -> pa.Table:
    """One entry for each pair of value and pixel: key, `_healpix_29`, rows."""
    grouped = rows.group_by(["key", HEALPIX_COLUMN], use_threads=False).aggregate([(ROWS_COLUMN, "sum")])
    return grouped.select(["key", HEALPIX_COLUMN, f"{ROWS_COLUMN}_sum"]).rename_columns(
        ["key", HEALPIX_COLUMN, ROWS_COLUMN]
    )


def _places(entries: pa.Table, bounds: pa.Table) -> NDArray[np.int64]:
    """For each bound, the place of the first entry at or after it; entries are sorted."""
    value, pixel = bounds.columns[0].to_numpy(), bounds.columns[1].to_numpy()
    keys, h29 = entries["key"].to_numpy(), entries[HEALPIX_COLUMN].to_numpy()
    low, high = np.searchsorted(keys, value, side="left"), np.searchsorted(keys, value, side="right")
    within = [
        int(first) + int(np.searchsorted(h29[first:last], at))
        for first, last, at in zip(low, high, pixel, strict=True)
    ]
    return np.array(within, np.int64)
