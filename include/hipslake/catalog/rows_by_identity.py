"""Columns of given rows, wherever these lie: looked up by (`_healpix_29`, `_row`) in the leaf files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.leaf_rows import range_of, told
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import VerificationError
from hipslake.sources.conforming import conform
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class RowsByIdentity:
    """Fetches columns of rows that are known by (`_healpix_29`, `_row`), of a catalog that stores `_row`.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    columns : sequence of str
        Without `_healpix_29` and `_row`. They are taken from as few groups as will do.
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: Sequence[str]

    @cached_property
    def schema(self) -> pa.Schema:
        """Of what is fetched."""
        whole = joined_schema(self.metadata)
        return pa.schema([whole.field(name) for name in self.columns])

    def fetch(self, h29: NDArray[np.int64], row: NDArray[np.int64]) -> pa.Table:
        """The columns of some rows, in the order in which the rows are given.

        Every leaf that holds any of them is opened once, and of it only the row groups around them are read,
        one at a time.

        Parameters
        ----------
        h29, row : int64[n]
            `_healpix_29` and `_row`, in any order; no row stands twice.

        Raises
        ------
        VerificationError
            A file is missing or damaged, or a group does not hold one of the rows.
        """
        along = np.lexsort((row, h29))
        wanted = h29[along], row[along]
        back = np.empty(len(along), np.int64)
        back[along] = np.arange(len(along))
        found: dict[str, pa.ChunkedArray] = {}
        for group, columns in self._groups.items():
            table = self._of_group(group, columns, *wanted)
            for name in columns:
                found[name] = table[name].take(pa.array(back))
        return pa.table([found[name] for name in self.columns], schema=self.schema)

    def _of_group(
        self, group: str, columns: list[str], h29: NDArray[np.int64], row: NDArray[np.int64]
    ) -> pa.Table:
        """What one group holds of rows that are sorted along the curve, in their order."""
        schema = self.metadata.schema_of(group)
        kept = pa.schema([schema.field(name) for name in columns])
        read = pa.schema([pa.field(HEALPIX_COLUMN, pa.int64()), pa.field(ROW_COLUMN, pa.int64()), *kept])
        places, pieces = [np.empty(0, np.int64)], [kept.empty_table()]
        for path, size, low, high in self._files(group, h29):
            for batch, first, last in _near_batches(self.storage, path, size, read, h29[low:high]):
                begin, end = low + first, low + last
                there, here = _common(batch, h29[begin:end], row[begin:end])
                places.append(here + begin)
                pieces.append(pa.Table.from_batches([batch]).select(columns).take(pa.array(there)).cast(kept))
        place = np.concatenate(places)
        seen = np.bincount(place, minlength=len(row))
        if (wrong := np.flatnonzero(seen != 1)).size:
            at = int(wrong[0])
            raise VerificationError(
                f"{self.storage.uri()}: group {group!r} holds the row with {HEALPIX_COLUMN} {h29[at]} and "
                f"{ROW_COLUMN} {row[at]} {seen[at]} times, and another group once; Catalog.verify() tells "
                "more"
            )
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(np.argsort(place)))

    def _files(self, group: str, h29: NDArray[np.int64]) -> Iterator[tuple[str, int, int, int]]:
        """The files whose leaves hold any of some rows: path, size, and from where to where these stand."""
        if not len(h29):
            return
        files = self._partitions(group, h29)
        order, npix = files["order"].to_numpy(), files["npix"].to_numpy()
        low = np.searchsorted(h29, starts(order, npix))
        high = np.searchsorted(h29, stops(order, npix))
        chosen = np.flatnonzero(low < high)
        near = files.select(["path", "bytes"]).take(pa.array(chosen))
        columns = (near["path"].to_pylist(), near["bytes"].to_pylist(), low[chosen].tolist())
        yield from zip(*columns, high[chosen].tolist(), strict=True)

    @cached_property
    def _groups(self) -> dict[str, list[str]]:
        """The groups that are read, and what of each."""
        return select(self.metadata, self.columns).columns

    @cached_property
    def _listed(self) -> dict[str, pa.Table]:
        """The files of groups that the metadata list themselves."""
        listed = [group for group in self._groups if self.metadata.group(group).sidecars is None]
        return {group: self.metadata.partitions(group, self.storage) for group in listed}

    def _partitions(self, group: str, h29: NDArray[np.int64]) -> pa.Table:
        if group in self._listed:
            return self._listed[group]
        cells = np.unique(h29)
        return self.metadata.group(group).table_near(self.storage, cells, cells + 1)


def _near_batches(
    storage: Storage, path: str, size: int, schema: pa.Schema, h29: NDArray[np.int64]
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The row groups of a file around some order-29 pixels (ascending), and the places of these pixels."""
    with (
        told(storage, path),
        storage.arrow_file(path, size) as source,
        pq.ParquetFile(source, pre_buffer=not storage.is_local) as file,
    ):
        held = set(file.schema_arrow.names)
        columns = [name for name in schema.names if name in held]
        chunks = ColumnChunks(file.metadata)
        for number in range(file.num_row_groups):
            low, high = np.searchsorted(h29, range_of(chunks, number)).tolist()
            if low < high:
                for batch in file.read_row_group(number, columns=columns, use_threads=False).to_batches():
                    yield conform(batch, schema, storage.uri(path)), low, high


def _common(
    batch: pa.RecordBatch, h29: NDArray[np.int64], row: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the rows of a batch and some others are the same: places in the batch, and in the others."""
    keys, numbers = (batch.column(at).to_numpy() for at in (0, 1))
    along = np.argsort(row, kind="stable")
    at = np.minimum(np.searchsorted(row[along], numbers), len(row) - 1)
    here = along[at]
    there = np.flatnonzero((row[here] == numbers) & (h29[here] == keys))
    return there, here[there]
