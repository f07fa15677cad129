"""Skipping: files touched, and overlap depth, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hipslake.clustering.layout_quality import FileBoxes, quality
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

number = st.floats(0, 1)


@settings(max_examples=examples(50))
@given(st.integers(1, 3), st.data())
def test_touched_files_are_those_whose_bounds_meet_the_query(columns: int, data: st.DataObject) -> None:
    def boxes(most: int) -> np.ndarray:
        corner = st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=2, max_size=2)
        return np.array(data.draw(st.lists(corner, min_size=1, max_size=most)))

    files, queries = np.sort(boxes(8), axis=1), np.sort(boxes(8), axis=1)
    expected = [
        sum(
            all(file[0, c] <= query[1, c] and query[0, c] <= file[1, c] for c in range(columns))
            for file in files
        )
        for query in queries
    ]
    found = FileBoxes(files[:, 0], files[:, 1]).touched(queries[:, 0], queries[:, 1])
    assert found.tolist() == expected


def test_boxes_of_rows_leave_out_empty_files_and_missing_values() -> None:
    points = np.array([[1.0, math.nan], [3.0, 5.0], [2.0, 4.0], [9.0, math.nan]])
    boxes = FileBoxes.of_rows(points, np.array([0, 0, 0, 7]))
    np.testing.assert_array_equal(boxes.low, [[1, 4], [9, math.nan]])
    np.testing.assert_array_equal(boxes.high, [[3, 5], [9, math.nan]])


def test_a_file_without_values_is_met_by_queries_of_other_columns_only() -> None:
    boxes = FileBoxes(np.array([[0.0, math.nan]]), np.array([[1.0, math.nan]]))
    infinite = np.array([[0.5, -math.inf]]), np.array([[0.5, math.inf]])
    assert boxes.touched(*infinite).tolist() == [1]
    assert boxes.touched(np.array([[0.5, 0.0]]), np.array([[0.5, 1.0]])).tolist() == [0]


def test_a_grid_of_files_overlaps_nowhere_and_equal_files_everywhere() -> None:
    corner = np.stack(np.meshgrid(np.arange(4), np.arange(4)), axis=-1).reshape(-1, 2) / 4
    grid = quality(FileBoxes(corner, corner + 0.25 - 1e-9))
    assert grid.depth == 1
    assert grid.touched == pytest.approx(
        (1 + 3 * 0.1 / 0.9) ** 2, rel=0.05
    )  # a side meets a border in 3 of 9 places
    same = quality(FileBoxes(np.zeros((16, 2)), np.ones((16, 2))))
    assert (same.files, same.touched, same.depth) == (16, 16, 16)


def test_quality_is_the_same_under_a_seed() -> None:
    random = np.random.default_rng(0)
    boxes = FileBoxes.of_rows(random.random((1000, 2)), random.integers(0, 9, 1000))
    assert quality(boxes, seed=1) == quality(boxes, seed=1)


def test_no_files_are_of_no_quality() -> None:
    found = quality(FileBoxes(np.empty((0, 2)), np.empty((0, 2))))
    assert (found.files, found.touched, found.depth) == (0, 0.0, 0.0)
