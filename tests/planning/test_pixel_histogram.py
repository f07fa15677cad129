"""Histograms, held against counting one row after another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import VerificationError
from hipslake.planning.pixel_histogram import Histogram, coarser_orders, count_pixels
from hipslake.sphere.pixels import coarsen, starts
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.planning.skies import as_counts, brute_counts, deepened, histogram_of, skies

SKY = np.array([5 << 56, (5 << 56) + 1, 11 << 58, 3], np.int64)


@given(skies(), st.integers(0, 29))
def test_pixels_are_counted_as_numpy_counts_them(h29: NDArray[np.int64], order: int) -> None:
    before = h29.copy()
    npix, rows = count_pixels(h29, order)
    expected = np.unique(coarsen(h29, order), return_counts=True)
    assert (npix.dtype, rows.dtype) == (np.uint32 if order <= 14 else np.int64, np.int64)
    assert np.array_equal([npix, rows], expected)
    assert np.array_equal(h29, before)


@given(skies(), st.integers(0, 8), st.integers(1, 5), st.sampled_from([1, 5, 21]))
def test_deepened_cells_stay_sorted_disjoint_and_complete(
    h29: NDArray[np.int64], mapping: int, threshold: int, by: int
) -> None:
    histogram = deepened(h29, mapping, threshold, by=by)
    first = starts(histogram.order, histogram.npix)
    assert (np.diff(first) > 0).all()
    assert histogram.total_rows == len(h29)
    assert histogram.orders == sorted(set(histogram.order.tolist()))
    for order, npix in as_counts(histogram):
        assert as_counts(histogram)[order, npix] == brute_counts(h29, order)[order, npix]


@given(skies(), st.integers(0, 6), st.integers(1, 5))
def test_every_order_is_the_count_of_the_rows_counted_that_deep(
    h29: NDArray[np.int64], mapping: int, threshold: int
) -> None:
    histogram = deepened(h29, mapping, threshold)
    tree = starts(histogram.order, histogram.npix)
    cell_order = histogram.order[np.searchsorted(tree, h29, side="right") - 1] if len(h29) else h29
    orders = []
    for order, cells in histogram.per_order():
        orders.append(order)
        assert as_counts(cells) == brute_counts(h29[cell_order >= order], order)
        assert (np.diff(cells.npix.astype(np.int64)) > 0).all()
    assert orders == list(range(max(histogram.orders, default=0), -1, -1))


@given(skies(), st.integers(0, 6))
def test_a_table_gives_the_histogram_back(h29: NDArray[np.int64], mapping: int) -> None:
    histogram = deepened(h29, mapping, 3)
    table = histogram.to_table({"main": 7.5})
    assert table.column_names == ["order", "npix", "rows", "bytes_main"]
    assert np.array_equal(table["bytes_main"].to_numpy(), 15 * histogram.rows // 2)
    chunked = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    for again in (Histogram.from_table(table), Histogram.from_table(chunked)):
        assert as_counts(again) == as_counts(histogram)
        assert again.npix.dtype == histogram.npix.dtype


@pytest.mark.parametrize("cells", [1, 7, 1 << 20])
def test_some_cells_at_a_time_are_the_whole_table(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hipslake.planning.pixel_histogram._TABLE_CELLS", cells)
    histogram = deepened(SKY, 3, 1)
    tables = list(histogram.to_tables({"main": 7.5}))
    assert all(table.num_rows <= cells for table in tables)
    assert pa.concat_tables(tables).equals(histogram.to_table({"main": 7.5}))
    nothing = histogram.select(slice(0))
    assert [table.num_rows for table in nothing.to_tables()] == [0]


def test_all_orders_but_the_deepest_fit_into_one_table_from_0_on() -> None:
    table = coarser_orders(deepened(SKY, 3, 1))
    assert np.unique(table["order"].to_numpy()).tolist() == list(range(29))
    at_2 = table.filter(pa.compute.equal(table["order"], 2))
    assert dict(zip(at_2["npix"].to_pylist(), at_2["rows"].to_pylist(), strict=True)) == {
        npix: rows for (_, npix), rows in brute_counts(SKY, 2).items()
    }


@pytest.mark.parametrize(("order", "kind"), [(14, np.uint32), (15, np.int64)])
def test_pixels_are_numbered_in_32_bits_as_far_as_they_go(order: int, kind: type) -> None:
    last = 12 * 4**order - 1
    histogram = Histogram.from_counts(order, np.array([0, last]), np.array([1, 2]))
    assert histogram.npix.dtype == kind
    assert histogram.npix.tolist() == [0, last]
    assert [cells.npix.tolist() for _, cells in histogram.per_order()][-1] == [0, 11]


def test_an_empty_histogram_is_empty_at_every_order() -> None:
    empty = histogram_of(np.empty(0, np.int64), 10)
    assert (len(empty), empty.total_rows, empty.orders) == (0, 0, [])
    assert [len(cells) for _, cells in empty.per_order()] == [0]
    assert coarser_orders(empty).num_rows == 0


def test_a_source_that_changed_between_counts_is_told() -> None:
    histogram, crowded = histogram_of(SKY, 2), np.array([False, True, False])
    pixel = f"Norder=2, Npix={histogram.npix[1]}"
    with pytest.raises(VerificationError, match=f"{pixel} held 2 rows, but 1 .*source changed"):
        histogram.refined(crowded, histogram_of(SKY[:1], 6))


def test_finer_cells_of_another_place_are_refused() -> None:
    with pytest.raises(ValueError, match="lies in no crowded cell"):
        histogram_of(SKY, 2).refined(np.array([False, True, False]), histogram_of(SKY[:3], 6))
