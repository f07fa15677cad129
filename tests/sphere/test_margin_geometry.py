"""Margins, held against distances to boundaries that healpy itself gives."""

from __future__ import annotations

import json
from pathlib import Path

import healpy
import numpy as np
import pytest
from hipslake.sphere import faces, margin_geometry
from hipslake.sphere.margin_geometry import (
    border_of,
    borders_of,
    margin_pairs,
    rows_within,
    surroundings,
    tiles_near,
)
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel, order29, starts, stops
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.examples import examples
from tests.peers.running import run_peer
from tests.sphere.boundaries import distances

ARCSEC = np.pi / 180 / 3600
# Where three pixels meet, at the poles, on the meridian 0, on the equator, and somewhere.
TRICKY = np.array(
    [[0.0, 90.0], [0.0, -90.0], [0.0, 41.8103], [90.0, -41.8103], [0.0, 0.0], [45.0, 0.0], [45.0, 60.0]]
)


def around(ra: float, dec: float, radius: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Positions, float64[n, 2], in a cap of a radius in degrees; many of them near its middle."""
    centre = healpy.ang2vec(ra, dec, lonlat=True)
    way = np.radians(radius) * rng.uniform(size=n) ** 2
    side = np.cross(centre, rng.normal(size=(n, 3)))
    side /= np.linalg.norm(side, axis=1)[:, None]
    vectors = np.cos(way)[:, None] * centre + np.sin(way)[:, None] * side
    return np.stack(healpy.vec2ang(vectors, lonlat=True), axis=1)


def check(tiles: PixelTree, sky: NDArray[np.float64], arcsec: float) -> int:
    """Hold all pairs against brute force; give how many there are."""
    ra, dec = sky.T
    h29 = order29(ra, dec)
    pairs = margin_pairs(tiles, h29, ra, dec, arcsec)
    assert list(zip(pairs.tile, pairs.row, strict=True)) == sorted(
        set(zip(pairs.tile, pairs.row, strict=True))
    )
    vectors = healpy.ang2vec(ra, dec, lonlat=True)
    for place, pixel in enumerate(tiles):
        outside = (h29 < pixel.interval[0]) | (h29 >= pixel.interval[1])
        middle = np.array(healpy.pix2vec(1 << pixel.order, pixel.npix, nest=True))
        reach = 2 * healpy.max_pixrad(1 << pixel.order) + arcsec * ARCSEC
        close = vectors @ middle >= np.cos(min(reach, np.pi))
        away, slack = np.full(len(ra), np.pi), 0.0
        away[close], slack = distances(vectors[close], pixel)
        found = np.zeros(len(ra), bool)
        found[pairs.row[pairs.tile == place]] = True
        assert not (found & ~outside).any(), pixel
        surely = outside & (away < arcsec * ARCSEC - slack)
        maybe = outside & (away < arcsec * ARCSEC + slack)
        assert not (surely & ~found).any(), (pixel, "a row is missing")
        assert not (found & ~maybe).any(), (pixel, "a row too many")
    return len(pairs.row)


def tree_around(sky: NDArray[np.float64], orders: list[int]) -> PixelTree:
    """Leaves of different orders side by side, each position in one of them or in none."""
    taken: list[Pixel] = []
    for order, (ra, dec) in zip(orders, sky, strict=True):
        pixel = Pixel(order, int(healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True)))
        start, stop = pixel.interval
        if all(stop <= other.interval[0] or start >= other.interval[1] for other in taken):
            taken.append(pixel)
    return PixelTree([pixel.order for pixel in taken], [pixel.npix for pixel in taken])


def near_edges(tree: PixelTree, arcsec: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Positions within a few times a distance of the edges and corners of leaves."""
    found = []
    for place in rng.integers(0, len(tree), n).tolist():
        order, npix = tree[place]
        on_edge = healpy.boundaries(1 << order, npix, step=int(rng.choice([1, 7])), nest=True).T
        ra, dec = healpy.vec2ang(rng.choice(on_edge), lonlat=True)
        found.append(around(float(ra[0]), float(dec[0]), min(90.0, 3 * arcsec / 3600), 1, rng))
    return np.concatenate(found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", range(len(TRICKY)))
@pytest.mark.parametrize(
    ("order", "arcsec"),
    [(0, 10.0), (0, 30_000.0), (1, 600.0), (3, 60.0), (3, 9_000.0), (6, 3_600.0), (12, 20.0)],
)
def test_margins_are_those_of_brute_force(place: int, order: int, arcsec: float) -> None:
    rng = np.random.default_rng(place * 100 + order)
    ra, dec = TRICKY[place]
    size = np.degrees(healpy.nside2resol(1 << order))
    sky = around(ra, dec, min(90.0, 3 * size + arcsec / 3600), 300, rng)
    tree = tree_around(sky[:40], [order + extra for extra in rng.integers(0, 4, 40)])
    assert check(tree.tiling(), np.concatenate([sky, near_edges(tree, arcsec, 300, rng)]), arcsec) > 0


@settings(max_examples=examples(15))
@given(st.integers(0, 2**32 - 1), st.integers(0, 8), st.floats(0.5, 20_000.0))
def test_margins_of_any_tree_are_those_of_brute_force(seed: int, order: int, arcsec: float) -> None:
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360), np.degrees(np.arcsin(rng.uniform(-1, 1)))
    size = np.degrees(healpy.nside2resol(1 << order))
    sky = around(ra, dec, min(90.0, 2 * size + arcsec / 3600), 100, rng)
    tree = tree_around(sky[:12], [order + extra for extra in rng.integers(0, 3, 12)])
    check(tree.tiling(), np.concatenate([sky, near_edges(tree, arcsec, 100, rng)]), arcsec)


def test_margins_may_be_much_larger_than_leaves() -> None:
    sky = around(2.0, 88.0, 4.0, 300, np.random.default_rng(3))
    assert check(tree_around(sky[:8], [9] * 8).tiling(), sky, 7_200.0) > 8 * 100


@pytest.mark.parametrize(
    "pixel", [Pixel(0, 0), Pixel(0, 5), Pixel(1, 3), Pixel(1, 34), Pixel(4, 255), Pixel(9, 12345)]
)
@pytest.mark.parametrize("arcsec", [0.01, 10.0, 600.0])
def test_the_limit_is_kept_to_a_ten_millionth_of_an_arcsecond(pixel: Pixel, arcsec: float) -> None:
    """Positions are put at a known distance: outwards along the normal of a boundary that healpy gives."""
    steps = 1 << 12
    curve = healpy.boundaries(1 << pixel.order, pixel.npix, step=steps, nest=True).T
    middle = healpy.pix2vec(1 << pixel.order, pixel.npix, nest=True)
    at = np.setdiff1d(
        np.arange(40, 4 * steps, 331), np.arange(0, 4 * steps + 1, steps)[:, None] + np.arange(-39, 40)
    )
    tangent = 8 * (curve[at + 1] - curve[at - 1]) - (curve[(at + 2) % len(curve)] - curve[at - 2])
    outwards = np.cross(tangent, curve[at])
    outwards /= np.linalg.norm(outwards, axis=1)[:, None]
    outwards *= np.sign(np.sum(outwards * (curve[at] - middle), axis=1))[:, None]
    for off, expected in ((-2e-7, True), (2e-7, False)):
        way = (arcsec + off) * ARCSEC
        ra, dec = healpy.vec2ang(np.cos(way) * curve[at] + np.sin(way) * outwards, lonlat=True)
        found = rows_within(pixel, ra, dec, arcsec)
        bends_back = ~found if expected else found  # where the boundary is concave, another place is nearer
        assert bends_back.sum() == 0, (expected, np.flatnonzero(bends_back))


@pytest.mark.parametrize(
    "pixel", [Pixel(0, 0), Pixel(0, 4), Pixel(1, 1), Pixel(2, 53), Pixel(3, 0), Pixel(8, 0)]
)
def test_around_a_corner_the_margin_is_round(pixel: Pixel) -> None:
    arcsec = 5.0
    for corner in healpy.boundaries(1 << pixel.order, pixel.npix, step=1, nest=True).T:
        away = corner - np.array(healpy.pix2vec(1 << pixel.order, pixel.npix, nest=True))
        away -= (away @ corner) * corner
        away /= np.linalg.norm(away)
        for off, expected in ((-2e-7, True), (2e-7, False)):
            way = (arcsec + off) * ARCSEC
            ra, dec = healpy.vec2ang(np.cos(way) * corner + np.sin(way) * away, lonlat=True)
            assert rows_within(pixel, ra, dec, arcsec).tolist() == [expected]


def test_edges_bend_no_more_than_is_assumed() -> None:
    rng = np.random.default_rng(5)
    for order in (0, 1, 2, 5, 13):
        npix = rng.integers(0, 12 << 2 * order, 200)
        npix[:24] = np.append(np.arange(12) << 2 * order, ((np.arange(12) + 1) << 2 * order) - 1)
        edges = margin_geometry._edges_of(np.full(200, order), npix).cut()
        begin, end = edges.ends()
        strays = np.zeros(len(begin))
        for share in np.linspace(0, 1, 33)[1:-1]:
            curve = edges._at(edges.low + share * (edges.high - edges.low))
            strays = np.maximum(strays, np.linalg.norm(curve - begin - share * (end - begin), axis=1))
        assert (strays <= edges.bend() + 1e-15).all()
        assert (strays > 0.05 * edges.bend()).any()  # nor is the bound so wide that it says nothing


def test_faces_are_those_of_healpy() -> None:
    rng = np.random.default_rng(6)
    for order in (0, 3, 11, 20):
        npix = rng.integers(0, 12 << 2 * order, 500)
        face, column, row = faces.places(np.full(500, order), npix)
        side = 2.0**-order
        ours = faces.vectors_on(face, (column + 0.5) * side, (row + 0.5) * side)
        theirs = np.stack(healpy.pix2vec(1 << order, npix, nest=True), axis=1)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-15)


def test_no_way_on_the_sphere_is_shorter_than_is_assumed() -> None:
    rng = np.random.default_rng(7)
    face, x, y = rng.integers(0, 12, 200_000), *rng.uniform(size=(2, 200_000))
    x[:50_000], y[50_000:60_000] = 1 - 1e-3 * x[:50_000], 0.0
    angle, step = rng.uniform(0, 2 * np.pi, 200_000), 1e-6
    there_x, there_y = np.clip(x + step * np.cos(angle), 0, 1), np.clip(y + step * np.sin(angle), 0, 1)
    way = np.hypot(there_x - x, there_y - y)
    moved = way > step / 2
    gone = np.linalg.norm(faces.vectors_on(face, x, y) - faces.vectors_on(face, there_x, there_y), axis=1)
    stretch = (gone[moved] / way[moved]).min()
    assert faces.LEAST_STRETCH < stretch < faces.LEAST_STRETCH * 1.02


@given(st.integers(0, 6), st.data(), st.floats(1.0, 3_600.0))
def test_the_border_of_a_pixel_holds_all_that_is_near_it(
    order: int, data: st.DataObject, arcsec: float
) -> None:
    pixel = Pixel(order, data.draw(st.integers(0, (12 << 2 * order) - 1)))
    start, stop = border_of(pixel, arcsec)
    assert (start[1:] >= stop[:-1]).all()
    assert pixel.interval[0] <= start[0] < stop[-1] <= pixel.interval[1]
    rng = np.random.default_rng(order)
    h29 = np.sort(rng.integers(*pixel.interval, 300))
    vectors = np.stack(healpy.pix2vec(1 << 29, h29, nest=True), axis=1)
    away, slack = distances(vectors, pixel)
    inside = np.searchsorted(start, h29, side="right") > np.searchsorted(stop, h29, side="right")
    assert inside[away < arcsec * ARCSEC - slack].all()


def test_the_cells_along_borders_of_several_pixels_are_those_of_each() -> None:
    pixels = [Pixel(0, 4), Pixel(3, 700), Pixel(12, 9)]
    order, npix = borders_of(*np.array(pixels).T, 60.0)
    expected = [border_of(pixel, 60.0) for pixel in pixels]
    assert np.array_equal(starts(order, npix), np.concatenate([start for start, _ in expected]))
    assert np.array_equal(stops(order, npix), np.concatenate([stop for _, stop in expected]))


def test_the_border_of_a_large_pixel_is_a_small_part_of_it() -> None:
    start, stop = border_of(Pixel(2, 17), 10.0)
    first, last = Pixel(2, 17).interval
    assert 0.05 < (stop - start).sum() / (last - first) < 0.15


@pytest.mark.parametrize("arcsec", [5.0, 600.0, 20_000.0])
def test_tiles_near_are_all_that_rows_can_reach(arcsec: float) -> None:
    rng = np.random.default_rng(8)
    for ra, dec in TRICKY:
        sky = around(ra, dec, 6.0, 400, rng)
        tiles = tree_around(sky[:30], rng.integers(2, 8, 30).tolist()).tiling()
        h29 = order29(*sky.T)
        for order in (3, 9, 14):
            cells = np.unique(h29 >> 2 * (29 - order))
            near = tiles_near(tiles, np.full(len(cells), order), cells, arcsec)
            pairs = margin_pairs(tiles, h29, *sky.T, arcsec)
            assert set(pairs.tile.tolist()) | set(tiles.find(h29).tolist()) <= set(near.tolist())
            assert near.tolist() == sorted(set(near.tolist()))


def test_no_rows_have_no_margin() -> None:
    none = np.empty(0)
    pairs = margin_pairs(PixelTree([], []).tiling(), none.astype(np.int64), none, none, 10.0)
    assert len(pairs.row) == len(pairs.tile) == 0


@given(st.lists(st.tuples(st.integers(0, 29), st.floats(0, 1, exclude_max=True)), max_size=12))
def test_a_tiling_covers_every_place_once(drawn: list[tuple[int, float]]) -> None:
    taken: list[Pixel] = []
    for order, share in drawn:
        pixel = Pixel(order, int(share * (12 << 2 * order)))
        start, stop = pixel.interval
        if all(stop <= other.interval[0] or start >= other.interval[1] for other in taken):
            taken.append(pixel)
    tree = PixelTree([pixel.order for pixel in taken], [pixel.npix for pixel in taken])
    tiles = tree.tiling()
    assert tiles.start[0] == 0
    assert tiles.stop[-1] == 12 << 58
    assert (tiles.start[1:] == tiles.stop[:-1]).all()
    rest = tree.complement()
    for pixel in rest:  # none could be coarser
        if pixel.order:
            start, stop = pixel.parent().interval
            assert ((tree.start < stop) & (tree.stop > start)).any()
    assert len(tiles) == len(rest) + len(tree)


@pytest.mark.peers
def test_the_complement_is_the_negative_tree_of_hats(peers_python: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    sky = around(10.0, 40.0, 90.0, 60, rng)
    tree = tree_around(sky, rng.integers(0, 9, 60).tolist())
    script = Path(__file__).with_name("hats_negative.py")
    pixels = json.dumps([[pixel.order, pixel.npix] for pixel in tree])
    told = run_peer(peers_python, script, stdin=pixels)
    assert {tuple(pixel) for pixel in json.loads(told)} == set(tree.complement())


@given(
    place=st.integers(0, len(TRICKY) - 1),
    seed=st.integers(0, 2**20),
    order=st.integers(0, 12),
    arcsec=st.sampled_from([0.01, 1.0, 600.0, 20_000.0]),
    cut=st.booleans(),
)
@settings(max_examples=examples(60))
def test_the_surroundings_of_a_stretch_hold_all_that_is_near_it(
    place: int, seed: int, order: int, arcsec: float, cut: bool
) -> None:
    """Positions that are moved by up to the distance, from within the stretch, in any direction."""
    rng = np.random.default_rng(seed)
    here = around(*TRICKY[place], np.degrees(healpy.nside2resol(1 << order)), 300, rng)
    h29 = order29(*here.T)
    start, stop = Pixel(order, int(h29[0] >> 2 * (29 - order))).interval
    if cut:  # no pixel
        start, stop = sorted(rng.integers(start, stop, 2).tolist())
        stop += 1
    inside = np.flatnonzero((h29 >= start) & (h29 < stop))
    found = surroundings(start, stop, arcsec)
    assert found.hold(h29[inside]).all()
    moved = [around(*here[at], arcsec / 3600, 5, rng) for at in inside.tolist()]
    if moved:
        assert found.hold(order29(*np.concatenate(moved).T)).all()
    assert len(found) < 5000
