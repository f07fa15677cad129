"""Matches within position errors, and pairs one to one, equal those of STILTS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.catalog.matching import published
from tests.joins.error_skies import crowded_patch
from tests.joins.stilts import Paired, needed_stilts, stilts_match, stilts_star

SIZE = 10.0
"""Arcseconds: the longest semi-axis."""
SCALE = 6 * SIZE
"""What STILTS is told of the sizes, which only sets its bins: told 10, it loses a pair at the corner of base
pixels of HEALPix, in the middle of the large patch."""
ELLIPSES = {"semi_major": "a", "semi_minor": "b", "position_angle": "pa"}
RADII: dict[str, dict[str, Any]] = {
    "skyerr": {"left": "a", "right": "a", "sigmas": 1, "combine": "sum"},
    "skyellipse": {"left": ELLIPSES, "right": ELLIPSES, "sigmas": 1, "combine": "sum"},
}
VALUES = {"skyerr": "ra dec a", "skyellipse": "ra dec a b pa"}
NEIGHBOURS: dict[str, Any] = {"all": "all", "best1": 1, "best": "best"}
LIMITS = {"skyerr": 1.0, "skyellipse": 2.0}
"""How near two regions are that just touch."""


class Sky:
    """Two catalogs on one patch, over the border of ra 0 and many leaves."""

    def __init__(self, folder: Path, rows: int, dec: float) -> None:
        self.folder = folder
        degrees = 2.0 * np.sqrt(rows / 100_000)
        self.left = crowded_patch(1, rows, degrees=degrees, size=SIZE, dec=dec)
        self.right = crowded_patch(2, rows, degrees=degrees, size=SIZE, dec=dec)
        threshold = f"{rows // 12} rows"
        self.a = published(folder, "a", self.left, threshold=threshold)
        self.b = published(folder, "b", self.right, threshold=threshold, margin_arcsec=2 * SIZE)
        assert min(len(self.a.pixels), len(self.b.pixels)) > 10

    def ours(self, matcher: str, find: str) -> pa.Table:
        return self.a.crossmatch(
            self.b,
            radius=RADII[matcher],
            neighbours=NEIGHBOURS[find],
            nearness="nearness",
            columns=["id"],
            other_columns=["id"],
        )

    def theirs(self, matcher: str, find: str) -> Paired:
        return stilts_match(
            self.folder,
            self.left,
            self.right,
            matcher=matcher,
            values=VALUES[matcher],
            scale=SCALE,
            find=find,
        )


def assert_equal(ours: pa.Table, theirs: Paired, matcher: str, *, doubt: float) -> None:
    """The pairs are the same but for those whose regions just touch; so is how near they are."""
    expected = dict(
        zip(zip(theirs.left.tolist(), theirs.right.tolist(), strict=True), theirs.score, strict=True)
    )
    pairs = zip(ours["id"].to_pylist(), ours["id_b"].to_pylist(), strict=True)
    found = dict(zip(pairs, ours["nearness"].to_numpy(), strict=True))
    assert len(found) == ours.num_rows
    others = set(found) ^ set(expected)
    assert len(others) <= 1e-4 * len(expected)
    for pair in others:
        assert found.get(pair, expected.get(pair)) == pytest.approx(LIMITS[matcher], rel=doubt), pair
    both = sorted(set(found) & set(expected))
    mine, told = (np.array([near[pair] for pair in both]) for near in (found, expected))
    # On the edge of an ellipse the measure jumps from 1 to more.
    jumps = (np.abs(mine - told) > doubt) & (np.abs(np.minimum(mine, told) - 1.0) < doubt)
    assert np.count_nonzero(jumps) <= 1e-4 * len(both)
    np.testing.assert_allclose(mine[~jumps], told[~jumps], rtol=0, atol=doubt)


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Sky:
    needed_stilts()
    return Sky(tmp_path_factory.mktemp("little"), 2000, 0.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("matcher", "find"), [("skyerr", "best"), ("skyellipse", "all"), ("skyellipse", "best1")]
)
def test_matches_equal_those_of_stilts(little: Sky, matcher: str, find: str) -> None:
    theirs = little.theirs(matcher, find)
    assert len(theirs.pairs) > 500
    assert_equal(little.ours(matcher, find), theirs, matcher, doubt=1e-5)


def test_three_catalogs_match_as_those_of_stilts(little: Sky) -> None:
    """The nearest of each of two catalogs: rows of the first with a partner in either."""
    more = crowded_patch(3, 2000, degrees=2.0 * np.sqrt(0.02), size=SIZE, dec=0.0)
    c = published(little.folder, "c", more, threshold="200 rows", margin_arcsec=2 * SIZE)
    found = little.a.crossmatch(
        little.b,
        radius_arcsec=SIZE,
        how="left",
        columns=["id"],
        other_columns=["id"],
        further=[{"right": {"catalog": c, "columns": ["id"]}, "radius_arcsec": SIZE, "how": "left"}],
    )
    rows = zip(*(found[name].to_pylist() for name in ("id", "id_b", "id_c")), strict=True)
    ours = {row for row in rows if row[1:] != (None, None)}
    theirs = stilts_star(little.folder, [little.left, little.right, more], radius_arcsec=SIZE)
    assert ours == theirs
    assert sum(None not in row for row in ours) > 100
    assert sum(None in row for row in ours) > 100


@pytest.mark.slow
@pytest.mark.parametrize("find", ["all", "best1", "best"])
@pytest.mark.parametrize("matcher", ["skyerr", "skyellipse"])
def test_a_hundred_thousand_rows_match_as_those_of_stilts(large: Sky, matcher: str, find: str) -> None:
    theirs = large.theirs(matcher, find)
    assert len(theirs.pairs) > 25_000
    assert_equal(large.ours(matcher, find), theirs, matcher, doubt=1e-5)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Sky:
    needed_stilts()
    return Sky(tmp_path_factory.mktemp("large"), 100_000, 0.0)
