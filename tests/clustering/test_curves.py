"""Curves: published vectors, and what makes them curves: order, injectivity, adjacency, locality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hipslake.clustering.curves import (
    MOST_LOOKED_UP,
    Curve,
    hilbert_index,
    hilbert_of_interleaved,
    interleave_bits,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray


def cube(columns: int, bits: int) -> NDArray[np.uint64]:
    """Every cell of a cube."""
    return np.array(list(itertools.product(range(2**bits), repeat=columns)), np.uint64)


@pytest.mark.parametrize(
    ("ids", "key"),
    [  # of Delta Lake's tests of InterleaveBits; of three columns the first 8 of 12 bytes
        ((0x000FF0FF, 0xFFF00F00), 0x555555AAAA55AAAA),
        ((0xFF00, 0x00FF, 0x0000), 0x0000000000009249),
        ((0xFFFFFFFF, 0), 0xAAAAAAAAAAAAAAAA),
        ((0, 0xFFFFFFFF), 0x5555555555555555),
        ((123456789,), 123456789),
    ],
)
def test_bits_are_interleaved_as_delta_lake_does(ids: tuple[int, ...], key: int) -> None:
    assert interleave_bits(np.array([ids], np.uint64), 32).tolist() == [key]


def test_all_bits_of_three_short_columns_are_kept() -> None:
    # The lower half of the vector above.
    assert interleave_bits(np.array([[0xFF00, 0x00FF, 0]], np.uint64), 16).tolist() == [0x924924492492]


@pytest.mark.parametrize(
    ("ids", "bits", "place"),
    [
        ((5, 10, 20), 5, 7865),  # of Skilling's paper
        ((0, 0), 1, 0),  # the first curve of Hilbert's own figure
        ((0, 1), 1, 1),
        ((1, 1), 1, 2),
        ((1, 0), 1, 3),
    ],
)
def test_hilbert_index_gives_published_places(ids: tuple[int, ...], bits: int, place: int) -> None:
    assert hilbert_index(np.array([ids], np.uint64), bits).tolist() == [place]


@pytest.mark.parametrize(("columns", "bits"), [(1, 9), (2, 6), (3, 4)])
def test_looked_up_places_are_those_of_skilling_in_every_cell(columns: int, bits: int) -> None:
    cells = cube(columns, bits)
    found = hilbert_of_interleaved(interleave_bits(cells, bits).view(np.int64), columns, bits)
    assert found.tolist() == hilbert_index(cells, bits).tolist()


@given(st.integers(1, MOST_LOOKED_UP), st.data())
def test_looked_up_places_are_those_of_skilling_of_any_bits(columns: int, data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 63 // columns))
    ids = st.lists(st.integers(0, 2**bits - 1), min_size=columns, max_size=columns)
    points = np.array(data.draw(st.lists(ids, min_size=1, max_size=20)), np.uint64)
    places = interleave_bits(points, bits).view(np.int64)
    assert hilbert_of_interleaved(places, columns, bits).tolist() == hilbert_index(points, bits).tolist()


@given(st.integers(1, 5), st.integers(1, 12), st.data())
def test_interleaved_bits_are_those_of_python_strings(columns: int, bits: int, data: st.DataObject) -> None:
    point = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=columns, max_size=columns))
    written = [f"{number:0{bits}b}" for number in point]
    expected = "".join(digit for level in zip(*written, strict=True) for digit in level)
    assert interleave_bits(np.array([point], np.uint64), bits).tolist() == [int(expected[:64], 2)]


@pytest.mark.parametrize(("columns", "bits"), [(1, 6), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2), (6, 2)])
@pytest.mark.parametrize("curve", Curve)
def test_a_curve_visits_every_cell_once(curve: Curve, columns: int, bits: int) -> None:
    keys = curve.keys(cube(columns, bits), bits)
    assert sorted(keys.tolist()) == list(range(2 ** (columns * bits)))


@pytest.mark.parametrize(("columns", "bits"), [(1, 6), (2, 6), (3, 4), (4, 3), (5, 2), (6, 2)])
def test_neighbours_on_the_hilbert_curve_share_a_face(columns: int, bits: int) -> None:
    cells = cube(columns, bits)
    along = cells[np.argsort(hilbert_index(cells, bits))].astype(np.int64)
    assert (np.abs(np.diff(along, axis=0)).sum(axis=1) == 1).all()


@given(st.integers(2, 4), st.data())
def test_z_order_keeps_the_order_of_points_that_dominate_each_other(
    columns: int, data: st.DataObject
) -> None:
    bits = 8
    axis = st.lists(st.integers(0, 2**bits - 1), min_size=columns, max_size=columns)
    one, other = np.array(data.draw(axis), np.uint64), np.array(data.draw(axis), np.uint64)
    corners = np.array([np.minimum(one, other), np.maximum(one, other)])
    low, high = interleave_bits(corners, bits)
    assert low <= high
    for point in (one, other):
        assert low <= interleave_bits(point[None, :], bits)[0] <= high


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.parametrize("columns", [2, 3])
def test_a_run_of_the_curve_that_fills_a_cell_is_that_cell(curve: Curve, columns: int) -> None:
    bits, coarse = 4, 2
    cells = cube(columns, bits)
    fine = curve.keys(cells, bits)
    above = curve.keys(cells >> np.uint64(bits - coarse), coarse)
    assert (fine >> np.uint64(columns * (bits - coarse)) == above).all()


@pytest.mark.parametrize(("curve", "most"), [(Curve.Z_ORDER, 0.4), (Curve.HILBERT, 0.3)])
def test_runs_of_the_curve_are_compact(curve: Curve, most: float) -> None:
    """Of 64 files, each spans a small part of both axes; a sort by one column would span all of the other."""
    bits = 7
    cells = cube(2, bits)
    along = cells[np.argsort(curve.keys(cells, bits))].reshape(50 + 14, -1, 2).astype(float)
    spans = (along.max(axis=1) - along.min(axis=1) + 1) / 2**bits
    assert spans.mean() < most


@pytest.mark.parametrize("curve", Curve)
def test_ids_that_do_not_fit_are_refused(curve: Curve) -> None:
    with pytest.raises(ValueError, match="id 16 does not fit into 4 bits"):
        curve.keys(np.array([[1, 16]], np.uint64), 4)
    with pytest.raises(ValueError, match="at least one column"):
        curve.keys(np.empty((3, 0), np.uint64), 4)
    with pytest.raises(ValueError, match="0 bits"):
        curve.keys(np.array([[0]], np.uint64), 0)
