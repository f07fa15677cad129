"""Placement: files of equal size along the curve, from a sample."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import NOISE_BITS, FileBounds, Placement
from hipslake.clustering.range_ids import RangeBounds
from hypothesis import given
from hypothesis import strategies as st


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=40),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40),
    st.integers(1, 50),
)
def test_a_row_lies_in_the_file_whose_end_is_the_first_at_or_above_it(
    sample: list[tuple[int, int]], rows: list[tuple[int, int]], num_files: int
) -> None:
    keys, noise = np.array(sample, np.int64).reshape(-1, 2).T
    bounds = FileBounds.of_sample(keys.astype(np.uint64), noise, num_files)
    ordered = sorted(sample)
    ends = [ordered[-(-n * len(ordered) // num_files) - 1] for n in range(1, num_files)] if ordered else []
    keys, noise = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [sum(end < row for end in ends) for row in rows]
    assert bounds.files_of(keys.astype(np.uint64), noise.take).tolist() == expected


@pytest.mark.parametrize("curve", Curve)
def test_files_are_of_equal_size_and_runs_of_the_curve(curve: Curve) -> None:
    random = np.random.default_rng(0)
    rows = pa.table({"x": random.lognormal(size=100_000), "y": random.normal(size=100_000)})
    placement = Placement.plan(RangeBounds.of_sample(rows.slice(0, 20_000), ["x", "y"]), curve, 16)
    files, keys = placement.place(rows, np.arange(100_000))
    sizes = np.bincount(files, minlength=16)
    assert sizes.min() > 0.85 * 100_000 / 16
    assert sizes.max() < 1.15 * 100_000 / 16
    highest = [keys[files == file].max() for file in range(16)]
    lowest = [keys[files == file].min() for file in range(16)]
    assert all(high <= low for high, low in zip(highest[:-1], lowest[1:], strict=True))


def test_rows_with_equal_keys_are_split_by_noise_and_stay_together_without() -> None:
    rows = pa.table({"x": np.zeros(10_000)})
    bounds = RangeBounds.of_sample(rows, ["x"])
    files, _ = Placement.plan(bounds, Curve.Z_ORDER, 4).place(rows, np.arange(10_000))
    assert np.bincount(files).min() > 2300
    files, _ = Placement.plan(bounds, Curve.Z_ORDER, 4, add_noise=False).place(rows, np.arange(10_000))
    assert len(set(files.tolist())) == 1


def test_the_same_seed_places_rows_alike_and_another_one_does_not() -> None:
    rows = pa.table({"x": np.repeat([1, 2], 500)})
    bounds = RangeBounds.of_sample(rows, ["x"])

    def files(seed: int) -> list[int]:
        placement = Placement.plan(bounds, Curve.HILBERT, 4, seed=seed)
        return placement.place(rows, np.arange(1000))[0].tolist()

    assert files(7) == files(7)
    assert files(7) != files(8)


def test_a_row_is_placed_alike_in_whatever_batch_it_comes() -> None:
    rows = pa.table({"x": np.repeat([1, 2, 3], 100)})
    placement = Placement.plan(RangeBounds.of_sample(rows, ["x"]), Curve.Z_ORDER, 7, seed=3)
    whole, _ = placement.place(rows, np.arange(300))
    parts = [placement.place(rows.slice(n, 50), np.arange(n, n + 50))[0] for n in range(0, 300, 50)]
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_one_file_and_an_empty_sample_take_all_rows() -> None:
    rows = pa.table({"x": [3, 1, 2]})
    one = Placement.plan(RangeBounds.of_sample(rows, ["x"]), Curve.Z_ORDER, 1)
    none = Placement.plan(RangeBounds.of_sample(rows.slice(0, 0), ["x"]), Curve.Z_ORDER, 3)
    assert one.place(rows, np.arange(3))[0].tolist() == [0, 0, 0]
    assert none.place(rows, np.arange(3))[0].tolist() == [0, 0, 0]


def test_noise_fills_its_range_evenly() -> None:
    from hipslake.clustering.file_placement import noise_of

    noise = noise_of(np.arange(100_000), seed=1)
    assert noise.min() >= 0
    assert noise.max() < 2**NOISE_BITS
    tenths = np.bincount(noise * 10 >> NOISE_BITS, minlength=10)
    assert tenths.min() > 9_500
    assert tenths.max() < 10_500
