"""Plans: the invariants of every plan, the same plan by recursion from the top, and errors that say where."""

from __future__ import annotations

from typing import Any

import healpy
import numpy as np
import pytest
from hipslake.errors import PlanError
from hipslake.planning.pixel_histogram import Histogram
from hipslake.planning.splits import Leaves, assign_targets, crowded_cells, plan_leaves
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel, order29, starts, stops
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.planning.skies import brute_counts, deepened, histogram_of, skies

Cells = list[tuple[int, int, int, int]]  # start and stop at order 29, rows, weight


def split_from_the_top(cells: Cells, threshold: int, lowest: int) -> list[tuple[int, int, int, int]]:
    """The definition: from `lowest` on, split a pixel over the threshold into its children."""
    found = []
    waiting = [Pixel(lowest, npix) for npix in sorted({c[0] >> (2 * (29 - lowest)) for c in cells})]
    while waiting:
        pixel = waiting.pop(0)
        start, stop = pixel.interval
        inside = [cell for cell in cells if start <= cell[0] and cell[1] <= stop]
        rows, weight = sum(cell[2] for cell in inside), sum(cell[3] for cell in inside)
        if weight > threshold:
            waiting = [*pixel.children(), *waiting]
        elif rows:
            found.append((*pixel, rows, weight))
    return found


def cells_of(histogram: Histogram, weights: NDArray[np.int64]) -> Cells:
    edges = starts(histogram.order, histogram.npix), stops(histogram.order, histogram.npix)
    return list(zip(*(column.tolist() for column in (*edges, histogram.rows, weights)), strict=True))


def as_tuples(leaves: Leaves) -> list[tuple[int, int, int, int]]:
    columns = (leaves.order, leaves.npix, leaves.rows, leaves.weight)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(skies(), st.integers(0, 8), st.integers(0, 8), st.integers(1, 12), st.sampled_from([1, 5]))
def test_plan_keeps_its_promises(
    h29: NDArray[np.int64], mapping: int, lowest: int, threshold: int, by: int
) -> None:
    mapping = max(mapping, lowest)
    histogram = deepened(h29, mapping, threshold, by=by)
    heaviest = max(brute_counts(h29, 29).values(), default=0)
    if heaviest > threshold:
        with pytest.raises(PlanError, match=f"{heaviest} rows"):
            plan_leaves(histogram, histogram.rows, threshold, lowest_order=lowest)
        return
    leaves = plan_leaves(histogram, histogram.rows, threshold, lowest_order=lowest)
    tree = PixelTree(leaves.order, leaves.npix)  # disjoint, or this raises
    assert np.array_equal(tree.npix, leaves.npix), "not along the curve"
    held_by = tree.find(h29)
    assert (held_by >= 0).all(), "a row lies in no leaf"
    assert np.array_equal(np.bincount(held_by, minlength=len(leaves)), leaves.rows)
    assert (leaves.rows > 0).all()
    assert (leaves.rows <= threshold).all()
    for pixel in tree:
        assert pixel.order >= lowest
        if pixel.order > lowest:
            start, stop = pixel.parent().interval
            assert ((h29 >= start) & (h29 < stop)).sum() > threshold, "split in vain"


@given(skies(), st.integers(0, 6), st.integers(0, 6), st.integers(1, 300), st.data())
def test_plan_by_bytes_is_the_recursion_from_the_top(
    h29: NDArray[np.int64], mapping: int, lowest: int, threshold: int, data: st.DataObject
) -> None:
    histogram = deepened(h29, max(mapping, lowest), 8)
    each = st.integers(0, threshold)
    weights = np.array(data.draw(st.lists(each, min_size=len(histogram), max_size=len(histogram))), np.int64)
    leaves = plan_leaves(histogram, weights, threshold, lowest_order=lowest)
    assert as_tuples(leaves) == split_from_the_top(cells_of(histogram, weights), threshold, lowest)
    assert (leaves.order.dtype, leaves.npix.dtype) == (np.uint8, np.int64)


@given(skies(), st.integers(0, 5), st.integers(0, 6), st.integers(1, 30))
def test_leaves_stay_within_the_orders_allowed(
    h29: NDArray[np.int64], lowest: int, span: int, threshold: int
) -> None:
    """The mapping order may lie past the highest one."""
    highest = lowest + span
    histogram = histogram_of(h29, 8 if highest < 8 else highest)
    heaviest = max(brute_counts(h29, highest).values(), default=0)
    orders: dict[str, Any] = {"lowest_order": lowest, "highest_order": highest}
    if heaviest > threshold:
        with pytest.raises(PlanError, match=f"not be split past highest_order {highest}"):
            plan_leaves(histogram, histogram.rows, threshold, **orders)
        return
    leaves = plan_leaves(histogram, histogram.rows, threshold, **orders)
    assert as_tuples(leaves) == split_from_the_top(cells_of(histogram, histogram.rows), threshold, lowest)
    assert set(leaves.order.tolist()) <= set(range(lowest, highest + 1))


def test_a_full_sky_is_cut_evenly() -> None:
    npix = np.arange(12 * 4**4)
    histogram = Histogram.from_counts(4, npix, np.full(len(npix), 10))
    for threshold, order in [(10, 4), (39, 4), (40, 3), (640, 1), (10**9, 0)]:
        leaves = plan_leaves(histogram, histogram.rows, threshold)
        assert set(leaves.order.tolist()) == {order}
        assert leaves.npix.tolist() == list(range(12 * 4**order))


def test_cells_without_rows_make_no_leaves() -> None:
    histogram = Histogram.from_counts(2, np.arange(4), np.array([0, 9, 0, 3]))
    leaves = plan_leaves(histogram, histogram.rows, 9)
    assert as_tuples(leaves) == [(2, 1, 9, 9), (2, 3, 3, 3)]
    assert len(plan_leaves(histogram_of(np.empty(0, np.int64), 3), np.empty(0, np.int64), 5)) == 0


def test_rows_whose_bytes_round_to_nothing_have_a_leaf() -> None:
    histogram = Histogram.from_counts(2, np.array([1]), np.array([3]))
    assert as_tuples(plan_leaves(histogram, np.array([0]), 5)) == [(0, 0, 3, 0)]


@pytest.mark.parametrize(("ra", "dec"), [(83.6331, 22.0145), (0.0, -90.0), (359.9999, 89.9999)])
def test_too_many_rows_on_one_position_are_named_with_it(ra: float, dec: float) -> None:
    h29 = np.append(np.repeat(order29([ra], [dec]), 7), order29([10.0], [10.0]))
    histogram = deepened(h29, 3, 5)
    with pytest.raises(PlanError, match=r"share one position") as raised:
        plan_leaves(histogram, histogram.rows, 5)
    message = str(raised.value)
    assert "7 rows" in message
    assert "threshold of 5" in message
    words = message.replace(",", "").split()
    told = [float(words[words.index(name) + 1]) for name in ("ra", "dec")]
    apart = healpy.ang2vec(*told, lonlat=True) - healpy.ang2vec(ra, dec, lonlat=True)
    assert np.linalg.norm(apart) < 2e-8  # radians: what six decimals of a degree tell


def test_the_heaviest_position_of_the_whole_sky_is_named() -> None:
    h29 = np.repeat(np.array([0, 5 << 58], np.int64), [6, 9])
    histogram = deepened(h29, 3, 5)
    with pytest.raises(PlanError, match=r"holds 9 rows, over the threshold of 5 \(2 such pixels\)"):
        plan_leaves(histogram, histogram.rows, 5)


def test_a_heavy_cell_that_was_not_counted_deeper_is_an_error() -> None:
    histogram = histogram_of(np.arange(6), 4)
    with pytest.raises(
        PlanError, match=r"Norder=4, Npix=0 .* holds 6 rows, which weigh 60.*not counted deeper"
    ):
        plan_leaves(histogram, histogram.rows * 10, 5)


def test_thresholds_and_orders_that_cannot_be_are_refused() -> None:
    histogram = histogram_of(np.arange(6), 4)
    with pytest.raises(PlanError, match="threshold of 0"):
        plan_leaves(histogram, histogram.rows, 0)
    with pytest.raises(ValueError, match="below lowest_order 5"):
        plan_leaves(histogram, histogram.rows, 10, lowest_order=5)
    with pytest.raises(ValueError, match="above highest_order 1"):
        plan_leaves(histogram, histogram.rows, 10, lowest_order=2, highest_order=1)


def test_crowded_cells_are_those_that_may_still_be_split() -> None:
    histogram = deepened(np.array([0] * 6 + [1 << 54] * 2 + [11 << 58]), 3, 5, highest_order=9)
    assert histogram.order.tolist() == [9, 3, 3]
    assert crowded_cells(histogram, histogram.rows, 1, highest_order=9).tolist() == [False, True, False]
    assert crowded_cells(histogram, histogram.rows, 1).tolist() == [True, True, False]


SIZES = st.lists(st.integers(0, 1000), max_size=200).map(lambda sizes: np.array(sizes, np.int64))


@given(SIZES, st.integers(1, 3000))
def test_targets_are_runs_of_neighbours_of_about_equal_bytes(
    sizes: NDArray[np.int64], target_bytes: int
) -> None:
    target = assign_targets(sizes, target_bytes)
    assert target.dtype == np.int32
    assert len(target) == len(sizes)
    if not len(sizes):
        return
    assert target[0] == 0
    assert set(np.diff(target).tolist()) <= {0, 1}
    assert np.bincount(target, weights=sizes).max() <= target_bytes + sizes.max()
    assert target[-1] < max(1, -(-int(sizes.sum()) // target_bytes))


def test_targets_of_equal_leaves_are_equal() -> None:
    assert assign_targets(np.full(8, 10), 20).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert assign_targets(np.array([1, 1, 500, 1, 1]), 10).tolist() == [0, 0, 1, 2, 2]


def test_petabytes_do_not_overflow() -> None:
    target = assign_targets(np.full(400_000, 2_500_000_000), 5_000_000_000)
    assert target[-1] == 199_999
    assert np.bincount(target).max() <= 3
