"""The rows of a batch as the column groups store them: indexed, in curve order, with added columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.placement import Placed, indexed
from hipslake.catalog.schema import ICRS_COLUMNS, OBJECT_COLUMNS, ROW_COLUMN
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.sphere.curve import curve_order
from hipslake.sphere.pixels import HEALPIX_COLUMN, centers29


def in_curve_order(
    rows: pa.RecordBatch,
    placed: Placed,
    *,
    position: PositionSpec,
    schemas: Mapping[str, pa.Schema],
    row_start: int,
) -> tuple[NDArray[np.int64], dict[str, pa.RecordBatch]]:
    """Index and sort the rows that have a place, and give every column group its columns.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        Consecutive rows of the source, with all its columns.
    placed : Placed
        Their positions; rows with a reason are left out.
    position : PositionSpec
    schemas : mapping of str to pyarrow.Schema
        Per column group, the schema of its leaf files.
    row_start : int
        `_row` of the first row.

    Returns
    -------
    keys : int64[m]
        `_healpix_29`, ascending; rows with equal ones are in source order.
    groups : dict of str to pyarrow.RecordBatch
        Per column group, the rows in the order of the keys.
    """
    kept, ra, dec, h29 = indexed(placed, position)
    order = curve_order(h29)
    keys = h29.take(order)
    places = order if kept is None else kept.take(order)
    wanted = {name for schema in schemas.values() for name in schema.names}
    stored = rows.select([name for name in rows.schema.names if name in wanted])
    taken = pc.take(stored, pa.array(places), boundscheck=False)  # the places are ours
    columns = dict(zip(stored.schema.names, taken.columns, strict=True))
    columns[HEALPIX_COLUMN] = pa.array(keys)
    if ROW_COLUMN in wanted:
        columns[ROW_COLUMN] = pa.array(places + row_start)
    for name, values in zip(ICRS_COLUMNS, (ra, dec), strict=True):
        if name in wanted and name not in columns:
            columns[name] = pa.array(values[order])
    if set(OBJECT_COLUMNS) <= wanted:
        columns |= {name: pa.array(c) for name, c in zip(OBJECT_COLUMNS, centers29(keys), strict=True)}
    groups = {
        group: pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        for group, schema in schemas.items()
    }
    return keys, groups
