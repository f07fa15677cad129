"""What the programs of the Delta benchmark share: where its table lies, and what its rows come to.

Runs in the project's environment and in the peers'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.table_task import KEY

NAMESPACE, NAME = "sky", "stars"
TABLE = f"{NAMESPACE}.{NAME}"
BATCH = "batch.parquet"
COLUMNS = (KEY, "g_mag", "observed")
"""Of a table that is merged into."""


def lake_in(output: Path) -> Path:
    """The folder of a benchmark's Delta tables."""
    return output / "lake"


def table_in(output: Path) -> Path:
    """The folder of its table."""
    return lake_in(output) / NAMESPACE / NAME


def row_sums(batches: Any) -> list[int]:
    """Rows, and sums over them that bind the values of each row together, modulo 2^64; in whatever order.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        With `COLUMNS`.
    """
    rows, sums = 0, [0, 0, 0]
    for batch in batches:
        key, value, moment = (_bits(batch.column(name)) for name in COLUMNS)
        rows += batch.num_rows
        for at, some in enumerate((key, key * value, key * moment)):
            sums[at] += int(some.sum(dtype=np.uint64))
    return [rows, *(each % 2**64 for each in sums)]


def _bits(column: pa.Array) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return column.to_numpy(zero_copy_only=False).view(np.uint64)
