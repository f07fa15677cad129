"""Which positions lie in a region: held against astropy, and against the plain meaning of the words."""

from __future__ import annotations

import numpy as np
from astropy.coordinates import SkyCoord
from hipslake.sphere.regions import Box, Cone, Polygon
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sphere.regions.skies import CONES, boxes, moved, polygons, positions_around

SEEDS = st.integers(0, 2**32 - 1)
MAS = 1e-3 / 3600
NEAR_DEG = 2e-9 / 3600  # what lies so near to a border may go either way


@settings(max_examples=examples(100))
@given(cone=CONES, seed=SEEDS)
def test_a_cone_is_what_astropy_separates_by_no_more(cone: Cone, seed: int) -> None:
    ra, dec = positions_around(cone, seed)
    away = SkyCoord(ra, dec, unit="deg").separation(SkyCoord(cone.ra, cone.dec, unit="deg")).deg
    sure = np.abs(away - cone.radius_deg) > NEAR_DEG + 1e-15
    assert (cone.contains(ra, dec) == (away <= cone.radius_deg))[sure].all()


@settings(max_examples=examples(100))
@given(box=boxes(), seed=SEEDS)
def test_a_box_is_its_ranges(box: Box, seed: int) -> None:
    ra, dec = positions_around(box, seed)
    width = 360.0 if box.ra_max - box.ra_min == 360 else (box.ra_max - box.ra_min) % 360
    east = (ra - box.ra_min) % 360
    expected = (east <= width) | (np.abs(dec) == 90)
    expected &= (dec >= box.dec_min) & (dec <= box.dec_max)
    sure = np.minimum(np.abs(east - width), np.minimum(east, 360 - east)) > 1e-12
    assert (box.contains(ra, dec) == expected)[sure].all()


@settings(max_examples=examples(100))
@given(polygon=polygons(), seed=SEEDS, turn=st.integers(0, 11))
def test_a_polygon_is_the_same_from_any_vertex_in_both_directions(
    polygon: Polygon, seed: int, turn: int
) -> None:
    ra, dec = positions_around(polygon, seed)
    inside = polygon.contains(ra, dec)
    vertices = list(polygon.vertices)
    turn %= len(vertices)
    others = [vertices[turn:] + vertices[:turn], vertices[::-1], [*vertices, vertices[0]]]
    far = polygon.border(_vectors(ra, dec))[0] > 1e-13
    for other in others:
        assert (Polygon(other).contains(ra, dec) == inside)[far].all()
    assert polygon.contains(*np.array(vertices).T).all()


@settings(max_examples=examples(100))
@given(ra=st.floats(0, 360), dec=st.floats(-90, 90), size=st.floats(-7, 1.3), seed=SEEDS)
@example(ra=27.0, dec=-90.0, size=0.0, seed=46684034)  # beyond a corner, in line with an edge
def test_a_triangle_is_left_of_its_three_edges(ra: float, dec: float, size: float, seed: int) -> None:
    """In extended precision, the plain determinants are an oracle."""
    vertices = np.array(moved(ra, dec, np.array([0.0, 120.0, 240.0]), np.full(3, 10**size))).T
    polygon = Polygon(vertices.tolist())
    lon, lat = positions_around(polygon, seed)
    points, corners = _vectors(lon, lat, np.longdouble), _vectors(*vertices.T, np.longdouble)
    sides = np.stack(
        [
            np.einsum("k,nk->n", np.cross(corners[i], corners[(i + 1) % 3] - corners[i]), points)
            for i in range(3)
        ]
    )
    expected = (sides > 0).all(axis=0) | (sides < 0).all(axis=0)
    expected &= points @ corners.sum(axis=0) > 0
    far = polygon.border(_vectors(lon, lat))[0] > 1e-14
    assert (polygon.contains(lon, lat) == expected)[far].all()


def test_borders_belong_to_a_region() -> None:
    cone = Cone(359.5, 0, 1)
    assert cone.contains([0.5, 358.5, 359.5, -0.5, 719.5], [0, 0, 1, -1, 0]).all()
    box = Box(350, 10, -5, 5)
    assert box.contains([350, -10, 10, 370, 0], [0, 5, -5, 5, 5]).all()
    triangle = Polygon([(350, 0), (10, 0), (0, 80)])
    assert triangle.contains([350, 10, 0, 0, 355, 3.3, 0, 0], [0, 0, 80, 0, 0, 0, 40, 1e-12]).all()
    assert not triangle.contains([0, 5], [-1e-10, -1e-10]).any()


def test_scales_of_milliarcseconds_are_resolved() -> None:
    for ra, dec in ((0.0, 0.0), (123.456, -67.8), (359.9999999, 89.9999), (45.0, 90.0)):
        cone = Cone(ra, dec, MAS)
        bearings = np.arange(0, 360, 30.0)
        assert cone.contains(*moved(ra, dec, bearings, np.full(12, 0.999 * MAS))).all()
        assert not cone.contains(*moved(ra, dec, bearings, np.full(12, 1.001 * MAS))).any()
        square = Polygon(zip(*moved(ra, dec, np.arange(45, 360, 90.0), np.full(4, MAS)), strict=True))
        assert square.contains(*moved(ra, dec, bearings[::3], np.full(4, 0.7065 * MAS))).all()
        assert not square.contains(*moved(ra, dec, bearings[::3], np.full(4, 0.7078 * MAS))).any()


def test_without_extent_only_the_position_itself_is_inside() -> None:
    for region in (Cone(10, 20, 0), Box(10, 10, 20, 20)):
        assert region.contains([10, 370, -350], [20, 20, 20]).all()
        assert not region.contains([10 + 1e-11, 10], [20, 20 + 1e-11]).any()


def test_a_pole_belongs_to_every_box_that_reaches_it() -> None:
    box = Box(10, 20, 80, 90)
    assert box.contains([15, 200, 0], [90, 90, 90]).all()
    assert not box.contains([200, 15], [89.9999, -90]).any()


def test_a_range_of_360_degrees_is_the_whole_circle_and_one_of_0_a_line() -> None:
    every = np.arange(-360, 720, 7.7)
    assert Box(0, 360, -10, 10).contains(every, np.zeros_like(every)).all()
    assert Box(-180, 180, -10, 10).contains(every, np.zeros_like(every)).all()
    assert Box(10, 10, -10, 10).contains([10, 370, 10.001, 0], [0, 5, 0, 0]).tolist() == [1, 1, 0, 0]


def test_the_inside_of_a_polygon_is_the_smaller_side() -> None:
    around_the_pole = [(0, 10), (90, 10), (180, 10), (270, 10)]
    assert Polygon(around_the_pole).contains([0, 45, 0], [90, 12, -90]).tolist() == [True, False, False]
    beyond_the_equator = [(0, -60), (120, -60), (240, -60)]
    for vertices in (beyond_the_equator, beyond_the_equator[::-1]):
        assert Polygon(vertices).contains([0, 0], [-90, 90]).tolist() == [True, False]


def test_edges_are_great_circles() -> None:
    triangle = Polygon([(0, 60), (90, 60), (45, 0)])
    top = np.degrees(np.arctan(np.tan(np.radians(60)) / np.cos(np.radians(45))))
    assert triangle.contains([45, 45], [top - 1e-9, top + 1e-9]).tolist() == [True, False]
    over_the_pole = Polygon([(0, 60), (180, 60), (90, 60)])
    assert over_the_pole.contains([0, 90, 77], [90, 80, 90]).all()
    assert not over_the_pole.contains([270], [89.9])[0]


def test_positions_keep_their_shape_and_broadcast() -> None:
    for region in (Cone(0, 0, 5), Box(0, 5, 0, 5), Polygon([(0, 0), (5, 0), (0, 5)])):
        assert region.contains(np.zeros((2, 3)), 0.0).shape == (2, 3)
        assert region.contains(1.0, 1.0).shape == ()
        assert region.contains([], []).shape == (0,)


def test_a_polygon_of_many_vertices() -> None:
    ra = np.linspace(0, 360, 2000, endpoint=False)
    polygon = Polygon(zip(ra, 60 + 5 * np.sin(np.radians(20 * ra)), strict=True))
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(0, 360, 5000), rng.uniform(50, 70, 5000)
    edge = 60 + 5 * np.sin(np.radians(20 * lon))
    sure = np.abs(lat - edge) > 0.01
    assert (polygon.contains(lon, lat) == (lat > edge))[sure].all()


def _vectors(ra: np.ndarray, dec: np.ndarray, kind: type = np.float64) -> np.ndarray:
    lon, lat = (np.asarray(values, kind) * (np.arctan(kind(1)) / 45) for values in (ra, dec))
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
