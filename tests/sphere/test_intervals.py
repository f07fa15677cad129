"""Intervals of the curve, held against sets of pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hipslake.sphere.intervals import Intervals
from hypothesis import given
from hypothesis import strategies as st

SHIFT = 2 * (29 - 3)  # pixels down to order 3: 768 cells stand for the whole curve
PIXEL = st.integers(0, 3).flatmap(lambda order: st.tuples(st.just(order), st.integers(0, 12 * 4**order - 1)))
PIXELS = st.lists(PIXEL, max_size=12)
EVERY = np.arange(768, dtype=np.int64) << SHIFT


def cells(pixels: list[tuple[int, int]]) -> set[int]:
    return {
        cell
        for order, npix in pixels
        for cell in range(npix << 2 * (3 - order), (npix + 1) << 2 * (3 - order))
    }


def held(intervals: Intervals) -> set[int]:
    return set((EVERY[intervals.hold(EVERY)] >> SHIFT).tolist())


@given(pixels=PIXELS, asked=st.lists(PIXEL, min_size=1, max_size=12))
def test_intervals_are_the_union_of_their_pixels(
    pixels: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    inside = Intervals.of(pixels)
    assert held(inside) == cells(pixels)
    assert (inside.start[1:] > inside.stop[:-1]).all()
    start = np.array([npix << 2 * (29 - order) for order, npix in asked])
    stop = np.array([(npix + 1) << 2 * (29 - order) for order, npix in asked])
    touched = [bool(cells([pixel]) & cells(pixels)) for pixel in asked]
    assert inside.touch(start, stop).tolist() == touched
    assert held(inside.within(int(start[0]), int(stop[0]))) == cells(pixels) & cells(asked[:1])
    assert inside.sky_fraction == len(cells(pixels)) / 768


@given(pixels=PIXELS, others=PIXELS)
def test_what_two_have_in_common(pixels: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    common = Intervals.of(pixels).common(Intervals.of(others))
    assert held(common) == cells(pixels) & cells(others)
    assert (common.start < common.stop).all()
    assert (common.start[1:] > common.stop[:-1]).all()


@given(pixels=PIXELS, number=st.integers(1, 15))
def test_fewer_intervals_hold_more_and_close_the_narrowest_gaps(
    pixels: list[tuple[int, int]], number: int
) -> None:
    exact = Intervals.of(pixels)
    few = exact.at_most(number)
    assert len(few) == min(number, len(exact))
    assert held(exact) <= held(few)
    gaps = np.sort(exact.start[1:] - exact.stop[:-1])
    closed = gaps[: max(0, len(exact) - number)].sum()
    assert (few.stop - few.start).sum() == (exact.stop - exact.start).sum() + closed


@given(pixels=PIXELS)
def test_pixel_ranges_are_the_intervals_in_as_few_pixels_as_will_do(pixels: list[tuple[int, int]]) -> None:
    ranges = Intervals.of(pixels).pixel_ranges()
    listed = [(order, npix) for order, runs in ranges.items() for a, b in runs for npix in range(a, b + 1)]
    assert sum(len(cells([pixel])) for pixel in listed) == len(cells(listed))
    assert cells(listed) == cells(pixels)
    for order, npix in listed:
        assert order == 0 or not {(order, npix >> 2 << 2 | child) for child in range(4)} <= set(listed)


def test_a_pixel_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="no pixel of order 2 with number 192"):
        Intervals.of([(2, 191), (2, 192)])
