"""The rows of a leaf file that lie near the border of its pixel: their places first, then the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import foreign_batches
from hipslake.catalog.leaf_form import form_of
from hipslake.catalog.leaf_opening import leaf_file, range_of, read_errors
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
        self,
        read_whole: Callable[[], pa.RecordBatch],
        places: NDArray[np.int64],
        near: pa.Table,
        position: PositionSpec,
    ) -> None:
        self._read_whole, self._places = read_whole, places
        self.h29: NDArray[np.int64] = near[HEALPIX_COLUMN].to_numpy()
        self.ra, self.dec = icrs_of(near, position)
        self.row: NDArray[np.int64] | None = (
            near[ROW_COLUMN].to_numpy() if ROW_COLUMN in near.schema.names else None
        )
        self._whole: pa.RecordBatch | None = None

    def take(self, chosen: NDArray[np.int64]) -> pa.RecordBatch:
        """Rows, given by their places among these, with all columns."""
        if self._whole is None:
            self._whole = self._read_whole()
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
    if form_of(schema) is not None:
        for batch in foreign_batches(storage, path, schema, border):
            near = pa.Table.from_batches([batch])
            yield BorderRows(partial(_itself, batch), np.arange(batch.num_rows), near, position)
        return
    with leaf_file(storage, path, size) as parquet:

        def row_group(number: int) -> pa.RecordBatch:
            with read_errors(storage, path):  # called from outside of this block
                table = parquet.read_row_group(number, use_threads=False).combine_chunks()
            [batch] = table.to_batches()
            return conform(batch, schema, storage.uri(path))

        chunks = ColumnChunks(parquet.metadata)
        wanted = [HEALPIX_COLUMN, position.ra, position.dec, ROW_COLUMN]
        names = [name for name in wanted if name in schema.names]
        for number in range(parquet.num_row_groups):
            if not len(border.within(*range_of(chunks, number))):
                continue
            near = parquet.read_row_group(number, columns=names, use_threads=False)
            places = np.flatnonzero(border.hold(near[HEALPIX_COLUMN].to_numpy()))
            if len(places):
                whole = partial(row_group, number)
                yield BorderRows(whole, places, near.take(pa.array(places)), position)


def _itself(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch
