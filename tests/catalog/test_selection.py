"""Which columns, groups and stretches of the curve a read needs, held against sets of pixels."""

from __future__ import annotations

import numpy as np
from hipslake.catalog.selection import Intervals, select
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.publishing import Published

SHIFT = 2 * (29 - 3)  # pixels down to order 3: 768 cells stand for the whole curve
PIXEL = st.integers(0, 3).flatmap(lambda order: st.tuples(st.just(order), st.integers(0, 12 * 4**order - 1)))


def cells(pixels: list[tuple[int, int]]) -> set[int]:
    return {
        cell
        for order, npix in pixels
        for cell in range(npix << 2 * (3 - order), (npix + 1) << 2 * (3 - order))
    }


@given(pixels=st.lists(PIXEL, max_size=12), asked=st.lists(PIXEL, min_size=1, max_size=12))
def test_intervals_are_the_union_of_their_pixels(
    pixels: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    inside = Intervals.of(pixels)
    every = np.arange(768, dtype=np.int64) << SHIFT
    assert set((every[inside.hold(every)] >> SHIFT).tolist()) == cells(pixels)
    assert (inside.start[1:] > inside.stop[:-1]).all()
    start = np.array([npix << 2 * (29 - order) for order, npix in asked])
    stop = np.array([(npix + 1) << 2 * (29 - order) for order, npix in asked])
    touched = [bool(cells([pixel]) & cells(pixels)) for pixel in asked]
    assert inside.touch(start, stop).tolist() == touched
    part = inside.within(int(start[0]), int(stop[0]))
    assert set((every[part.hold(every)] >> SHIFT).tolist()) == cells(pixels) & cells(asked[:1])


def test_as_few_groups_as_will_do_are_read(grouped: Published) -> None:
    metadata = grouped.metadata
    assert select(metadata, ["id"]).columns == {"main": ["id"]}
    assert select(metadata, ["mag"]).columns == {"details": ["mag"]}
    assert select(metadata, ["_healpix_29", "mag"]).columns == {"details": ["_healpix_29", "mag"]}
    assert select(metadata, ["_healpix_29"]).columns == {"main": ["_healpix_29"]}
    assert select(metadata, ["_row", "mag", "id"]).columns == {"main": ["_row", "id"], "details": ["mag"]}
    assert select(metadata, [], [("note", "=", "x")]).columns == {"details": ["note"]}
