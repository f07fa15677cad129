"""Joins of catalogs of which rows are deleted go on, and come to what a run that joins all rows makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.steps.join import compare_sides

from tests.steps.join.living import MATCH, LivingSide, beside, published_twice, stars


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_match_goes_on_after_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 1.0)  # however much may have changed
    spec = MATCH | {"how": how}
    two = {"column_groups": [{"name": "main", "columns": ["ra", "dec"]}, {"name": "rest", "columns": "*"}]}
    a = LivingSide(tmp_path, "a", two)
    b = LivingSide(tmp_path, "b", {"append": "add_file", "mode": "upsert", "key": "id"})
    for number in range(3):
        seen = stars(number, 200)
        a.night(number, seen)
        b.night(number, beside(seen))
    published_twice(tmp_path, spec)
    versions = a.catalog.version
    for side, region in ((a, "cone 44 0 1deg"), (b, "cone 60 1 0.1deg"), (b, "cone 47 2 1deg")):
        rows = side.catalog.metadata.total_rows
        side.catalog.delete(region=region, force=True)
        assert side.catalog.metadata.total_rows < rows
        report = published_twice(tmp_path, spec)
        assert report.full_because is None
        assert report.leaves_kept > 0
    a.night(1, stars(1, 100, seed=3))
    b.night(0, beside(stars(0, 50)))
    published_twice(tmp_path, spec)
    a.roll_back(versions)
    published_twice(tmp_path, spec)
