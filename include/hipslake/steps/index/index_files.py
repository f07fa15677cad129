"""Files of an index: entries are summed, cut, tagged with their leaves, written, and read back."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.index import ROWS_COLUMN, encode_index, index_file_path, index_schema
from hipslake.catalog.index_cuts import CutRule, entry_hashes, ranks_as_text, ranks_of
from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import CatalogMetadata, IndexFile
from hipslake.catalog.partitions import pixels_in
from hipslake.errors import VerificationError
from hipslake.joins.key_codes import plain_keys
from hipslake.specs.catalog_spec import Layout, Unchanged
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.index.request import FILE_ENTRIES, TASK_ENTRIES
from hipslake.storage.folder import Storage

KEY = "key"
"""What the indexed column is called among entries: these have a key, `_healpix_29` and rows."""


@dataclass(frozen=True)
class IndexOrder:
    """What index is to be built. It travels to tasks.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of the version that is indexed: published, or about to be.
    column : str
        Integers or texts; nulls have no entries.
    write_id : str
        The write that the files belong to.
    file_entries, task_entries : int
        Entries of a file, and of a task, about.
    unchanged : Unchanged
        How files of earlier writes get into the folder of HATS readers.
    """

    storage: Storage
    metadata: CatalogMetadata
    column: str
    write_id: str
    file_entries: int = FILE_ENTRIES
    task_entries: int = TASK_ENTRIES
    unchanged: Unchanged = Unchanged.LINK

    @property
    def group(self) -> str:
        """The column group that stores the column."""
        return self.metadata.group_with(self.column)

    @property
    def schema(self) -> pa.Schema:
        """Of an index file."""
        return index_schema(self.metadata.schema_of(self.group).field(self.column))

    @property
    def rule(self) -> CutRule:
        """Where files begin."""
        return CutRule(self.file_entries)

    @property
    def task_files(self) -> int:
        """Files of a task, about."""
        return max(1, self.task_entries // self.file_entries)

    @property
    def root(self) -> str:
        """The folder of the index."""
        return index_root(self.write_id, self.column)

    @property
    def writer(self) -> IndexWriter:
        """Writes the files."""
        pixels = dict(self.metadata.groups[0].pixels)
        return IndexWriter(self.storage, self.write_id, self.schema, pixels, self.rule)

    def placed(self, file: IndexFile) -> IndexFile:
        """A file of the index; one of an earlier write gets a second name where HATS readers look for it."""
        of_hats = self.metadata.layout is Layout.HATS and self.unchanged is not Unchanged.REFERENCE
        if not of_hats or file.path.startswith(f"{self.root}/"):
            return file
        path = f"{self.root}/dataset/index/{posixpath.basename(file.path)}"
        if self.unchanged is Unchanged.COPY:
            self.storage.copy(file.path, path, durable=False)
        else:
            self.storage.link(file.path, path, durable=False)
        return file.model_copy(update={"path": path})


@dataclass(frozen=True)
class IndexWriter:
    """Writes files of an index; what is in one follows from its entries alone.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    write_id : str
    schema : pyarrow.Schema
        Of an index file.
    pixels : dict of int to str
        The leaves of the catalog, per order as ranges.
    rule : CutRule
    """

    storage: Storage
    write_id: str
    schema: pa.Schema
    pixels: dict[int, str]
    rule: CutRule

    @property
    def column(self) -> str:
        """The column that is indexed."""
        return self.schema.names[0]

    @cached_property
    def tree(self) -> PixelTree:
        """The leaves of the catalog."""
        return PixelTree(*pixels_in(self.pixels))

    def write(self, entries: pa.Table, unless: str = "") -> dict[str, Any]:
        """Write a file, and say what is in it: the fields of `IndexFile`, `values` and `leads`.

        Parameters
        ----------
        entries : pyarrow.Table
            At least one, sorted by key and `_healpix_29`, each pair once.
        unless : str
            The SHA-256 of a file that is there: one with the same content is not written.

        Returns
        -------
        dict
            `values` are the rows with a value, and `leads` says whether the first entry is a candidate.
        """
        h29 = entries[HEALPIX_COLUMN].to_numpy()
        at = self.tree.find(h29)
        columns = [*entries.columns, pa.array(self.tree.order[at]), pa.array(self.tree.npix[at])]
        table = pa.table(columns, names=self.schema.names).cast(self.schema)
        keys = [self.column, "Norder", "Npix", HEALPIX_COLUMN]
        content = encode_index(table.sort_by([(name, "ascending") for name in keys]).combine_chunks())
        sha256 = hashlib.sha256(content).hexdigest()
        path = index_file_path(self.write_id, self.column, sha256)
        if sha256 != unless:
            self.storage.write(path, content)
        hashes = entry_hashes(plain_keys(entries[KEY]), h29)
        chosen = self.rule.candidates(hashes)
        return {
            "path": path,
            "rows": table.num_rows,
            "bytes": content.size,
            "sha256": sha256,
            "first": entries[KEY][0].as_py(),
            "last": entries[KEY][-1].as_py(),
            "pixel": int(h29[0]),
            "ranks": ranks_as_text(ranks_of(hashes[chosen])),
            "values": pc.sum(entries[ROWS_COLUMN]).as_py(),
            "leads": bool(chosen[0]),
        }

    def read(self, path: str, sha256: str) -> pa.Table:
        """The entries of a file, as they were written.

        Raises
        ------
        VerificationError
            It is missing, or not the file that was written.
        """
        where = self.storage.uri(path)
        try:
            content = self.storage.read(path)
        except FileNotFoundError as error:
            raise VerificationError(
                f"{where}: the file of an index is missing; build the index anew"
            ) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise VerificationError(f"{where}: its SHA-256 is not the one that metadata.json says")
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        columns = [table[name] for name in (self.column, HEALPIX_COLUMN, ROWS_COLUMN)]
        return in_order(pa.table(columns, names=[KEY, HEALPIX_COLUMN, ROWS_COLUMN]))

    def candidates_of(self, entries: pa.Table) -> NDArray[np.int64]:
        """The places of the candidates among some entries, int64[m]."""
        hashes = entry_hashes(plain_keys(entries[KEY]), entries[HEALPIX_COLUMN].to_numpy())
        return np.flatnonzero(self.rule.candidates(hashes))


def keyed(batch: pa.RecordBatch, kind: pa.DataType, rows: int = 1) -> pa.RecordBatch:
    """Rows with a value as entries: of `_healpix_29` and the column, each to count as so many rows."""
    h29, keys = batch.column(0), batch.column(1).cast(kind)
    if keys.null_count:
        there = keys.is_valid()
        h29, keys = h29.filter(there), keys.filter(there)
    counts = pa.array(np.full(len(keys), rows, np.int64))
    return pa.record_batch([keys, h29, counts], names=[KEY, HEALPIX_COLUMN, ROWS_COLUMN])


def files_of(order: IndexOrder, paths: Sequence[str]) -> ColumnFiles:
    """Some leaf files of the group that stores the column."""
    schema = order.metadata.schema_of(order.group)
    return ColumnFiles(order.storage, order.column, schema, tuple(paths), ())


def in_order(entries: pa.Table) -> pa.Table:
    """Entries sorted by key and `_healpix_29`."""
    return entries.sort_by([(KEY, "ascending"), (HEALPIX_COLUMN, "ascending")]).combine_chunks()


def summed(entries: pa.Table) -> pa.Table:
    """One entry for each pair of key and `_healpix_29`, sorted by both."""
    grouped = entries.group_by([KEY, HEALPIX_COLUMN], use_threads=False).aggregate([(ROWS_COLUMN, "sum")])
    names = [KEY, HEALPIX_COLUMN, f"{ROWS_COLUMN}_sum"]
    return in_order(grouped.select(names).rename_columns([KEY, HEALPIX_COLUMN, ROWS_COLUMN]))


def cut_at(entries: pa.Table, bounds: pa.Table) -> list[pa.Table]:
    """Entries, cut where each bound lies: the first piece comes before all of them.

    Parameters
    ----------
    entries : pyarrow.Table
        Sorted by key and `_healpix_29`.
    bounds : pyarrow.Table
        Key and `_healpix_29`, ascending.
    """
    value, pixel = bounds.columns[0].to_numpy(), bounds.columns[1].to_numpy()
    keys, h29 = entries[KEY].to_numpy(), entries[HEALPIX_COLUMN].to_numpy()
    low, high = np.searchsorted(keys, value, side="left"), np.searchsorted(keys, value, side="right")
    within = [
        int(first) + int(np.searchsorted(h29[first:last], at))
        for first, last, at in zip(low, high, pixel, strict=True)
    ]
    edges = [0, *within, entries.num_rows]
    return [entries.slice(start, stop - start) for start, stop in pairwise(edges)]
