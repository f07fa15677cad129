"""Nights of a survey whose rows come, change, move and go: after each, what follows equals a full rebuild.

One side of the match is in mode upsert, the other one in mode append; light curves are of objects that come
and sources that are added, corrected, withdrawn and given to other objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.steps.join import compare_sides

from tests.steps.join.living import LivingSide, published_twice, stars

UPSERT = {"mode": "upsert", "key": ["id"], "operation": {"column": "op"}}
MATCH: dict[str, Any] = {
    "type": "crossmatch",
    "left": {"catalog": "stars"},
    "right": {"catalog": "seen"},
    "radius_arcsec": 40,
    "threshold": "90 rows",
    "index": ["id"],
    "margin": {"arcsec": [30]},
}
CURVES: dict[str, Any] = {
    "type": "equijoin",
    "left": {"catalog": "objects", "columns": ["id", "mag", "name"]},
    "right": {"catalog": "sources", "columns": ["id", "time", "flux"]},
    "on": {"id": "object_id"},
    "nested": {"time": "time"},
    "threshold": "70 rows",
    "index": ["id"],
}
HOW: list[dict[str, Any]] = [
    {},
    {"how": "left", "neighbours": 3, "layout": "hipscat"},
    {"how": "outer", "neighbours": "mutual"},
    {"how": "anti"},
]
OF_STARS: list[dict[str, Any]] = [
    {"append": "rewrite"},
    {"append": "add_file", "layout": "hipscat"},
    {"column_groups": [{"name": "main", "columns": ["id", "ra", "dec"]}, {"name": "rest", "columns": "*"}]},
]


@dataclass
class Sky:
    """Five catalogs' worth of nights, drawn one after the other.

    `places` has the stars that stand, by id, in degrees; `owners` the object of each source.
    """

    place: Path
    rng: np.random.Generator
    of_stars: Mapping[str, Any]
    places: dict[int, tuple[float, float]] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    objects: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stars = LivingSide(self.place, "stars", UPSERT | dict(self.of_stars))
        self.seen = LivingSide(self.place, "seen")
        self.objects_side = LivingSide(
            self.place, "objects", {"co_partitioned": ["id"], "margin": {"arcsec": []}}
        )
        placed = {
            "position_from": {"catalog": "objects", "on": {"object_id": "id"}},
            "margin": {"arcsec": []},
        }
        self.sources = LivingSide(self.place, "sources", UPSERT | placed)

    def night(self, number: int) -> None:
        """Let a night come to every catalog; to some a late one, or one that came before."""
        again = number if number < 3 or self.rng.random() < 0.7 else int(self.rng.integers(number))
        self.stars.night(again, self._stars_of(number, 300 if number == 0 else 40))
        fresh = stars(number, 120 if number < 3 else 30, seed=number)
        near = self._near_stars(40)
        self.seen.night(again, pa.concat_tables([fresh, near.cast(fresh.schema)]))
        if number < 3 or self.rng.random() < 0.3:
            rows = stars(number, 90 if number < 3 else 12, seed=50)
            self.objects_side.night(number, rows)
            self.objects |= {
                key: (ra, dec)
                for key, ra, dec in zip(
                    *(rows[name].to_pylist() for name in ("id", "ra", "dec")), strict=True
                )
            }
        self.sources.night(number, self._sources_of(number, 300 if number == 0 else 60))
        if self.rng.random() < 0.15:
            [self.stars, self.sources, self.seen][int(self.rng.integers(3))].compact()
        if self.rng.random() < 0.1:
            side = [self.stars, self.seen][int(self.rng.integers(2))]
            side.roll_back(max(1, side.catalog.version - 1))

    def _stars_of(self, number: int, count: int) -> pa.Table:
        """Records of stars: a third new ones, the others of such that came: corrected, moved, withdrawn."""
        rows: dict[int, tuple[str, float | None, float | None]] = {}
        known = list(self.places)
        for _ in range(count):
            what = self.rng.choice(["new", "same", "near", "far", "gone"], p=[0.34, 0.2, 0.2, 0.1, 0.16])
            if what == "new" or not known:
                key = number * 100_000 + len(rows)
                self.places[key] = (self.rng.uniform(40, 80), self.rng.uniform(-4, 4))
                rows[key] = ("I", *self.places[key])
                continue
            key = known[int(self.rng.integers(len(known)))]
            if what == "gone":
                rows[key] = ("D", None, None)
                continue
            ra, dec = self.places[key]
            off = {"same": 0.0, "near": 10 / 3600, "far": 3.0}[what]
            self.places[key] = (
                ra + self.rng.normal() * off,
                float(np.clip(dec + self.rng.normal() * off, -9, 9)),
            )
            rows[key] = ("U", *self.places[key])
        return pa.table(
            {
                "op": pa.array([op for op, _, _ in rows.values()], pa.string()),
                "id": pa.array(list(rows), pa.int64()),
                "ra": pa.array([ra for _, ra, _ in rows.values()], pa.float64()),
                "dec": pa.array([dec for _, _, dec in rows.values()], pa.float64()),
                "mag": self.rng.normal(18, 2, len(rows)).round(3),
            }
        )

    def _near_stars(self, count: int) -> pa.Table:
        """Rows of the other side that lie near stars."""
        known = list(self.places.values())
        at = self.rng.integers(0, len(known), count)
        ra, dec = np.array([known[each] for each in at]).T
        rows = stars(29, count, seed=int(self.rng.integers(1 << 20)))
        off = self.rng.normal(0, 15 / 3600, (2, count))
        return rows.set_column(1, "ra", pa.array(ra + off[0])).set_column(2, "dec", pa.array(dec + off[1]))

    def _sources_of(self, number: int, count: int) -> pa.Table:
        """Records of sources: new ones, and such as are corrected, given to other objects, or withdrawn."""
        rows: dict[int, tuple[str, int | None]] = {}
        objects, known = list(self.objects), list(self.owners)
        for _ in range(count):
            what = self.rng.choice(["new", "same", "other", "gone"], p=[0.6, 0.15, 0.1, 0.15])
            if what == "new" or not known:
                key = number * 100_000 + len(rows)
                self.owners[key] = objects[int(self.rng.integers(len(objects)))]
                rows[key] = ("I", self.owners[key])
                continue
            key = known[int(self.rng.integers(len(known)))]
            if what == "other":
                self.owners[key] = objects[int(self.rng.integers(len(objects)))]
            rows[key] = ("D", None) if what == "gone" else ("U", self.owners[key])
        where = [(None, None) if owner is None else self.objects[owner] for _, owner in rows.values()]
        return pa.table(
            {
                "op": pa.array([op for op, _ in rows.values()], pa.string()),
                "id": pa.array(list(rows), pa.int64()),
                "object_id": pa.array([owner for _, owner in rows.values()], pa.int64()),
                "ra": pa.array([ra for ra, _ in where], pa.float64()),
                "dec": pa.array([dec for _, dec in where], pa.float64()),
                "time": self.rng.uniform(0, 9, len(rows)).round(1),
                "flux": self.rng.normal(9, 1, len(rows)),
            }
        )


@pytest.mark.parametrize(
    ("nights", "which"),
    [(2, 0), *(pytest.param(30, which, marks=pytest.mark.slow) for which in range(len(HOW)))],
)
def test_after_each_night_what_follows_is_a_full_rebuild_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nights: int, which: int
) -> None:
    monkeypatch.setattr(compare_sides, "MOST_CHANGED", 1.0)  # these skies are small
    sky = Sky(tmp_path, np.random.default_rng(which), OF_STARS[which % len(OF_STARS)])
    kept = 0
    for number in range(nights):
        sky.night(number)
        reports = [
            published_twice(tmp_path, MATCH | HOW[which], ("match", "match_anew")),
            published_twice(tmp_path, CURVES, ("curves", "curves_anew")),
        ]
        expected = "there is no version yet" if number == 0 else None
        assert [report.full_because for report in reports] == [expected, expected]
        kept += sum(report.leaves_kept for report in reports)
    assert kept > 0
    for name in ("stars", "seen", "objects", "sources", "match", "curves"):
        Catalog.open(tmp_path / "catalogs" / name).verify(all=True).raise_if_failed()
