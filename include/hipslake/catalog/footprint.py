"""Where the files of a version lie on the sky, and how much is in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hipslake.catalog.metadata import GroupMetadata, Increment, Margin
from hipslake.catalog.partitions import read_partition_sidecars
from hipslake.sphere.pixels import starts
from hipslake.sphere.sky_cells import Footprint
from hipslake.storage.folder import Storage

_COLUMNS = ("order", "npix", "rows", "bytes")


def footprint(storage: Storage, files: GroupMetadata | Margin) -> Footprint:
    """The files of a column group, or of a margin.

    Parameters
    ----------
    storage : Storage
        At the catalog's root; touched only where sidecars hold the table.
    files : GroupMetadata or Margin
    """
    if files.sidecars is not None:
        return footprint_of(read_partition_sidecars(storage, files.sidecars, _COLUMNS))
    return footprint_of(files.table(storage))


def increment_footprint(storage: Storage, increment: Increment) -> Footprint:
    """The pixels that the rows of an increment lie in; how many bytes they take is not kept: 0."""
    return footprint_of(increment.cells(storage))


def footprint_of(table: pa.Table) -> Footprint:
    """The footprint, along the curve, of a table with `order`, `npix`, `rows` and perhaps `bytes`."""
    order = table["order"].to_numpy().astype(np.int8)
    start = starts(order, table["npix"].to_numpy())
    rows = table["rows"].to_numpy()
    size = table["bytes"].to_numpy() if "bytes" in table.column_names else np.zeros_like(rows)
    if np.any(start[1:] < start[:-1]):
        along = np.argsort(start, kind="stable")
        order, start, rows, size = order[along], start[along], rows[along], size[along]
    return Footprint(start, order, rows, size)
