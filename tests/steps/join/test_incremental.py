"""Joins that go on from their last version: to the byte what a run that joins all rows makes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hipslake import Catalog
from hipslake.catalog.comparing import summarize
from hipslake.catalog.view_tree import lies_in_own_write
from hipslake.steps.join import compare_sides
from hipslake.steps.join.request import JoinReport
from hipslake.storage.folder import Storage

from tests.catalog.leftovers import missing
from tests.steps import in_process
from tests.steps.join.living import (
    LivingSide,
    assert_equal_outcomes,
    beside,
    joined,
    published_twice,
    stars,
)

MATCH: dict[str, Any] = {
    "type": "crossmatch",
    "left": {"catalog": "a"},
    "right": {"catalog": "b"},
    "radius_arcsec": 40,
    "threshold": "120 rows",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "nearest": {},
    "all": {"neighbours": "all"},
    "left": {"how": "left", "neighbours": 3, "rank": "rank", "layout": "hipscat"},
    "anti": {"how": "anti"},
    "outer": {"how": "outer"},
    "mutual": {"neighbours": "mutual", "layout": "hipscat"},
    "best": {"neighbours": "best", "how": "outer"},
    "errors": {
        "radius_arcsec": None,
        "radius": {"left": {"error": "error"}, "right": {"error": "error"}, "sigmas": 1.5},
    },
    "filtered": {
        "left": {"catalog": "a", "filters": "mag < 19"},
        "right": {"catalog": "b", "columns": ["id", "name"], "filters": "mag > 16"},
    },
}
SIDES = [
    ({}, {}),
    ({"append": "add_file", "layout": "hipscat"}, {"append": "add_file"}),
    ({"column_groups": [{"name": "main", "columns": ["ra", "dec"]}, {"name": "rest", "columns": "*"}]},) * 2,
]


@pytest.fixture(autouse=True)
def _goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much may have changed: these skies are small."""
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 1.0)


Sides = tuple[LivingSide, LivingSide]


def two_sides(place: Path, which: int = 0, rows: int = 300, **stars_fields: Any) -> Sides:
    """Two catalogs of three nights, in fields beside each other."""
    a, b = (LivingSide(place, name, spec) for name, spec in zip("ab", SIDES[which], strict=True))
    for number in range(3):
        seen = stars(number, rows, **stars_fields)
        a.night(number, seen)
        b.night(number, beside(seen))
    return a, b


def change(kind: str, side: LivingSide, number: int, rng: random.Random) -> None:
    """Change a side."""
    seen = stars(number, rng.choice([30, 200]), seed=rng.randrange(3))
    if kind == "night":
        side.night(number, seen if side.name == "a" else beside(seen))
    elif kind == "empty":
        side.night(number, seen.slice(0, 0))
    elif kind == "compact":
        side.compact()
    else:
        side.roll_back(rng.choice(side.catalog.versions()))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.sampled(3)
def test_a_match_goes_on_from_its_last_version(tmp_path: Path, setting: str) -> None:
    spec = {name: value for name, value in (MATCH | SETTINGS[setting]).items() if value is not None}
    a, b = two_sides(tmp_path, list(SETTINGS).index(setting) % len(SIDES))
    assert published_twice(tmp_path, spec).full_because == "there is no version yet"
    seen = stars(3, 60)
    for side, rows in ((a, seen), (b, beside(seen))):
        side.night(3, rows)
        report = published_twice(tmp_path, spec)
        assert (report.full_because, report.base_version) == (None, 1 if side is a else 2)
        assert report.leaves_kept > report.leaves_written
        assert 0 < report.rows_joined < report.rows_out
    assert report.leaves_written > 0


@pytest.mark.parametrize("seed", range(int(os.environ.get("HIPSLAKE_SEQUENCES", "4"))))
@pytest.mark.sampled(2)
def test_whatever_happens_to_the_sides(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    setting = list(SETTINGS.values())[seed % len(SETTINGS)]
    spec = {name: value for name, value in (MATCH | setting).items() if value is not None}
    spec["threshold"] = f"{rng.choice([25, 90, 400])} rows"
    sides = two_sides(tmp_path, rng.randrange(len(SIDES)), rows=200)
    published_twice(tmp_path, spec)
    for _ in range(5):
        for _ in range(rng.choice([1, 1, 2])):
            kind = rng.choice(["night", "night", "night", "empty", "compact", "rollback"])
            change(kind, rng.choice(sides), rng.randrange(6), rng)
        if all(Catalog.open(tmp_path / "catalogs" / side.name).metadata.total_rows for side in sides):
            published_twice(tmp_path, spec, force=False)


def test_rows_that_move(tmp_path: Path) -> None:
    """The reach of a match grows and shrinks with the fastest row."""
    _, b = two_sides(tmp_path, moving=True)
    motion = {"pmra": "pmra", "pmdec": "pmdec"}
    spec = MATCH | {
        "left": {"catalog": "a", "motion": motion},
        "right": {"catalog": "b", "motion": motion},
        "epoch": 2016.0,
        "neighbours": "best",
        "missing_margin": "build",
    }
    published_twice(tmp_path, spec)
    fast = stars(3, 40, moving=True).set_column(6, "pmra", pa.array(np.full(40, 9000.0)))
    for rows in (fast, fast.slice(0, 10), stars(3, 40, moving=True)):
        b.night(3, rows)
        assert published_twice(tmp_path, spec).full_because is None


def test_several_right_sides(tmp_path: Path) -> None:
    _, b = two_sides(tmp_path)
    c = LivingSide(tmp_path, "c")
    for number in range(3):
        c.night(number, beside(stars(number, 600), seed=5))
    further = {
        "right": {"catalog": "c", "columns": ["id"]},
        "radius_arcsec": 50,
        "how": "left",
        "suffix": "_c",
    }
    spec = MATCH | {"how": "left", "further": [further]}
    published_twice(tmp_path, spec)
    for side in (c, b):
        side.night(3, beside(stars(3, 50), seed=6))
        report = published_twice(tmp_path, spec)
        assert report.full_because is None
        assert report.leaves_kept > report.leaves_written


@pytest.mark.parametrize("size", ["9 KiB", "14 KiB"])
@pytest.mark.sampled(2)
def test_leaves_that_are_bounded_in_bytes(tmp_path: Path, size: str) -> None:
    a, b = two_sides(tmp_path)
    spec = MATCH | {"threshold": size, "how": "left"}
    published_twice(tmp_path, spec)
    for number, rows in ((3, 60), (1, 500), (3, 0)):
        seen = stars(number, rows, seed=1)
        a.night(number, seen)
        b.night(number, beside(seen))
        report = published_twice(tmp_path, spec)
        assert report.full_because is None
        assert report.leaves_kept > 0


def test_another_way_of_filing_the_same_rows_joins_none(tmp_path: Path) -> None:
    a, b = two_sides(tmp_path, 1, rows=200)
    published_twice(tmp_path, MATCH)
    before = a.catalog.version
    for side in (a, b):
        side.compact()
    a.night(7, stars(0, 0))
    assert a.catalog.version > before
    report = published_twice(tmp_path, MATCH)
    assert (report.rows_joined, report.left_rows, report.leaves_written) == (0, 0, 0)
    assert report.leaves_kept == Catalog.open(tmp_path / "catalogs" / "living").metadata.group().leaves


def test_leaves_that_stay_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = two_sides(tmp_path)
    joined(tmp_path, MATCH, "living")
    spec = tmp_path / "living.yaml"
    spec.write_text(yaml.safe_dump(MATCH | {"name": "living"}))
    a.night(3, stars(3, 40))
    with opened(monkeypatch) as paths:
        folder = in_process.start_match(tmp_path, spec)
        report = in_process.match(folder)
        in_process.check(folder)
        in_process.commit(folder)
    living = Catalog.open(tmp_path / "catalogs" / "living")
    files = living.metadata.partitions(None, living.storage)["path"].to_pylist()
    kept = {path for path in files if not path.startswith(living.metadata.write_id)}
    assert len(kept) == report.leaves_kept > report.leaves_written > 0
    # But those in the field of the night, which come out the same, and one whose footer says who wrote it.
    assert len(kept & {path for root, path in paths if root == living.uri}) < len(kept) / 3
    for side in (a, b):
        leaves = set(side.catalog.metadata.partitions(None, side.catalog.storage)["path"].to_pylist())
        assert 0 < len(leaves & {path for _, path in paths}) < len(leaves) / 2


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The Parquet files that are opened, by the root of their catalog."""
    paths: list[tuple[str, str]] = []
    real = Storage.arrow_file

    def counted(self: Storage, path: str, *rest: Any, **more: Any) -> Any:
        paths.append((self.uri(), path))
        return real(self, path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "arrow_file", counted)
        yield paths


class TestFull:
    """All rows are joined, and the report says why."""

    @pytest.fixture
    def sides(self, tmp_path: Path) -> Sides:
        sides = two_sides(tmp_path, rows=120)
        joined(tmp_path, MATCH, "living")
        sides[0].night(3, stars(3, 30))
        return sides

    def why(self, tmp_path: Path, spec: dict[str, Any] = MATCH, **params: Any) -> str:
        """Why a run joined all rows, as its report, the metadata and what it published say."""
        living, report = joined(tmp_path, spec, "living", **params)
        assert report.base_version is None
        assert report.leaves_kept == 0
        assert living.metadata.full_because == report.full_because is not None
        assert lies_in_own_write(living.metadata)
        return report.full_because or ""

    def test_where_it_is_asked_for(self, sides: Any, tmp_path: Path) -> None:
        assert "full" in self.why(tmp_path, full=True)
        assert "force" in self.why(tmp_path, force=True)

    def test_of_another_spec(self, sides: Any, tmp_path: Path) -> None:
        assert "another spec" in self.why(tmp_path, MATCH | {"radius_arcsec": 30})
        assert "another spec" in self.why(tmp_path, MATCH | {"radius_arcsec": 30}, threshold="99 rows")

    def test_of_another_scoring_function(
        self, sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its module is edited: none of its scores stand beside those of what it was before."""
        module = tmp_path / "scores_of_a_test.py"
        head = "from hipslake.joins.pair_scores import pair_score\n\n\n@pair_score\ndef score(candidates):\n"
        spec = MATCH | {"score": {"function": f"{module.stem}:score", "right": ["mag"]}}
        monkeypatch.syspath_prepend(tmp_path)
        for score in ("candidates['right.mag']", "-1.0 * candidates['right.mag'].to_numpy()"):
            module.write_text(f"{head}    return {score}\n")
            assert "another spec" in self.why(tmp_path, spec)

    def test_where_most_has_changed(
        self, sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compare_sides, "MOST_CHANGED", 0.05)
        sides[0].night(0, stars(0, 100, seed=4))
        assert "% of its rows lie where they may have changed" in self.why(tmp_path)

    def test_of_a_version_that_was_vacuumed(self, sides: Any, tmp_path: Path) -> None:
        sides[0].catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
        assert "vacuumed" in self.why(tmp_path)

    @pytest.mark.parametrize("at", [0, -1])
    def test_of_a_version_that_lost_a_leaf(self, sides: Any, tmp_path: Path, at: int) -> None:
        living = Catalog.open(tmp_path / "catalogs" / "living")
        path = living.metadata.partitions(None, living.storage)["path"].to_pylist()[at]
        (Path(living.uri) / path).unlink()
        assert "missing" in self.why(tmp_path)
        Catalog.open(living.uri).verify().raise_if_failed()

    def test_of_a_side_with_another_column(self, sides: Any, tmp_path: Path) -> None:
        colour = pa.array(np.ones(30))
        seen = stars(4, 30).append_column("colour", colour)
        sides[1].night(4, seen)
        assert "columns of version 1 are not those" in self.why(tmp_path)
        kept = MATCH | {"right": {"catalog": "b", "columns": ["id"]}}
        joined(tmp_path, kept, "living")
        sides[1].night(5, seen.append_column("shape", colour))
        assert "other columns" in self.why(tmp_path, kept)

    def test_without_a_margin(self, sides: Any, tmp_path: Path) -> None:
        spec = MATCH | {"radius_arcsec": 500, "missing_margin": "none"}
        joined(tmp_path, spec, "living")
        sides[0].night(4, stars(4, 30))
        assert "margin" in self.why(tmp_path, spec)

    def test_where_files_would_be_written_by_another_arrow(
        self, sides: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compare_sides, "_WRITER", "parquet-cpp-arrow version 99.0.0")
        assert "99.0.0" in self.why(tmp_path)


def test_a_version_is_shown_and_kept_as_any_other(tmp_path: Path) -> None:
    """Its tree is whole, vacuums take nothing of it, it is rolled back, and a join of it goes on, too."""
    a, b = two_sides(tmp_path, rows=300)
    pairs = MATCH | {"left": {"catalog": "living", "columns": ["id"]}, "margin": {"arcsec": [30]}}
    pairs |= {"index": ["id"]}
    joined(tmp_path, MATCH, "living")
    published_twice_of(tmp_path, pairs)
    for number in (3, 4):
        a.night(number, stars(number, 40))
        b.night(number, beside(stars(number, 40)))
        parent = Catalog.open(tmp_path / "catalogs" / "living").metadata
        living, report = joined(tmp_path, MATCH, "living")
        assert report.full_because is None
        assert summarize(living.storage, living.metadata, parent).kind == "continued"
        living.verify(all=True).raise_if_failed()
        current = tmp_path / "catalogs" / "living" / "current"
        found = sum(pq.read_metadata(path).num_rows for path in current.resolve().rglob("Npix=*.parquet"))
        assert found == living.metadata.total_rows
        assert published_twice_of(tmp_path, pairs).leaves_kept > 0
    rows = living.read()
    living.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert missing(tmp_path / "catalogs" / "living") == set()
    assert Catalog.open(living.uri).read().equals(rows)
    living.verify(all=True).raise_if_failed()
    a.night(5, stars(5, 40))
    again, report = joined(tmp_path, MATCH, "living")
    assert report.base_version == living.version
    again.rollback(living.version)
    a.night(6, stars(6, 40))
    report = published_twice(tmp_path, MATCH)
    assert report.full_because is None


def published_twice_of(place: Path, spec: dict[str, Any]) -> JoinReport:
    """As `published_twice`, of a match whose side is `living`."""
    one, report = joined(place, spec, "pairs")
    other, _ = joined(place, spec, "all_pairs", full=True)
    assert_equal_outcomes(one, other)
    one.verify().raise_if_failed()
    return report


class TestKeys:
    """Equi-joins and light curves."""

    @pytest.fixture
    def sides(self, tmp_path: Path) -> Sides:
        objects = LivingSide(tmp_path, "objects", {"co_partitioned": ["id"], "margin": {"arcsec": []}})
        placed = {
            "position_from": {"catalog": "objects", "on": {"object_id": "id"}},
            "margin": {"arcsec": []},
        }
        sources = LivingSide(tmp_path, "sources", placed)
        for number in range(3):
            objects.night(number, stars(number, 300))
            sources.night(number, self.seen([stars(number, 300)], 900))
        return objects, sources

    @staticmethod
    def seen(objects: list[pa.Table], rows: int, seed: int = 0) -> pa.Table:
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

    @pytest.mark.sampled(3)
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
    def test_a_night_of_sources(self, sides: Any, tmp_path: Path, kind: dict[str, Any]) -> None:
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
        for step in (
            lambda: sources.night(3, self.seen([few], 60)),
            lambda: sources.night(3, self.seen([few], 20, seed=1)),
            sources.compact,
            lambda: objects.night(4, stars(4, 30)),
            lambda: sources.night(4, self.seen([stars(4, 30), few], 80)),
            lambda: sources.roll_back(3),
        ):
            step()
            report = published_twice(tmp_path, spec)
            assert report.full_because is None
            assert report.leaves_kept > 0 or not report.leaves  # where there was nothing to do

    def test_gathered_rows_are_joined_anew(self, sides: Any, tmp_path: Path) -> None:
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

    def test_after_gathered_rows_all_are_joined(self, sides: Any, tmp_path: Path) -> None:
        """Sources of no object lie where they were seen; without them, equal keys have one place again."""
        objects, _ = sides
        on = {"catalog": "objects", "on": {"object_id": "id"}, "unmatched": "own_position"}
        seen = LivingSide(tmp_path, "seen", {"position_from": on, "margin": {"arcsec": []}})
        seen.night(0, self.seen([stars(0, 300)], 400))
        later = stars(4, 9)
        seen.night(1, self.seen([later], 20).set_column(2, "dec", pa.array(np.full(20, -60.0))))
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
