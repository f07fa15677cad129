"""What came out, and how well it skips: judged for every system by this one program, from its files alone.

Queries are boxes with a share of the rows in each column that they ask for. A file is touched if the minima
and maxima in its footer do not rule it out, as readers of every table format decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.table_task import CLUSTER_COLUMNS

QUERIES = 1000
SEED = 7
SUMMED = ("source_id", "flags")
_SAMPLED_ROWS = 200_000
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Floats = NDArray[np.float64]

# What is asked of each of CLUSTER_COLUMNS: the share of its rows; 1 asks nothing.
KINDS = {
    "box, 20% of each": (0.2, 0.2, 0.2),
    "5% of the sky": (0.05, 1.0, 1.0),
    "5% of the time": (1.0, 0.05, 1.0),
    "5% of the magnitudes": (1.0, 1.0, 0.05),
}


class Outcome(NamedTuple):
    """Files of a table, and what is in them."""

    files: int
    bytes: int
    rows: int
    sums: tuple[int, ...]  # of SUMMED, modulo 2^64


def outcome(paths: Sequence[str]) -> Outcome:
    """Count files and rows, and add up two columns, so that a row lost or doubled is seen."""
    rows, sums = 0, [0] * len(SUMMED)
    for path in paths:
        with pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            for batch in file.iter_batches(1 << 18, columns=list(SUMMED)):
                for at, name in enumerate(SUMMED):
                    values = batch.column(batch.schema.get_field_index(name)).to_numpy()
                    sums[at] += int(values.astype(np.uint64).sum(dtype=np.uint64))
    return Outcome(
        len(paths), sum(Path(path).stat().st_size for path in paths), rows, tuple(s % 2**64 for s in sums)
    )


def queries(source: Sequence[str], shares: Sequence[float], count: int = QUERIES) -> tuple[Floats, Floats]:
    """Draw boxes that hold a share of the rows in each column.

    Parameters
    ----------
    source : sequence of str
        Files; some of their rows say where a share of them lies.
    shares : sequence of float
        For each of CLUSTER_COLUMNS; 1 asks nothing of it.
    count : int

    Returns
    -------
    low, high : float64[count, k]
        Both ends included.
    """
    rng = np.random.default_rng(SEED)
    each = -(-_SAMPLED_ROWS // len(source))
    parts = [pq.ParquetFile(path).read_row_group(0, columns=list(CLUSTER_COLUMNS))[:each] for path in source]
    sample = pa.concat_tables(parts)
    low, high = np.empty((2, count, len(shares)))
    for at, (name, share) in enumerate(zip(CLUSTER_COLUMNS, shares, strict=True)):
        start = rng.uniform(0, 1 - share, count) if share < 1 else np.zeros(count)
        if share < 1:
            values = np.sort(_numbers(sample[name]))
            low[:, at], high[:, at] = np.quantile(values, start), np.quantile(values, start + share)
        else:
            low[:, at], high[:, at] = -np.inf, np.inf
    return low, high


def bounds(paths: Sequence[str]) -> tuple[Floats, Floats]:
    """Return minima and maxima of CLUSTER_COLUMNS in each file, from its footer, float64[files, k]."""
    low, high = np.empty((2, len(paths), len(CLUSTER_COLUMNS)))
    for number, path in enumerate(paths):
        footer = pq.read_metadata(path)
        groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
        for at, name in enumerate(CLUSTER_COLUMNS):
            column = footer.schema.to_arrow_schema().get_field_index(name)
            told = [group.column(column).statistics for group in groups]
            type_ = footer.schema.to_arrow_schema().field(column).type
            low[number, at] = _numbers(pa.array([min(each.min for each in told)], type_))[0]
            high[number, at] = _numbers(pa.array([max(each.max for each in told)], type_))[0]
    return low, high


def touched(paths: Sequence[str], source: Sequence[str]) -> dict[str, float]:
    """Return the mean number of files that a query of each of KINDS touches."""
    lowest, highest = bounds(paths)
    found = {}
    for kind, shares in KINDS.items():
        low, high = queries(source, shares)
        meets = (lowest[None] <= high[:, None]) & (highest[None] >= low[:, None])
        found[kind] = float(meets.all(axis=2).sum(axis=1).mean())
    return found


def _numbers(values: pa.Array | pa.ChunkedArray) -> Floats:
    """Numbers as they are, times in seconds, whatever resolution a system writes them in."""
    if not pa.types.is_timestamp(values.type):
        return np.asarray(values, np.float64)
    ticks = values.cast(pa.int64()).to_numpy().astype(np.float64)
    return ticks / _TICKS[values.type.unit]
