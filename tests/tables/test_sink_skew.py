"""Skewed rows: one value with nearly all of them, beside thousands with a few."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.tables.sinking import Exchanging, Lake

TARGET = 128 << 10


def skewed(count: int, values: int, seed: int = 0) -> pa.Table:
    """Rows of which 90 % have the value 0, and the others any of the rest."""
    random = np.random.default_rng(seed)
    value = np.where(random.random(count) < 0.9, 0, random.integers(1, values, count))
    return pa.table({"id": np.arange(count), "value": value, "flux": random.normal(size=count)})


def test_a_hot_value_fills_files_of_the_target_size_one_after_another(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec(partition=["value"], target_file_size="128 KiB")
    rows = skewed(400_000, 50)
    done = lake.sink(spec, *[rows.slice(at, 50_000) for at in range(0, 400_000, 50_000)])
    assert done.files_added == done.expected_files
    entries = lake.table(spec).inspect.files().to_pylist()
    hot = sorted(entry["file_size_in_bytes"] for entry in entries if entry["partition"]["value"] == 0)
    assert len(hot) >= 20
    assert all(0.9 * TARGET <= size <= 1.5 * TARGET for size in hot[1:])  # but for the last one
    assert len(entries) == len(hot) + 49
    assert lake.rows(spec).sort_by("id").equals(rows.cast(lake.rows(spec).schema))


def test_a_hot_value_fills_many_tasks_with_files_of_the_target_size(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Exchanging(2))
    spec = lake.spec(partition=["value"], target_file_size="128 KiB")
    rows = skewed(400_000, 50)
    done = lake.sink(spec, *[rows.slice(at, 50_000) for at in range(0, 400_000, 50_000)])
    assert done.files_added == done.expected_files
    assert len(done.task_bytes) >= 4
    assert max(done.task_bytes) <= 2 * np.mean(done.task_bytes)
    entries = lake.table(spec).inspect.files().to_pylist()
    hot = [entry for entry in entries if entry["partition"]["value"] == 0]
    assert len(hot) >= 20
    assert all(0.5 * TARGET <= entry["file_size_in_bytes"] <= 1.5 * TARGET for entry in hot)
    assert len(entries) == len(hot) + 49
    assert pc.sum(lake.rows(spec)["flux"]).as_py() == pc.sum(rows["flux"]).as_py()


@pytest.mark.parametrize("values", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_values_are_spread_evenly(tmp_path: Path, values: int) -> None:
    lake = Lake(tmp_path)
    spec = lake.spec(partition=["value"], target_file_size="128 KiB")
    rows = skewed(120_000, values)
    done = lake.sink(spec, rows)
    there = len(np.unique(rows["value"].to_numpy()))
    assert done.files_added == done.expected_files
    assert there <= done.files_added <= there + 20
    assert len(done.task_bytes) >= 4
    assert max(done.task_bytes) <= 1.5 * np.mean(done.task_bytes)
    assert lake.rows(spec).num_rows == 120_000
