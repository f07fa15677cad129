"""The plan in the run folder: one row per leaf, groups in the spec's order, along the curve in each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.planning.splits import Leaves

PLAN_SCHEMA = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("order", pa.int32(), nullable=False),
        pa.field("npix", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),  # expected size of the file
        pa.field("memory", pa.int64(), nullable=False),  # expected size as Arrow columns
        pa.field("target", pa.int32(), nullable=False),  # reduce task; numbered over all groups
    ]
)


def plan_of_group(
    group: str,
    leaves: Leaves,
    *,
    file_bytes: NDArray[np.int64],
    memory: NDArray[np.int64],
    targets: NDArray[np.int32],
) -> pa.Table:
    """Return the rows of the plan for one column group; arrays have one value per leaf."""
    count = len(leaves.npix)
    columns = {
        "group": pa.array(np.full(count, group, object), pa.string()),
        "order": leaves.order.astype(np.int32),
        "npix": leaves.npix.astype(np.int64),
        "rows": leaves.rows.astype(np.int64),
        "bytes": file_bytes,
        "memory": memory,
        "target": targets,
    }
    return pa.table(columns, schema=PLAN_SCHEMA)
