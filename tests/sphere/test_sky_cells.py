"""Leaves gathered into cells for a screen: sums stay exact, and cells are what they say."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hipslake.sphere.pixels import MAX_ORDER, Pixel
from hipslake.sphere.sky_cells import FINEST_CELL, Footprint, gather
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def skies(draw: st.DrawFn) -> Footprint:
    """Disjoint leaves of many orders, some in pieces of several files, with holes between them."""
    leaves = [Pixel(0, npix) for npix in range(12)]
    for _ in range(draw(st.integers(0, 60))):
        at = draw(st.integers(0, len(leaves) - 1))
        if leaves[at].order < MAX_ORDER:
            leaves[at : at + 1] = leaves[at].children()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    files = rng.choice([0, 1, 1, 1, 3], len(leaves))
    start = np.repeat([leaf.interval[0] for leaf in leaves], files).astype(np.int64)
    order = np.repeat([leaf.order for leaf in leaves], files).astype(np.int8)
    return Footprint(start, order, *rng.integers(0, 1 << 40, (2, len(start))))


@given(skies(), st.integers(12, 80))
def test_cells_are_few_and_sum_up_to_the_catalog(sky: Footprint, most: int) -> None:
    cells = gather(sky, most)
    assert len(cells.npix) <= most
    assert cells.rows.sum() == sky.rows.sum()
    assert cells.bytes.sum() == sky.bytes.sum()
    assert cells.files.sum() == len(sky.start)
    assert cells.partitions.sum() == len(np.unique(sky.start))


@given(skies(), st.integers(12, 80))
def test_each_cell_holds_the_leaves_below_its_pixel(sky: Footprint, most: int) -> None:
    cells = gather(sky, most)
    found = {}
    for at in range(len(cells.npix)):
        low, high = Pixel(int(cells.order[at]), int(cells.npix[at])).interval
        inside = (sky.start >= low) & (sky.start < high)
        assert cells.rows[at] == sky.rows[inside].sum()
        assert cells.finest[at] == sky.order[inside].max()
        leaves = {
            int(start): int(order) for start, order in zip(sky.start[inside], sky.order[inside], strict=True)
        }
        area = sum(4.0**-order for order in leaves.values()) * 4.0 ** cells.order[at]
        assert cells.filled[at] == pytest.approx(area)
        found[low] = high
    bounds = sorted(found.items())
    assert all(stop <= start for (_, stop), (start, _) in pairwise(bounds))


@given(skies())
def test_no_finer_cells_would_be_few_enough(sky: Footprint) -> None:
    most = 20
    cells = gather(sky, most)
    gathered = cells.order[cells.partitions > 1]
    if not len(gathered) or gathered.max() == FINEST_CELL:
        return
    (order,) = set(gathered.tolist())
    finer: dict[int, int] = defaultdict(int)
    for start, leaf in zip(sky.start.tolist(), sky.order.tolist(), strict=True):
        finer[start >> 2 * (MAX_ORDER - min(leaf, order + 1)) << 2 * (MAX_ORDER - min(leaf, order + 1))] += 1
    assert len(finer) > most


@given(skies(), st.integers(0, 3), st.integers(0, 1 << 20))
def test_the_leaves_inside_a_pixel_are_those_that_overlap_it(sky: Footprint, order: int, number: int) -> None:
    pixel = Pixel(order, number % (12 << 2 * order))
    low, high = pixel.interval
    stop = sky.start + (np.int64(1) << 2 * (MAX_ORDER - sky.order.astype(np.int64)))
    overlap = (sky.start < high) & (stop > low)
    part = sky.inside(pixel)
    assert part.start.tolist() == sky.start[overlap].tolist()
    assert part.rows.tolist() == sky.rows[overlap].tolist()


def test_few_leaves_come_out_as_they_are() -> None:
    sky = Footprint(*(np.array(c, np.int64) for c in ([0, 3 << 56], [1, 1], [5, 7], [50, 70])))
    cells = gather(sky)
    assert cells.order.tolist() == [1, 1]
    assert cells.npix.tolist() == [0, 3]
    assert cells.filled.tolist() == [1.0, 1.0]


def test_no_leaves_are_no_cells() -> None:
    assert len(gather(Footprint(*(np.empty(0, np.int64) for _ in range(4)))).npix) == 0


def test_so_few_cells_that_order_0_has_more_are_refused() -> None:
    with pytest.raises(ValueError, match="order 0 has 12"):
        gather(Footprint(*(np.empty(0, np.int64) for _ in range(4))), 11)
