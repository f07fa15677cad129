"""The rows of a leaf file that lie near the border of its pixel: their places first, then the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.leaf_rows import range_of, told
from hipslake.catalog.placement import icrs_of
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.sources.conforming import conform
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


class BorderRows:
    """Some rows of one row group, which are read whole only when they are taken.

    Attributes
    ----------
    h29 : int64[n]
    ra, dec : float64[n]
        ICRS, degrees.
    row : int64[n] or None
        `_row`, where it is stored.
    """

    def __init__(
        self, file: _LeafFile, number: int, places: NDArray[np.int64], near: pa.Table, position: PositionSpec
    ) -> None:
        self._file, self._number, self._places = file, number, places
        self.h29: NDArray[np.int64] = near[HEALPIX_COLUMN].to_numpy()
        self.ra, self.dec = icrs_of(near, position)
        self.row: NDArray[np.int64] | None = (
            near[ROW_COLUMN].to_numpy() if ROW_COLUMN in near.schema.names else None
        )
        self._whole: pa.RecordBatch | None = None

    def take(self, chosen: NDArray[np.int64]) -> pa.RecordBatch:
        """Rows, given by their places among these, with all columns."""
        if self._whole is None:
            self._whole = self._file.row_group(self._number)
        return pc.take(self._whole, pa.array(self._places[chosen]), boundscheck=False)


def border_rows(
    storage: Storage,
    path: str,
    size: int,
    schema: pa.Schema,
    position: PositionSpec,
    border: Intervals,
) -> Iterator[BorderRows]:
    """The rows of a leaf file that lie in the border of its pixel, row group by row group.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    size : int
        Of the file, in bytes.
    schema : pyarrow.Schema
        What the rows are given as; columns that came after the file was written are null.
    position : PositionSpec
        The columns that place a row, among those of the schema.
    border : Intervals
        As `hipslake.sphere.margin_geometry.border_of` gives them. Row groups outside are not read.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    with told(storage, path):
        source = storage.arrow_file(path, size)
    with source:
        file = _LeafFile(storage, path, source, schema)
        for number in range(file.parquet.num_row_groups):
            if not file.meets(number, border):
                continue
            near = file.columns(number, position)
            places = np.flatnonzero(border.hold(near[HEALPIX_COLUMN].to_numpy()))
            if len(places):
                yield BorderRows(file, number, places, near.take(pa.array(places)), position)


class _LeafFile:
    def __init__(self, storage: Storage, path: str, source: pa.NativeFile, schema: pa.Schema) -> None:
        self._storage, self._path, self._schema = storage, path, schema
        with told(storage, path):
            self.parquet = pq.ParquetFile(source, pre_buffer=not storage.is_local)  # few large requests
            self._chunks = ColumnChunks(self.parquet.metadata)

    def meets(self, number: int, border: Intervals) -> bool:
        """Whether a row group may hold rows of the border, by what it says of `_healpix_29`."""
        with told(self._storage, self._path):
            return len(border.within(*range_of(self._chunks, number))) > 0

    def columns(self, number: int, position: PositionSpec) -> pa.Table:
        """What tells where the rows lie."""
        wanted = [HEALPIX_COLUMN, position.ra, position.dec, ROW_COLUMN]
        with told(self._storage, self._path):
            names = [name for name in wanted if name in self._schema.names]
            return self.parquet.read_row_group(number, columns=names, use_threads=False)

    def row_group(self, number: int) -> pa.RecordBatch:
        """All columns of a row group."""
        with told(self._storage, self._path):
            table = self.parquet.read_row_group(number, use_threads=False).combine_chunks()
        [batch] = table.to_batches()
        return conform(batch, self._schema, self._storage.uri(self._path))
