"""Stretches of the curve with about equal rows: large leaves are cut, small ones put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.leaf import read_footer
from hipslake.catalog.leaf_rows import told
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import summed_by_leaf
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import starts, stops
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class StretchPlan:
    """Disjoint stretches, along the curve; together they hold every row that was planned for.

    Attributes
    ----------
    start, stop : int64[n]
        Order-29 pixels, [start, stop).
    rows : int64[n]
        In each; about, where a leaf was cut.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


def plan_stretches(
    storage: Storage,
    metadata: CatalogMetadata,
    most_rows: int,
    *,
    only: Intervals | None = None,
) -> StretchPlan:
    """Plan stretches of about `most_rows` rows, a few more at most.

    Parameters
    ----------
    storage : Storage
        At the catalog's root. Only the footers of leaves with more rows than that are read.
    metadata : CatalogMetadata
    most_rows : int
    only : Intervals, optional
        Leaves that hold nothing of these are left out.
    """
    leaves = summed_by_leaf(metadata.partitions(None, storage))
    start = starts(leaves["order"].to_numpy(), leaves["npix"].to_numpy())
    stop = stops(leaves["order"].to_numpy(), leaves["npix"].to_numpy())
    if only is not None:
        met = only.touch(start, stop)
        leaves, start, stop = leaves.filter(pa.array(met)), start[met], stop[met]
    rows, paths = leaves["rows"].to_numpy(), leaves["path"].to_pylist()
    pieces: list[tuple[int, int, int]] = []
    for at, path in enumerate(paths):
        whole = int(start[at]), int(stop[at]), int(rows[at])
        pieces += [whole] if rows[at] <= most_rows else _cut(storage, path, whole, most_rows)
    begin, end, held = np.array(pieces, np.int64).reshape(-1, 3).T
    task = assign_targets(held, most_rows)
    first = np.flatnonzero(np.append(True, np.diff(task) > 0))[: len(task)]
    last = np.append(first[1:], len(task)) - 1 if len(first) else first
    return StretchPlan(begin[first], end[last], np.add.reduceat(held, first) if len(first) else held)


def _cut(
    storage: Storage, path: str, leaf: tuple[int, int, int], most_rows: int
) -> Iterator[tuple[int, int, int]]:
    """Cut a leaf where row groups of (one of) its files begin."""
    start, stop, rows = leaf
    footer = read_footer(storage, path)
    chunks = ColumnChunks(footer)
    with told(storage, path):
        known = [chunks(number, 0).statistics for number in range(footer.num_row_groups)]
    if any(statistics is None or not statistics.has_min_max for statistics in known):
        yield leaf
        return
    share = rows / max(footer.num_rows, 1)  # of all files of the leaf
    cuts, held, taken = [start], [], 0.0
    for number, statistics in enumerate(known):
        size = footer.row_group(number).num_rows * share
        if taken and taken + size > most_rows and statistics.min > cuts[-1]:
            cuts.append(statistics.min)
            held.append(int(taken))
            taken = 0.0
        taken += size
    held.append(int(taken))
    for (low, high), count in zip(pairwise([*cuts, stop]), held, strict=True):
        yield low, high, count
