"""Pixel trees, held against comparisons of every pixel with every other."""

from __future__ import annotations

import numpy as np
import pytest
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER, Pixel
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def disjoint_pixels(draw: st.DrawFn) -> list[Pixel]:
    """Pixels made by splitting some base pixels a few times, with some left out, shuffled."""
    found = [Pixel(0, npix) for npix in draw(st.sets(st.integers(0, 11), max_size=4))]
    for _ in range(draw(st.integers(0, 40))):
        if not found:
            break
        pixel = found.pop(draw(st.integers(0, len(found) - 1)))
        if pixel.order < MAX_ORDER:
            found += [child for child in pixel.children() if draw(st.booleans())]
    return draw(st.permutations(found))


def tree_of(pixels: list[Pixel]) -> PixelTree:
    return PixelTree([pixel.order for pixel in pixels], [pixel.npix for pixel in pixels])


@given(disjoint_pixels())
def test_tree_holds_the_pixels_along_the_curve(pixels: list[Pixel]) -> None:
    tree = tree_of(pixels)
    assert list(tree) == sorted(pixels, key=lambda pixel: pixel.interval)
    assert len(tree) == len(pixels)
    assert tree == tree_of(pixels[::-1])
    assert [tree[at] for at in range(len(tree))] == list(tree)


@given(disjoint_pixels(), st.lists(st.integers(0, 12 * 4**29 - 1), max_size=10))
def test_find_is_the_pixel_that_holds_the_position(pixels: list[Pixel], anywhere: list[int]) -> None:
    tree = tree_of(pixels)
    edges = [
        edge for pixel in pixels for edge in (pixel.interval[0] - 1, pixel.interval[0], pixel.interval[1])
    ]
    asked = [h29 for h29 in anywhere + edges if 0 <= h29 < 12 * 4**29]
    found = tree.find(np.array(asked, np.int64))
    expected = [[p.interval[0] <= h29 < p.interval[1] for p in tree] for h29 in asked]
    assert found.tolist() == [row.index(True) if any(row) else -1 for row in expected]


@given(disjoint_pixels(), st.integers(0, MAX_ORDER), st.data())
def test_a_pixel_over_others_is_refused(pixels: list[Pixel], order: int, data: st.DataObject) -> None:
    more = Pixel(order, data.draw(st.integers(0, (12 << (2 * order)) - 1)))
    start, stop = more.interval
    overlaps = any(start < other.interval[1] and other.interval[0] < stop for other in pixels)
    if overlaps:
        with pytest.raises(ValueError, match="overlap"):
            tree_of([*pixels, more])
    else:
        assert len(tree_of([*pixels, more])) == len(pixels) + 1


@pytest.mark.parametrize(("order", "npix"), [(0, 12), (0, -1), (-1, 0), (30, 0), (29, 12 * 4**29)])
def test_pixels_that_do_not_exist_are_refused(order: int, npix: int) -> None:
    with pytest.raises(ValueError, match=f"no pixel of order {order} with number {npix}"):
        PixelTree([3, order], [0, npix])


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        PixelTree([1, 2], [3])


def test_an_empty_tree_holds_nothing() -> None:
    assert PixelTree([], []).find([0, 5]).tolist() == [-1, -1]


def test_the_whole_sky_at_the_finest_order_does_not_overflow() -> None:
    tree = PixelTree([0] * 11 + [29], [*range(11), 12 * 4**29 - 1])
    assert tree.find([12 * 4**29 - 1, 12 * 4**29 - 2]).tolist() == [11, -1]
