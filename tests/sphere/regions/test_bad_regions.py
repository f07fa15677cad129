"""What is no region is an error of ours, that says why."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hipslake.errors import RegionError
from hipslake.sphere.regions import Box, Cone, PixelList, Polygon, parse_region
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cone(10, 20, -1), r"radius of a cone, degrees, is -1, outside \[0, 180\]"),
        (lambda: Cone(10, 20, 181), "radius"),
        (lambda: Cone(10, 20, math.nan), "radius of a cone, degrees, is nan"),
        (lambda: Cone(10, 91, 1), r"dec of a cone, degrees, is 91, outside \[-90, 90\]"),
        (lambda: Cone(math.inf, 0, 1), "ra of a cone, degrees, is inf"),
        (lambda: Cone("ten", 0, 1), "ra of a cone, degrees, is a number, not 'ten'"),
        (lambda: Cone(10, None, 1), "dec of a cone"),
        (lambda: Box(0, 10, 5, -5), "runs upwards, not from 5 to -5"),
        (lambda: Box(0, 361, 0, 1), "more than the whole circle"),
        (lambda: Box(0, 10, -91, 1), "dec_min of a box"),
        (lambda: Box(0, 1000, 0, 1), "ra_max of a box"),
        (lambda: Polygon([(0, 0), (1, 1)]), "3 to 2000 vertices, not 2"),
        (lambda: Polygon([(0, 0), (1, 1), (0, 0)]), "vertices, not 2"),
        (lambda: Polygon([]), "vertices, not 0"),
        (lambda: Polygon([(i / 10, i % 2) for i in range(2001)]), "not 2001; give a MOC"),
        (lambda: Polygon([(0, 0), (1, 1), (2,)]), r"vertex 3 of a polygon is \(ra, dec\)"),
        (lambda: Polygon([(0, 0), (1, 95), (2, 0)]), "dec of vertex 2 of a polygon"),
        (lambda: Polygon([(0, 0), (5, 0), (5, 0), (0, 5)]), r"2 \(5, 0\) and 3 \(5, 0\) are one point"),
        (lambda: Polygon([(0, 90), (50, 90), (20, 0)]), "are one point"),
        (lambda: Polygon([(0, 0), (180, 0), (90, 50)]), "are antipodes"),
        (lambda: Polygon([(0, 20), (180, -20), (90, 50)]), "are antipodes"),
        (lambda: Polygon([(0, 0), (10, 10), (10, 0), (0, 10)]), r"1 \(0, 0\) and 3 \(10, 0\) cross"),
        (lambda: Polygon([(0, 0), (10, 0), (5, 0)]), "touch each other"),
        (lambda: Polygon([(0, 0), (5, 0), (10, 0)]), "touch each other"),
        (lambda: Polygon([(0, 0), (10, 0), (10, 10), (5, 0), (0, 10)]), "touch each other"),
        (lambda: Polygon([(0, 0), (10, 0), (5, 5), (10, 10), (0, 10), (5, 5)]), "touch each other"),
        (lambda: Polygon([(0, 0), (120, 0), (240, 0)]), "half of the sky"),
        (lambda: PixelList([(2, 192)]), "no pixel of order 2 with number 192"),
        (lambda: PixelList([(30, 0)]), "no pixel of order 30"),
        (lambda: PixelList([(0, -1)]), "no pixel"),
        (lambda: PixelList([(29, 2**70)]), "pixels"),
        (lambda: PixelList([(2.5, 1)]), r"two whole numbers, not \(2.5, 1\)"),
        (lambda: PixelList([5]), "two whole numbers, not 5"),
        (lambda: PixelList([("2", 1)]), "two whole numbers"),
    ],
)
def test_what_is_no_region_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(RegionError, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("cone 56.75 24.12 3deg", Cone(56.75, 24.12, 3)),
        ("  CONE 56.75, -24.12 , 30 arcmin ", Cone(56.75, -24.12, 0.5)),
        ("cone -1e1 +.5 36arcsec", Cone(-10, 0.5, 0.01)),
        ("cone 1. 2 3600000mas", Cone(1, 2, 1)),
        ("box ra 350..10 dec -5..5", Box(350, 10, -5, 5)),
        ("box ra -10 .. 10, dec -.5...5", Box(-10, 10, -0.5, 0.5)),
        ("box  ra 0..360  dec -90..90", Box(0, 360, -90, 90)),
        ("polygon 10 0, 20 0, 15 10", Polygon([(10, 0), (20, 0), (15, 10)])),
        ("polygon 10 0,20 -1e-3,15 10", Polygon([(10, 0), (20, -0.001), (15, 10)])),
        ("pixels 2/5 3/100", PixelList([(2, 5), (3, 100)])),
        ("pixels 2/5-6,8 3/100", PixelList([(2, 5), (2, 6), (2, 8), (3, 100)])),
    ],
)
def test_texts_that_people_write(text: str, region: object) -> None:
    assert parse_region(text) == region


def test_the_forms_of_mocs() -> None:
    for text in ("moc 3/", "pixels 0/"):
        empty = parse_region(text)
        assert len(empty.cover().intervals) == 0
        assert parse_region(str(empty)) == empty
    one = parse_region("moc 3/1-4,7 5/9")
    for text in (
        "moc 3/1 2 3 4 7 5/9",
        "moc 3/7,1-2,3-4 5/9 8/",
        "moc 5/9,\n 3/1-4 3/7",
        "moc 3/1-4 5/112-127 5/9",
    ):
        assert parse_region(text) == one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no known kind; write one of: cone 56.75"),
        ("circle 1 2 3deg", "'circle 1 2 3deg' is of no known kind"),
        ("cone 56.75 24.12 3", "is not understood; write cone 56.75 24.12 3deg"),
        ("cone 56.75 24.12", "not understood"),
        ("cone 1 2 3 4deg", "not understood"),
        ("cone 1 2 3'", "not understood"),
        ("cone 1 2 nan deg", "not understood"),
        ("cone 1 99 3deg", "dec of a cone, degrees, is 99"),
        ("box 350..10 -5..5", "write box ra"),
        ("box ra 350-10 dec -5..5", "write box ra"),
        ("box ra 0..400 dec 0..1", "more than the whole circle"),
        ("polygon", "write polygon"),
        ("polygon 1 2 3 4 5 6", "write polygon"),
        ("polygon 1 2, 3 4", "vertices, not 2"),
        ("moc", "write moc"),
        ("moc 5", "write moc"),
        ("moc 3/1..4", "write moc"),
        ("moc 3/9999", "there are no pixels 9999 of order 3; they are 0 to 767"),
        ("moc 3/4-1", "there are no pixels 4-1"),
        ("moc 30/1", "there is no order 30"),
        ("moc 3/99999999999999999999", "write moc"),
        ("pixels", "write pixels"),
        ("pixels 29/0-1000000000000", "more than 100000 pixels"),
        ("pixels 2/5 3/-1", "write pixels"),
        ("polygon " + "1 2, " * 1000, r"polygon 1 2, 1 2.*\.\.\.' is not understood"),
    ],
)
def test_texts_that_are_no_region(text: str, message: str) -> None:
    with pytest.raises(RegionError, match=message):
        parse_region(text)


@given(st.text(max_size=60))
def test_any_text_is_a_region_or_an_error_of_ours(text: str) -> None:
    for prefix in ("", "cone ", "box ra ", "polygon ", "moc ", "pixels "):
        try:
            parse_region(prefix + text)
        except RegionError:
            continue
