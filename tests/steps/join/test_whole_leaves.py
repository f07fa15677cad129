"""A plan over whole leaves where nothing changed is the plan over all cells."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hipslake.planning.pixel_histogram import Histogram
from hipslake.planning.splits import Leaves, plan_leaves
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import starts, stops
from hipslake.steps.join.standing_outcome import StandingOutcome


def planned(cells: Histogram, most: int) -> Leaves:
    return plan_leaves(cells, cells.rows, most)


def as_table(leaves: Leaves) -> pa.Table:
    return pa.table({"order": leaves.order, "npix": leaves.npix, "rows": leaves.rows})


@pytest.mark.parametrize("seed", range(40))
def test_the_plan_is_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, most = 5, int(rng.integers(20, 400))
    pixels = np.flatnonzero(rng.random(12 << 2 * order) < rng.choice([0.02, 0.3, 1.0]))
    rows = rng.integers(1, rng.choice([3, 20]), len(pixels))
    before = planned(Histogram.from_counts(order, pixels, rows), most)
    start = np.sort(rng.choice(pixels, min(3, len(pixels)), replace=False))
    changed = Intervals.union(starts(order, start), stops(order, start))
    now = rows.copy()
    now[np.isin(pixels, start)] = rng.integers(0, 20, len(start))
    there = now > 0
    cells = Histogram.from_counts(order, pixels[there], now[there])
    standing = StandingOutcome(cast("Any", None), cast("Any", None), changed)
    standing.__dict__["leaves"] = as_table(before)
    whole = standing.with_whole_leaves(cells)
    assert whole.total_rows == cells.total_rows
    assert len(whole) < len(cells)
    assert as_table(planned(whole, most)).equals(as_table(planned(cells, most)))


def test_rows_that_the_last_version_does_not_have_are_seen() -> None:
    """Of a leaf that is as it was, the rows are those of its cells, which the check of leaves looks at."""
    cells = Histogram.from_counts(3, np.array([0, 1, 9]), np.array([5, 6, 7]))
    standing = StandingOutcome(cast("Any", None), cast("Any", None), Intervals.union([], []))
    standing.__dict__["leaves"] = pa.table({"order": [2, 2], "npix": [0, 2], "rows": [11, 8]})
    whole = standing.with_whole_leaves(cells)
    assert (whole.npix.tolist(), whole.rows.tolist()) == ([0, 2], [11, 7])
