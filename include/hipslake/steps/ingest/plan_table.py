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
    ]
)


def plan_of_group(group: str, leaves: Leaves, file_bytes: NDArray[np.int64]) -> pa.Table:
    """Return the rows of the plan for one column group; `file_bytes` has one value per leaf."""
    count = len(leaves.npix)
    columns = {
        "group": pa.array(np.full(count, group, object), pa.string()),
        "order": leaves.order.astype(np.int32),
        "npix": leaves.npix.astype(np.int64),
        "rows": leaves.rows.astype(np.int64),
        "bytes": file_bytes,
    }
    return pa.table(columns, schema=PLAN_SCHEMA)
