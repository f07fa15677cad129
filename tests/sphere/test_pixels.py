"""Pixels: held against healpy at every order, and the index against hats."""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pytest
from hipslake.sphere.pixels import MAX_ORDER, Pixel, coarsen, order29, starts, stops
from hypothesis import given
from hypothesis import strategies as st

from tests.peers.running import run_peer

LONGITUDES = st.floats(-360, 720) | st.sampled_from([-360.0, -1e-300, -0.0, 0.0, 45.0, 90.0, 360.0, 720.0])
LATITUDES = st.floats(-90, 90) | st.sampled_from([-90.0, -0.0, 0.0, np.degrees(np.arcsin(2 / 3)), 90.0])
POSITIONS = st.lists(st.tuples(LONGITUDES, LATITUDES), min_size=1, max_size=20).map(np.array)
ORDERS = st.integers(0, MAX_ORDER)


@st.composite
def pixels(draw: st.DrawFn) -> Pixel:
    order = draw(ORDERS)
    return Pixel(order, draw(st.integers(0, (12 << (2 * order)) - 1)))


def uniform_sky(rows: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.array([rng.uniform(-360, 720, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))])


@given(POSITIONS)
def test_index_is_that_of_healpy(positions: np.ndarray) -> None:
    index = order29(*positions.T)
    expected = healpy.ang2pix(2**29, positions[:, 0], positions[:, 1], nest=True, lonlat=True)
    assert index.dtype == np.int64
    assert index.tolist() == expected.tolist()
    assert 0 <= index.min() <= index.max() < 12 << 58


def test_index_does_not_depend_on_the_batch() -> None:
    ra, dec = uniform_sky(70_000)
    whole = order29(ra, dec)
    assert np.array_equal(whole, healpy.ang2pix(2**29, ra, dec, nest=True, lonlat=True))
    assert np.array_equal(whole[1:30_001], order29(ra[1:30_001], dec[1:30_001]))
    assert np.array_equal(whole[::7], order29(ra[::7], dec[::7]))


@given(POSITIONS, ORDERS)
def test_coarser_pixels_hold_the_position_as_healpy_says(positions: np.ndarray, order: int) -> None:
    found = coarsen(order29(*positions.T), order)
    expected = healpy.ang2pix(1 << order, positions[:, 0], positions[:, 1], nest=True, lonlat=True)
    # On a border between pixels healpy itself names either, from order to order.
    reach = 1.1 * healpy.nside2resol(1 << order) + 1e-12
    for at in np.flatnonzero(found != expected):
        centres = healpy.pix2vec(1 << order, [found[at], expected[at]], nest=True)
        place = healpy.ang2vec(*positions[at], lonlat=True)
        assert np.linalg.norm(np.transpose(centres) - place, axis=1).max() < 1.5 * reach


@pytest.mark.parametrize("order", range(MAX_ORDER + 1))
def test_coarser_pixels_are_those_of_healpy_off_the_borders(order: int) -> None:
    ra, dec = uniform_sky(3000)
    expected = healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True)
    assert np.array_equal(coarsen(order29(ra, dec), order), expected)


def test_positions_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        order29([1.0, 2.0], [3.0])


def test_no_position_gives_no_index() -> None:
    assert order29([], []).shape == (0,)


@pytest.mark.peers
def test_index_is_that_of_hats(peers_python: str, tmp_path: Path) -> None:
    positions, rows = uniform_sky(200_000), 200_000
    borders = np.array([(ra, dec) for ra in np.arange(-360, 721, 22.5) for dec in np.arange(-90, 91, 15.0)]).T
    positions = np.concatenate([positions, borders], axis=1)
    np.save(tmp_path / "positions.npy", positions)
    script = Path(__file__).with_name("hats_index.py")
    run_peer(peers_python, script, tmp_path / "positions.npy", tmp_path / "index.npy")
    hats, ours = np.load(tmp_path / "index.npy"), order29(*positions)
    assert np.array_equal(ours[:rows], hats[:rows])
    # On an exact border hats (by cdshealpix) and healpy may name different ones of the pixels that meet.
    differing = np.flatnonzero(ours != hats)
    for index in (ours, hats):
        lon, lat = healpy.pix2ang(2**29, index[differing], nest=True, lonlat=True)
        apart = healpy.ang2vec(lon, lat, lonlat=True) - healpy.ang2vec(*positions[:, differing], lonlat=True)
        assert np.linalg.norm(apart, axis=1).max(initial=0) < 2 * healpy.nside2resol(2**29)


@given(pixels())
def test_interval_holds_the_finest_pixels_at_the_corners_of_healpy(pixel: Pixel) -> None:
    start, stop = pixel.interval
    assert (stop - start) == 4 ** (29 - pixel.order)
    assert (starts(*pixel), stops(*pixel)) == (start, stop)
    centre = healpy.pix2ang(1 << pixel.order, pixel.npix, nest=True, lonlat=True)
    first = healpy.pix2ang(2**29, start, nest=True, lonlat=True)
    assert coarsen(order29([first[0]], [first[1]]), pixel.order).tolist() == [pixel.npix]
    assert start <= order29([centre[0]], [centre[1]])[0] < stop


@given(pixels())
def test_children_tile_their_parent_along_the_curve(pixel: Pixel) -> None:
    if pixel.order == MAX_ORDER:
        with pytest.raises(ValueError, match="no children"):
            pixel.children()
        return
    children = pixel.children()
    assert all(child.parent() == pixel for child in children)
    edges = [edge for child in children for edge in child.interval]
    assert (edges[0], edges[-1]) == pixel.interval
    assert edges[1:-1:2] == edges[2::2]


def test_a_base_pixel_has_no_parent() -> None:
    with pytest.raises(ValueError, match="order 0"):
        Pixel(0, 11).parent()


def test_intervals_of_mixed_orders_broadcast() -> None:
    order, npix = np.array([0, 2, 29]), np.array([11, 5, 12 * 4**29 - 1])
    expected = [Pixel(*pixel).interval for pixel in zip(order.tolist(), npix.tolist(), strict=True)]
    assert list(zip(starts(order, npix).tolist(), stops(order, npix).tolist(), strict=True)) == expected
    assert starts(1, [0, 1]).tolist() == [0, 1 << 56]


def test_pixels_print_as_their_path_does() -> None:
    assert str(Pixel(2, 5)) == "Norder=2, Npix=5"
