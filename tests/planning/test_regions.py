"""Regions against brute force: what must be divided is, and nothing else."""

from __future__ import annotations

import numpy as np
from hipslake.planning.pixel_histogram import Histogram, count_pixels
from hipslake.planning.regions import plan_regions
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER, Pixel
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

ORDER = 4  # of the cells


def planned(old: np.ndarray, threshold: int, lowest: int) -> PixelTree:
    """Leaves of some rows, some of them finer than the cells, by brute force."""
    found, todo = [], [Pixel(lowest, npix) for npix in range(12 << 2 * lowest)]
    while todo:
        pixel = todo.pop()
        start, stop = pixel.interval
        inside = int(((old >= start) & (old < stop)).sum())
        if inside > threshold and pixel.order < ORDER + 2:
            todo += pixel.children()
        elif inside:
            found.append(pixel)
    return PixelTree([pixel.order for pixel in found], [pixel.npix for pixel in found])


def expected(new: np.ndarray, leaves: PixelTree, threshold: int, lowest: int) -> dict[Pixel, int]:
    """The regions by their definition, from the top down."""
    found: dict[Pixel, int] = {}
    todo = [(Pixel(lowest, npix), False) for npix in range(12 << 2 * lowest)]
    while todo:
        pixel, needed = todo.pop()
        start, stop = pixel.interval
        rows = int(((new >= start) & (new < stop)).sum())
        inside = [leaf for leaf in leaves if leaf.order > pixel.order and start <= leaf.interval[0] < stop]
        above = any(
            leaf.order <= pixel.order and leaf.interval[0] <= start < leaf.interval[1] for leaf in leaves
        )
        if not rows and not needed:
            continue
        if pixel.order < ORDER and (rows > threshold or inside):
            todo += [(child, above) for child in pixel.children()]
        else:
            found[pixel] = rows
    return found


def positions(seed: int, rows: int, clustered: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if clustered:
        return (5 << 58) + (np.abs(rng.normal(0, 2.0**52, rows))).astype(np.int64)
    return rng.integers(0, 12 << 2 * MAX_ORDER, rows)


@given(
    seed=st.integers(0, 1000),
    old=st.integers(0, 300),
    new=st.integers(0, 300),
    clustered=st.tuples(st.booleans(), st.booleans()),
    threshold=st.integers(1, 80),
    lowest=st.integers(0, 2),
)
@settings(max_examples=examples(150))
def test_regions_are_what_certainly_needs_no_division(
    seed: int, old: int, new: int, clustered: tuple[bool, bool], threshold: int, lowest: int
) -> None:
    leaves = planned(positions(seed, old, clustered[0]), threshold, lowest)
    h29 = positions(seed + 1, new, clustered[1])
    cells = Histogram.from_counts(ORDER, *count_pixels(h29, ORDER))
    regions = plan_regions(cells, cells.rows, threshold, leaves, lowest_order=lowest)
    found = {
        Pixel(order, npix): rows
        for order, npix, rows in zip(
            regions.order.tolist(), regions.npix.tolist(), regions.rows.tolist(), strict=True
        )
    }
    assert found == expected(h29, leaves, threshold, lowest)
    assert np.all(np.diff(regions.start) > 0)
