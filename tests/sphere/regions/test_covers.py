"""Covers hold all of their region, claim no more than is sure, and are small and few."""

from __future__ import annotations

import healpy
import numpy as np
import pytest
from hipslake.sphere.regions import Box, Cone, Moc, PixelList, Polygon, Region, parse_region
from hipslake.sphere.regions.region import _reach
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sphere.regions.skies import REGIONS, in_cover, positions_around

SKY = 129600 / np.pi  # square degrees
ARCSEC = 1 / 3600


@settings(max_examples=examples(150))
@given(region=REGIONS, seed=st.integers(0, 2**32 - 1))
def test_a_cover_holds_its_region_and_is_right_where_it_is_certain(region: Region, seed: int) -> None:
    ra, dec = positions_around(region, seed)
    covered, certain = in_cover(region, ra, dec)
    inside = region.contains(ra, dec)
    assert covered[inside].all()
    assert inside[certain].all()
    cover = region.cover()
    for part in (cover.intervals, cover.certain):
        assert (part.start < part.stop).all()
        assert (part.start[1:] > part.stop[:-1]).all()
    assert len(cover.intervals) <= 1000


@settings(max_examples=examples(100))
@given(region=REGIONS)
def test_the_text_of_a_region_is_the_region(region: Region) -> None:
    assert parse_region(str(region)) == region


@pytest.mark.parametrize(
    ("region", "area"),
    [
        (Cone(56.75, 24.12, 3), 28.27),
        (Cone(0, 90, 3), 28.27),
        (Cone(359.99, -41.81, 0.1), np.pi * 0.01),
        (Cone(266.4, -29, ARCSEC), np.pi * ARCSEC**2),
        (Cone(10, 10, 60), SKY / 4),
        (Box(350, 10, -5, 5), 20 * np.degrees(2 * np.sin(np.radians(5)))),
        (Box(0, 360, 89, 90), SKY / 2 * (1 - np.sin(np.radians(89)))),
        (Box(10, 10 + ARCSEC, 10, 10 + ARCSEC), ARCSEC**2 * np.cos(np.radians(10))),
        (Polygon([(0, 0), (90, 0), (0, 90)]), SKY / 8),
        (Polygon([(10, 0), (10 + ARCSEC, 0), (10, ARCSEC)]), ARCSEC**2 / 2),
    ],
    ids=str,
)
def test_covers_are_tight(region: Region, area: float) -> None:
    cover = region.cover()
    assert area <= cover.intervals.sky_fraction * SKY * (1 + 1e-9)
    assert cover.intervals.sky_fraction * SKY < 1.25 * area
    assert cover.certain.sky_fraction * SKY > 0.75 * area
    assert len(cover.intervals) < 500


def test_a_point_is_covered_by_a_few_of_the_smallest_pixels() -> None:
    for region in (Cone(10, 20, 0), Box(10, 10, 20, 20), Cone(0, 90, 0), Cone(0, 0, 0)):
        cover = region.cover()
        assert 0 < (cover.intervals.stop - cover.intervals.start).sum() <= 16
        assert len(cover.certain) == 0


@pytest.mark.parametrize("region", [Cone(1, 2, 180), Box(0, 360, -90, 90), Box(-180, 180, -90, 90)], ids=str)
def test_the_whole_sky_is_one_interval(region: Region) -> None:
    cover = region.cover()
    assert cover.intervals.start.tolist() == cover.certain.start.tolist() == [0]
    assert cover.intervals.stop.tolist() == cover.certain.stop.tolist() == [12 << 58]


def test_pixels_are_their_own_cover() -> None:
    for region in (PixelList([(2, 5), (2, 6), (9, 77)]), parse_region("moc 2/5-6 9/77")):
        assert isinstance(region, PixelList | Moc)
        cover = region.cover()
        assert cover.intervals == cover.certain
        ra, dec = healpy.pix2ang([4, 4, 512, 512], [5, 112, 77, 78], nest=True, lonlat=True)
        assert region.contains(ra, dec).tolist() == [True, False, True, False]
    assert PixelList([]).cover().intervals.sky_fraction == 0


@pytest.mark.parametrize("order", [0, 1, 2, 5, 12, 29])
def test_no_corner_of_a_pixel_is_farther_than_it_reaches(order: int) -> None:
    assert _reach(order) >= healpy.max_pixrad(1 << order)
    assert _reach(order) < 1.001 * healpy.max_pixrad(1 << order)
