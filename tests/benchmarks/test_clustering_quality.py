"""The bars of the clustering benchmark, at a quarter of its size."""

from __future__ import annotations

import pytest

from benchmarks import clustering_quality as quality

ROWS, FILES, SAMPLE = 100_000, 64, 40_000


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, float]]:
    return {
        case.name: quality.touched(case, FILES, SAMPLE) for case in quality.cases(ROWS, queries=1000, seed=5)
    }


def test_stretched_ids_open_no_more_files_than_plain_ones(results: dict[str, dict[str, float]]) -> None:
    assert len(results) == 5
    assert [what for what, passed in quality.verdicts(results) if not passed] == []


def test_a_sort_wins_where_only_its_leading_column_is_asked_for(
    results: dict[str, dict[str, float]],
) -> None:
    leading = results["5% range on the first column only"]
    assert min(leading, key=leading.__getitem__) == quality.LINEAR
    assert leading[quality.LINEAR_BACKWARDS] == FILES


def test_curves_win_where_two_columns_are_asked_for(results: dict[str, dict[str, float]]) -> None:
    both = results["uniform 2D, 10% box"]
    assert both[quality.OURS_HILBERT] < both[quality.OURS_Z] < both[quality.LINEAR]
