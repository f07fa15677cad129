"""Joins that go on where faces of HEALPix meet: a change on one of them decides partners on others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.catalog.sides_by_force import small
from tests.steps.join.living import LivingSide, margin_report, published_twice

PLACES = {
    "pole": (0.0, -90.0),
    "three faces": (90.0, float(np.degrees(np.arcsin(2 / 3)))),
    "four faces": (45.0, 0.0),
    "ra 0": (0.0, 20.0),
}
SPEC: dict[str, Any] = {
    "type": "crossmatch",
    "left": {"catalog": "a"},
    "right": {"catalog": "b"},
    "radius_arcsec": 200,
    "threshold": "15 rows",
    "margin": {"arcsec": [150]},
}


def around(place: tuple[float, float], number: int, rows: int, arcsec: float) -> pa.Table:
    """Rows that scatter about a place, of a night."""
    rng = np.random.default_rng([number, rows])
    ra, dec = np.radians(place)
    up = np.array([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)])
    east = np.array([-np.sin(ra), np.cos(ra), 0.0])
    off = rng.normal(0.0, np.radians(arcsec / 3600), (2, rows))
    x, y, z = (up + np.outer(off[0], east) + np.outer(off[1], np.cross(up, east))).T
    return pa.table(
        {
            "id": 1000 * number + np.arange(rows),
            "ra": np.degrees(np.arctan2(y, x)) % 360.0,
            "dec": np.degrees(np.arctan2(z, np.hypot(x, y))),
        }
    )


@pytest.mark.parametrize("how", [{}, {"neighbours": "best", "how": "outer"}, {"how": "anti"}], ids=repr)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("going_on")
@pytest.mark.sampled(14)
@pytest.mark.parametrize("small_side", ["left", "right", None])
def test_a_match_goes_on(tmp_path: Path, place: str, how: dict[str, Any], small_side: str | None) -> None:
    with small(small_side):
        assert_goes_on(tmp_path, PLACES[place], how)


def assert_goes_on(tmp_path: Path, place: tuple[float, float], how: dict[str, Any]) -> None:
    """Nights around a place give, joined one after another, what all rows joined at once give."""
    spec = {"threshold": "20 rows", "mapping_order": 11, "margin": {"arcsec": [200]}}
    a, b = (LivingSide(tmp_path, name, spec) for name in "ab")
    for side, rows in ((a, 150), (b, 160)):
        side.night(0, around(place, 0, rows, 2500.0))
    published_twice(tmp_path, SPEC | how)
    for number, (side, rows) in enumerate(((b, 5), (a, 6), (b, 4)), 1):
        side.night(number, around(place, number, rows, 100.0))
        report = published_twice(tmp_path, SPEC | how)
        assert report.full_because is None
        assert report.rows_joined < report.rows_out
        assert margin_report(tmp_path, "living").full_because is None
