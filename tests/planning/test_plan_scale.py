"""The benchmark of planning runs, small."""

from __future__ import annotations

import pytest

from benchmarks.plan_scale import main, simulate


def test_benchmark_of_planning_clears_its_bars_when_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--order", "7"]) == 0
    assert "leaves:" in capsys.readouterr().out


def test_simulated_sky_is_crowded_along_the_galactic_plane() -> None:
    rows = simulate(6, leaves=1000).rows
    assert rows.max() > 20 * rows.min() > 0
