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
from hipslake.steps.join.request import JoinReport
from hipslake.storage.folder import Storage

from tests.catalog.leftovers import missing
from tests.examples import examples
from tests.steps import in_process
from tests.steps.join.living import (
    MATCH,
    SIDES,
    LivingSide,
    MakeSides,
    assert_equal_outcomes,
    beside,
    joined,
    published_twice,
    stars,
)

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
pytestmark = [pytest.mark.usefixtures("going_on"), pytest.mark.usefixtures("large_sides")]


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
@pytest.mark.sampled(5)
def test_a_match_goes_on_from_its_last_version(two_sides: MakeSides, tmp_path: Path, setting: str) -> None:
    spec = {name: value for name, value in (MATCH | SETTINGS[setting]).items() if value is not None}
    a, b = two_sides(list(SETTINGS).index(setting) % len(SIDES))
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
@pytest.mark.sampled(4)
def test_whatever_happens_to_the_sides(two_sides: MakeSides, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    setting = list(SETTINGS.values())[seed % len(SETTINGS)]
    spec = {name: value for name, value in (MATCH | setting).items() if value is not None}
    spec["threshold"] = f"{rng.choice([25, 90, 400])} rows"
    sides = two_sides(rng.randrange(len(SIDES)), rows=200)
    published_twice(tmp_path, spec)
    for _ in range(examples(5, part=2)):
        for _ in range(rng.choice([1, 1, 2])):
            kind = rng.choice(["night", "night", "night", "empty", "compact", "rollback"])
            change(kind, rng.choice(sides), rng.randrange(6), rng)
        if all(Catalog.open(tmp_path / "catalogs" / side.name).metadata.total_rows for side in sides):
            published_twice(tmp_path, spec, force=False)


def test_rows_that_move(two_sides: MakeSides, tmp_path: Path) -> None:
    """The reach of a match grows and shrinks with the fastest row."""
    _, b = two_sides(moving=True)
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


def test_several_right_sides(two_sides: MakeSides, tmp_path: Path) -> None:
    _, b = two_sides()
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


@pytest.mark.slow  # test_incremental_margins.py tries such leaves in each run
@pytest.mark.parametrize("size", ["9 KiB", "14 KiB"])
def test_leaves_that_are_bounded_in_bytes(two_sides: MakeSides, tmp_path: Path, size: str) -> None:
    a, b = two_sides()
    spec = MATCH | {"threshold": size, "how": "left"}
    published_twice(tmp_path, spec)
    for number, rows in ((3, 60), (1, 500), (3, 0)):
        seen = stars(number, rows, seed=1)
        a.night(number, seen)
        b.night(number, beside(seen))
        report = published_twice(tmp_path, spec)
        assert report.full_because is None
        assert report.leaves_kept > 0


def test_another_way_of_filing_the_same_rows_joins_none(two_sides: MakeSides, tmp_path: Path) -> None:
    a, b = two_sides(1, rows=200)
    published_twice(tmp_path, MATCH)
    before = a.catalog.version
    for side in (a, b):
        side.compact()
    a.night(7, stars(0, 0))
    assert a.catalog.version > before
    report = published_twice(tmp_path, MATCH)
    assert (report.rows_joined, report.left_rows, report.leaves_written) == (0, 0, 0)
    assert report.leaves_kept == Catalog.open(tmp_path / "catalogs" / "living").metadata.group().leaves


def test_leaves_that_stay_are_not_opened(
    two_sides: MakeSides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two_sides()
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


def test_a_version_is_shown_and_kept_as_any_other(two_sides: MakeSides, tmp_path: Path) -> None:
    """Its tree is whole, vacuums take nothing of it, it is rolled back, and a join of it goes on, too."""
    a, b = two_sides(rows=300)
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
