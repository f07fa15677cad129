"""Joins that could go on from their last version, and join all rows: the report says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog import kept_files
from hipslake.catalog.view_tree import lies_in_own_write
from hipslake.steps.join import compare_sides

from tests.steps.join.living import MATCH, MakeSides, Sides, joined, stars

pytestmark = [pytest.mark.usefixtures("going_on"), pytest.mark.usefixtures("large_sides")]


@pytest.fixture
def sides(two_sides: MakeSides, tmp_path: Path) -> Sides:
    sides = two_sides(rows=120)
    joined(tmp_path, MATCH, "living")
    sides[0].night(3, stars(3, 30))
    return sides


def why(tmp_path: Path, spec: dict[str, Any] = MATCH, **params: Any) -> str:
    """Why a run joined all rows, as its report, the metadata and what it published say."""
    living, report = joined(tmp_path, spec, "living", **params)
    assert report.base_version is None
    assert report.leaves_kept == 0
    assert living.metadata.full_because == report.full_because is not None
    assert lies_in_own_write(living.metadata)
    return report.full_because or ""


def test_where_it_is_asked_for(sides: Any, tmp_path: Path) -> None:
    assert "full" in why(tmp_path, full=True)
    assert "force" in why(tmp_path, force=True)


def test_of_another_spec(sides: Any, tmp_path: Path) -> None:
    assert "another spec" in why(tmp_path, MATCH | {"radius_arcsec": 30})
    assert "another spec" in why(tmp_path, MATCH | {"radius_arcsec": 30}, threshold="99 rows")


def test_of_another_scoring_function(sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is edited: none of its scores stand beside those of what it was before."""
    module = tmp_path / "scores_of_a_test.py"
    head = "from hipslake.joins.pair_scores import pair_score\n\n\n@pair_score\ndef score(candidates):\n"
    spec = MATCH | {"score": {"function": f"{module.stem}:score", "right": ["mag"]}}
    monkeypatch.syspath_prepend(tmp_path)
    for score in ("candidates['right.mag']", "-1.0 * candidates['right.mag'].to_numpy()"):
        module.write_text(f"{head}    return {score}\n")
        assert "another spec" in why(tmp_path, spec)


def test_where_most_has_changed(sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 0.05)
    sides[0].night(0, stars(0, 100, seed=4))
    assert "% of its rows lie where they may have changed" in why(tmp_path)


def test_of_a_version_that_was_vacuumed(sides: Any, tmp_path: Path) -> None:
    sides[0].catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert "vacuumed" in why(tmp_path)


@pytest.mark.parametrize("at", [0, -1])
def test_of_a_version_that_lost_a_leaf(sides: Any, tmp_path: Path, at: int) -> None:
    living = Catalog.open(tmp_path / "catalogs" / "living")
    path = living.metadata.partitions(None, living.storage)["path"].to_pylist()[at]
    (Path(living.uri) / path).unlink()
    assert "missing" in why(tmp_path)
    Catalog.open(living.uri).verify().raise_if_failed()


def test_of_a_side_with_another_column(sides: Any, tmp_path: Path) -> None:
    colour = pa.array(np.ones(30))
    seen = stars(4, 30).append_column("colour", colour)
    sides[1].night(4, seen)
    assert "columns of version 1 are not those" in why(tmp_path)
    kept = MATCH | {"right": {"catalog": "b", "columns": ["id"]}}
    joined(tmp_path, kept, "living")
    sides[1].night(5, seen.append_column("shape", colour))
    assert "other columns" in why(tmp_path, kept)


def test_without_a_margin(sides: Any, tmp_path: Path) -> None:
    spec = MATCH | {"radius_arcsec": 500, "missing_margin": "none"}
    joined(tmp_path, spec, "living")
    sides[0].night(4, stars(4, 30))
    assert "margin" in why(tmp_path, spec)


def test_where_files_would_be_written_by_another_arrow(
    sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "WRITER", "parquet-cpp-arrow version 99.0.0")
    assert "99.0.0" in why(tmp_path)
