"""Skies for tests of planning: order-29 pixels of rows, spread and crowded."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hipslake.planning.pixel_histogram import Histogram, count_pixels
from hipslake.planning.splits import crowded_cells
from hipslake.sphere.pixels import coarsen
from hypothesis import strategies as st
from numpy.typing import NDArray

FINEST = 12 * 4**29

Counts = dict[tuple[int, int], int]


@st.composite
def skies(draw: st.DrawFn, *, most: int = 60) -> NDArray[np.int64]:
    """Rows over the whole sky, around a few points, and on top of one another."""
    rows = draw(st.lists(st.integers(0, FINEST - 1), max_size=most))
    for centre in draw(st.lists(st.integers(0, FINEST - 1), max_size=3)):
        reach = draw(st.sampled_from([1, 4, 1 << 20, 1 << 40]))
        near = draw(st.lists(st.integers(0, reach), max_size=most))
        rows += [min(centre + offset, FINEST - 1) for offset in near]
    return np.array(draw(st.permutations(rows)), np.int64)


def brute_counts(h29: NDArray[np.int64], order: int) -> Counts:
    """Rows per pixel, one row after another."""
    return Counter((order, int(index) // 4 ** (29 - order)) for index in h29)


def histogram_of(h29: NDArray[np.int64], order: int) -> Histogram:
    """The histogram of all rows at one order."""
    return Histogram.from_counts(order, *count_pixels(h29, order))


def deepened(
    h29: NDArray[np.int64], mapping: int, threshold: int, *, highest_order: int = 29, by: int = 5
) -> Histogram:
    """What the histogram step makes: crowded cells counted again, deeper and deeper."""
    histogram = histogram_of(h29, mapping)
    while True:
        crowded = crowded_cells(histogram, histogram.rows, threshold, highest_order=highest_order)
        if not crowded.any():
            return histogram
        cells = histogram.select(crowded)
        order = int(cells.order.max())
        mine = h29[np.isin(coarsen(h29, order), cells.npix.astype(np.int64))]
        histogram = histogram.refined(crowded, histogram_of(mine, min(order + by, highest_order)))


def as_counts(histogram: Histogram) -> Counts:
    """The cells and their rows."""
    keys = zip(histogram.order.tolist(), histogram.npix.tolist(), strict=True)
    return dict(zip(keys, histogram.rows.tolist(), strict=True))
