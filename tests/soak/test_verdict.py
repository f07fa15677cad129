"""What counts as growth: slopes against scipy's, and verdicts on series that grow and that do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.verdict import TOLERANCES, judged, slope, tolerance_of


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_the_slope_is_that_of_theil_and_sen(values: list[float]) -> None:
    from scipy.stats import theilslopes  # takes a second to import, in each worker of a run

    x, y = np.arange(len(values)) * 3, np.array(values)
    assert slope(x, y) == pytest.approx(theilslopes(y, x).slope, rel=1e-9, abs=1e-9)


def nights(values: np.ndarray, name: str = "driver: memory, MiB") -> list[dict[str, float]]:
    return [{name: float(value)} for value in values]


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_warming_up_are_no_growth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = 300 + rng.normal(0, 20, 200)
    series[:50] -= np.linspace(200, 0, 50)
    series[rng.integers(0, 200, 10)] += 1000
    [verdict] = judged(nights(series))
    assert verdict.holds


@pytest.mark.parametrize("seed", range(5))
def test_a_little_more_each_night_is_growth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    [verdict] = judged(nights(300 + 0.5 * np.arange(200) + rng.normal(0, 20, 200)))
    assert not verdict.holds
    assert verdict.slope == pytest.approx(50, rel=0.3)


def test_one_more_open_file_each_week_is_growth() -> None:
    [verdict] = judged(nights(40 + np.arange(200) // 7, "JVM: open files"))
    assert not verdict.holds


def test_an_orphan_at_the_end_is_one() -> None:
    found = [{"orphans": float(number >= 150)} if number % 10 == 9 else {} for number in range(200)]
    [verdict] = judged(found)
    assert (verdict.early, verdict.late, verdict.holds) == (0, 1, False)


def test_every_measure_has_the_tolerance_of_its_kind() -> None:
    assert tolerance_of("table: opened and planned, s") == TOLERANCES["opened and planned, s"]
    assert tolerance_of("catalog: opened, s") == TOLERANCES["opened, s"]
    assert tolerance_of("cube_align: s") == TOLERANCES["s"]
    assert tolerance_of("run folders: KiB") == TOLERANCES["KiB"]
    assert tolerance_of("driver: open files") == TOLERANCES["open files"]
