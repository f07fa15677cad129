"""Margins of outcomes follow the leaves that are written anew: to the byte those that are made whole."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hipslake import Catalog
from hipslake.catalog import kept_files
from hipslake.catalog.layouts import layout_paths
from hipslake.errors import VerificationError
from hipslake.sphere.pixels import Pixel
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.margin import tasks
from hipslake.steps.margin.request import MARGIN_FILES
from hipslake.steps.tables import write_table

from tests.examples import examples
from tests.steps import in_process
from tests.steps.join.living import MATCH as MATCH_ALONE
from tests.steps.join.living import (
    LivingSide,
    MakeSides,
    Sides,
    assert_equal_outcomes,
    beside,
    joined,
    margin_report,
    published_twice,
    stars,
)
from tests.steps.join.test_incremental import opened
from tests.steps.margins import assert_margins_are_exact

MATCH = MATCH_ALONE | {"threshold": "60 rows", "margin": {"arcsec": [30, 2500]}}
KINDS: list[dict[str, Any]] = [
    {},
    {"layout": "hipscat", "how": "left", "neighbours": "all"},
    {"how": "left", "association": {"left": "id", "right": "id"}},
    {"layout": "hipscat", "how": "anti", "threshold": "9 KiB"},
]
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}
pytestmark = pytest.mark.usefixtures("going_on")


def upserted(place: Path) -> Sides:
    """Two catalogs of three nights; those of one bring records of keys."""
    a, b = LivingSide(place, "a", UPSERT), LivingSide(place, "b")
    for number in range(3):
        a.night(number, stars(number, 200))
        b.night(number, beside(stars(number, 200)))
    return a, b


def change(side: LivingSide, rng: random.Random) -> None:
    """Let something happen to a side."""
    kind = rng.choice(["night", "night", "again", "empty", "delete", "delete", "compact", "rollback"])
    number = rng.randrange(6)
    if kind == "compact":
        side.compact()
    elif kind == "rollback":
        side.roll_back(rng.choice(side.catalog.versions()[:-1]))
    elif kind == "delete":
        ra = 40 + 8 * rng.random()
        side.catalog.delete(filters=f"ra > {ra} and ra < {ra + rng.choice([0.5, 20])}", force=True)
    else:
        seen = stars(number, {"night": rng.choice([20, 150]), "again": 60, "empty": 0}[kind])
        side.night(number, seen if side.name == "a" else beside(seen, rng.randrange(9)))


@pytest.mark.parametrize("seed", range(int(os.environ.get("HIPSLAKE_SEQUENCES", "12"))))
@pytest.mark.sampled(12)
def test_whatever_happens_to_the_sides(two_sides: MakeSides, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    spec = MATCH | KINDS[seed % len(KINDS)]
    if "KiB" not in spec["threshold"]:
        spec["threshold"] = f"{rng.choice([15, 60])} rows"
    sides = upserted(tmp_path) if seed % 3 == 2 else two_sides(seed % 3, rows=200)
    published_twice(tmp_path, spec)
    for _ in range(examples(4, part=2)):
        change(rng.choice(sides), rng)
        if not all(side.catalog.metadata.total_rows for side in sides):
            continue
        report = published_twice(tmp_path, spec, force=False)
        if report.base_version is not None and report.leaves_kept:
            made = margin_report(tmp_path, "living")
            assert (made.base_version, made.full_because) == (report.base_version, None)
    living = Catalog.open(tmp_path / "catalogs" / "living")
    living.verify(all=True).raise_if_failed()
    assert_margins_are_exact(living)


def test_light_curves(tmp_path: Path) -> None:
    objects = LivingSide(tmp_path, "objects", {"co_partitioned": ["id"], "margin": {"arcsec": []}})
    placed = {"position_from": {"catalog": "objects", "on": {"of": "id"}}, "margin": {"arcsec": []}}
    sources = LivingSide(tmp_path, "sources", {"mode": "upsert", "key": ["id"]} | placed)
    for number in range(3):
        objects.night(number, stars(number, 200))
    rows = pa.concat_tables([stars(number, 200) for number in range(3)])
    seen = pa.table(
        {
            "id": np.arange(rows.num_rows),
            "of": rows["id"],
            "ra": rows["ra"],
            "dec": rows["dec"],
            "time": np.arange(rows.num_rows) % 7,
        }
    )
    sources.night(0, seen)
    spec: dict[str, Any] = {
        "type": "equijoin",
        "left": {"catalog": "objects", "columns": ["id", "name"]},
        "right": {"catalog": "sources", "columns": ["time"]},
        "on": {"id": "of"},
        "nested": {"time": "time"},
        "threshold": "60 rows",
        "margin": {"arcsec": [3000]},
    }
    published_twice(tmp_path, spec)
    sources.night(1, seen.slice(230, 9).set_column(4, "time", pa.array(np.full(9, 50))))
    published_twice(tmp_path, spec)
    made = margin_report(tmp_path, "living")
    assert made.full_because is None
    assert made.files > made.files_kept > made.files / 2
    Catalog.open(tmp_path / "catalogs" / "living").verify().raise_if_failed()


def field(rows: int, square: int, seed: int = 0, size: float = 10.0) -> pa.Table:
    """Rows in the middle of one of some squares along the equator."""
    rng = np.random.default_rng([square, seed])
    columns = {
        "id": 100_000 * square + 10_000 * seed + np.arange(rows),
        "ra": 25.0 + 10 * square + rng.uniform(-size / 2, size / 2, rows),
        "dec": rng.uniform(-size / 2, size / 2, rows),
        "mag": rng.normal(18, 2, rows),
    }
    return pa.table(columns)


@pytest.mark.parametrize("layout", ["hats", pytest.param("hipscat", marks=pytest.mark.slow)])
def test_margin_files_that_stay_are_not_opened(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sky four times as large, as much is opened and written; the bytes of other margins are gone."""
    counts = []
    for squares in (3, 12):
        place = tmp_path / str(squares)
        a, b = LivingSide(place, "a"), LivingSide(place, "b")
        for side in (a, b):
            side.night(0, pa.concat_tables([field(200, square) for square in range(squares)]))
        spec = MATCH | {"margin": {"arcsec": [900]}, "layout": layout, "how": "left"}
        living, _ = joined(place, spec, "living")
        a.night(1, field(15, 1, seed=1, size=3.0))
        b.night(1, field(15, 1, seed=1, size=3.0))
        whole, _ = joined(place, spec, "whole", full=True)
        path = place / "living.yaml"
        path.write_text(yaml.safe_dump(spec | {"name": "living"}))
        folder = in_process.start_match(place, path)
        in_process.match(folder)
        with opened(monkeypatch) as read_by_margins:
            report = in_process.make_margins(folder)
        with opened(monkeypatch) as read_by_verify:
            in_process.check(folder)
        (before,) = living.metadata.margins
        by_margins, by_verify = (
            {path for root, path in paths if root == living.uri}
            for paths in (read_by_margins, read_by_verify)
        )
        stood = set(before.table(living.storage)["path"].to_pylist())
        lost = stood - by_margins - by_verify
        assert lost
        for each in lost:
            file = Path(living.uri) / each
            file.chmod(0o644)
            file.write_bytes(b"\0" * file.stat().st_size)
        left_over = layout_paths(layout).partition_path(
            FrozenRun.of(folder).write_id, before.name, Pixel(9, 7)
        )
        living.storage.write(left_over, b"of an attempt that was killed")
        again = in_process.make_margins(folder)
        assert (again.files, again.files_kept) == (report.files, report.files_kept)
        in_process.check(folder)
        in_process.commit(folder)
        now = Catalog.open(living.uri)
        (margin,) = now.metadata.margins
        sums = margin.table(now.storage)["sha256"].to_pylist()
        assert sums == whole.metadata.margins[0].table(whole.storage)["sha256"].to_pylist()
        files, write_id = margin.table(now.storage).to_pylist(), now.metadata.write_id
        written = [each for each in files if each["path"].startswith(f"{write_id}/")]
        assert 0 < len(written) == report.files - report.files_kept
        counts.append(
            [
                len(by_margins),
                len(by_verify),
                len(written),
                sum(each["bytes"] for each in written),
            ]
        )
    small, large = np.array(counts)
    assert (large <= 1.2 * small + 2).all(), counts


def test_verification_finds_margins_that_did_not_follow(tmp_path: Path) -> None:
    """It looks at margins near what changed alone, and there at all of their rows."""
    a, b = LivingSide(tmp_path, "a"), LivingSide(tmp_path, "b")
    for side in (a, b):
        side.night(0, pa.concat_tables([field(100, square) for square in range(3)]))
    spec = MATCH | {"margin": {"arcsec": [900]}, "how": "left"}
    living, _ = joined(tmp_path, spec, "living")
    path = tmp_path / "living.yaml"
    path.write_text(yaml.safe_dump(spec | {"name": "living"}))
    a.night(1, field(15, 1, seed=1, size=3.0))
    folder = in_process.start_match(tmp_path, path)
    in_process.match(folder)
    assert in_process.make_margins(folder).base_version == 1
    (before,) = living.metadata.margins
    files = before.table(living.storage)
    names = pa.array([before.name] * files.num_rows)
    write_table(folder.storage, MARGIN_FILES, files.add_column(0, "margin", names))
    with pytest.raises(VerificationError, match=r"that lie near .* are missing"):
        in_process.check(folder)


def test_why_margins_are_made_whole(
    two_sides: MakeSides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = two_sides(rows=120)
    living, _ = joined(tmp_path, MATCH, "living")

    def why(spec: dict[str, Any] = MATCH, **params: Any) -> str:
        sides[0].night(3, stars(3, 9 + len(sides[0].catalog.versions())))
        joined(tmp_path, spec, "living", **params)
        made = margin_report(tmp_path, "living")
        assert (made.base_version, made.files_kept) == (None, 0)
        assert made.full_because is not None
        return made.full_because

    path = living.metadata.margins[1].table(living.storage)["path"].to_pylist()[-1]
    (Path(living.uri) / path).unlink()
    assert path in why()
    assert_same_as_whole(tmp_path)
    assert "another spec" in why(MATCH | {"margin": {"arcsec": [31, 2500]}})
    assert "another spec" in why(MATCH | {"threshold": "70 rows", "margin": {"arcsec": [31, 2500]}})
    assert "another spec" in why()
    assert "full" in why(full=True)
    with monkeypatch.context() as patch:
        patch.setattr(kept_files, "WRITER", "parquet-cpp-arrow version 99.0.0")
        assert "99.0.0" in why()
    sides[1].night(4, stars(4, 9).append_column("colour", pa.array(np.ones(9))))
    assert "columns" in why()


def test_rows_at_one_place_that_cannot_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = LivingSide(tmp_path, "a"), LivingSide(tmp_path, "b")
    a.night(0, pa.concat_tables([field(60, square) for square in range(2)]))
    b.night(0, pa.concat_tables([field(60, square) for square in range(2)]))
    spec = MATCH | {"how": "left", "margin": {"arcsec": [9000]}, "threshold": "15 rows"}
    joined(tmp_path, spec, "living")
    a.catalog.delete(filters="ra > 31 and id < 110000", force=True)  # pixels become one
    real, met = tasks._each_once, []
    monkeypatch.setattr(tasks, "_each_once", lambda work, several: met.append(1) or real(work, several))
    living, _ = joined(tmp_path, spec, "living")
    assert met
    assert margin_report(tmp_path, "living").full_because is None
    assert_same_as_whole(tmp_path, spec)
    living.rollback(1)
    monkeypatch.setattr(tasks, "_each_once", lambda work, several: None)
    _, report = joined(tmp_path, spec, "living")
    assert report.full_because is None
    assert "cannot be told apart" in (margin_report(tmp_path, "living").full_because or "")
    assert_same_as_whole(tmp_path, spec)


def assert_same_as_whole(place: Path, spec: dict[str, Any] = MATCH) -> None:
    """The newest outcome is what a full run makes."""
    whole, _ = joined(place, spec, "whole", full=True)
    living = Catalog.open(place / "catalogs" / "living")
    assert_equal_outcomes(living, whole)
    living.verify().raise_if_failed()


class TestRowsOfSeveralMargins:
    """Rows without numbers, near two pixels that are one now."""

    work: Any = SimpleNamespace(position=SimpleNamespace(ra="ra", dec="dec"))

    def rows(self, *places: tuple[int, float]) -> pa.Table:
        h29, ra = (np.array(column) for column in zip(*places, strict=True))
        return pa.table({"_healpix_29": h29, "ra": ra, "dec": np.zeros(len(ra))})

    def together(self, *several: pa.Table) -> list[tuple[int, float]] | None:
        found = tasks._each_once(self.work, list(several))
        return None if found is None else [(row["_healpix_29"], row["ra"]) for row in found.to_pylist()]

    def test_each_is_there_once(self) -> None:
        one, other = (
            self.rows((1, 0.1), (4, 0.3), (4, 0.2), (4, 0.2)),
            self.rows((3, 0.0), (4, 0.3), (4, 0.2)),
        )
        assert self.together(one, other) is None
        other = self.rows((3, 0.0), (4, 0.3), (4, 0.2), (4, 0.2), (5, 0.9))
        expected = [(1, 0.1), (3, 0.0), (4, 0.3), (4, 0.2), (4, 0.2), (5, 0.9)]
        assert self.together(one, other) == expected
        assert self.together(one, other, self.rows((0, 0.7), (5, 0.9))) == [(0, 0.7), *expected]

    def test_an_order_that_is_not_known_is_not_guessed(self) -> None:
        assert self.together(self.rows((4, 0.3)), self.rows((4, 0.2))) is None
        assert self.together(self.rows((4, 0.3), (4, 0.2)), self.rows((4, 0.2), (4, 0.3))) is None
