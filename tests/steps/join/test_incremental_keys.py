"""Equi-joins and light curves that go on from their last version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.examples import examples
from tests.steps.join.living import LivingSide, Sides, joined, published_twice, stars

pytestmark = pytest.mark.usefixtures("going_on")


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    objects = LivingSide(tmp_path, "objects", {"co_partitioned": ["id"], "margin": {"arcsec": []}})
    placed = {
        "position_from": {"catalog": "objects", "on": {"object_id": "id"}},
        "margin": {"arcsec": []},
    }
    sources = LivingSide(tmp_path, "sources", placed)
    for number in range(3):
        objects.night(number, stars(number, 300))
        sources.night(number, seen_of([stars(number, 300)], 900))
    return objects, sources


def seen_of(objects: list[pa.Table], rows: int, seed: int = 0) -> pa.Table:
    """Sources of some objects."""
    rng = np.random.default_rng([seed, 7])
    table = pa.concat_tables(objects).select(["id", "ra", "dec"])
    of = table.take(pa.array(rng.integers(0, max(table.num_rows * 9 // 10, 1), rows)))
    columns = {"time": rng.uniform(0, 9, rows).round(1), "flux": rng.normal(9, 1, rows)}
    return (
        of.rename_columns(["object_id", "ra", "dec"])
        .append_column("time", [columns["time"]])
        .append_column("flux", [columns["flux"]])
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "kind",
    [
        {"how": "inner"},
        {"how": "left", "layout": "hipscat"},
        {"how": "anti"},
        {"nested": {"time": "time"}},
        {"nested": {"time": "time", "keep_empty": False}, "threshold": "9 KiB"},
    ],
    ids=["inner", "left", "anti", "nested", "filled"],
)
def test_a_night_of_sources(sides: Any, tmp_path: Path, kind: dict[str, Any]) -> None:
    objects, sources = sides
    spec = {
        "type": "equijoin",
        "left": {"catalog": "objects", "columns": ["id", "mag", "name"]},
        "right": {"catalog": "sources", "columns": ["time", "flux"]},
        "on": {"id": "object_id"},
        "threshold": "70 rows",
    } | kind
    published_twice(tmp_path, spec)
    few = stars(1, 300).slice(40, 12)
    steps: list[Callable[[], object]] = [
        lambda: sources.night(3, seen_of([few], 60)),
        lambda: objects.night(4, stars(4, 30)),
        lambda: sources.night(4, seen_of([stars(4, 30), few], 80)),
        sources.compact,
        lambda: sources.night(3, seen_of([few], 20, seed=1)),
        lambda: sources.roll_back(3),
    ]
    for step in steps[: examples(len(steps), part=2)]:
        step()
        report = published_twice(tmp_path, spec)
        assert report.full_because is None
        assert report.leaves_kept > 0 or not report.leaves  # where there was nothing to do


def test_gathered_rows_are_joined_anew(sides: Any, tmp_path: Path) -> None:
    spec = {
        "type": "equijoin",
        "left": {"catalog": "sources"},
        "right": {"catalog": "objects", "columns": ["mag"]},
        "on": {"object_id": "id"},
        "gather": True,
    }
    unmarked = LivingSide(tmp_path, "unmarked", {"margin": {"arcsec": []}})
    unmarked.night(0, stars(0, 100))
    spec |= {"right": {"catalog": "unmarked", "columns": ["mag"]}}
    joined(tmp_path, spec, "living")
    unmarked.night(1, stars(1, 100))
    _, report = joined(tmp_path, spec, "living")
    assert "gather" in (report.full_because or "")


def test_after_gathered_rows_all_are_joined(sides: Any, tmp_path: Path) -> None:
    """Sources of no object lie where they were seen; without them, equal keys have one place again."""
    objects, _ = sides
    on = {"catalog": "objects", "on": {"object_id": "id"}, "unmatched": "own_position"}
    seen = LivingSide(tmp_path, "seen", {"position_from": on, "margin": {"arcsec": []}})
    seen.night(0, seen_of([stars(0, 300)], 400))
    later = stars(4, 9)
    seen.night(1, seen_of([later], 20).set_column(2, "dec", pa.array(np.full(20, -60.0))))
    objects.night(4, later)
    spec = {
        "type": "equijoin",
        "left": {"catalog": "objects", "columns": ["id"]},
        "right": {"catalog": "seen", "columns": ["time"]},
        "on": {"id": "object_id"},
        "gather": True,
    }
    assert joined(tmp_path, spec, "living")[1].rows_out == 420
    seen.roll_back(1)
    report = published_twice(tmp_path, spec)
    assert report.rows_out == 400
    assert "gather" in (report.full_because or "")
