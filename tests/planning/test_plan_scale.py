"""The benchmark of planning runs, small."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.plan_scale import simulate
from tests.airflow_home import PROJECT


def test_benchmark_of_planning_clears_its_bars_when_small() -> None:
    """In a process of its own: the peak of memory is that of everything that a process ever did."""
    command = [sys.executable, "-m", "benchmarks.plan_scale", "--order", "7"]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "leaves:" in ended.stdout


def test_simulated_sky_is_crowded_along_the_galactic_plane() -> None:
    rows = simulate(6, leaves=1000).rows
    assert rows.max() > 20 * rows.min() > 0
