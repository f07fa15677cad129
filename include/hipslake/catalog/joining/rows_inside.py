"""The rows of a leaf file in many short stretches of the curve: of each row group, their places first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.leaf_opening import leaf_file
from hipslake.catalog.leaf_reads import row_groups_in
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage


def rows_inside(
    storage: Storage, path: str, size: int, schema: pa.Schema, places: Intervals
) -> Iterator[pa.RecordBatch]:
    """The rows of a leaf file of ours in some stretches, in the order of the file.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    size : int
        Of the file, in bytes.
    schema : pyarrow.Schema
        What the rows are given as, `_healpix_29` among it; columns that came after the file was written are
        null, and columns that it does not name are not read.
    places : Intervals
        Of row groups that hold nothing of them by their statistics, nothing is read; of those that hold
        nothing by their rows, `_healpix_29` alone.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    with leaf_file(storage, path, size) as file:
        held = set(file.schema_arrow.names)
        others = [name for name in schema.names if name in held and name != HEALPIX_COLUMN]
        groups = row_groups_in(file.metadata, places)
        # Of a store, all row groups at once: a request takes longer than their bytes.
        for some in [[group] for group in groups] if storage.is_local else [groups]:
            keys = file.read_row_groups(some, [HEALPIX_COLUMN], use_threads=False).combine_chunks()
            rows = _places_in(keys[HEALPIX_COLUMN].to_numpy(), places)
            if not len(rows):
                continue
            found = keys
            if others:
                rest = file.read_row_groups(some, others, use_threads=False)
                found = pa.table(
                    [*keys.columns, *rest.columns], names=[*keys.column_names, *rest.column_names]
                )
            if len(rows) < found.num_rows:
                found = found.take(pa.array(rows))
            for batch in found.combine_chunks().to_batches():
                yield conform(batch, schema, storage.uri(path))


def _places_in(h29: NDArray[np.int64], places: Intervals) -> NDArray[np.int64]:
    """Which order-29 pixels, ascending, lie in some stretches: their numbers."""
    if not len(h29):
        return np.empty(0, np.int64)
    near = places.within(int(h29[0]), int(h29[-1]) + 1)
    first = np.searchsorted(h29, near.start)
    return range_numbers(first, np.searchsorted(h29, near.stop) - first)
