"""Matches of catalogs of others, in every form that a tree may have: what comes out is what ours give."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError

from tests.catalog.foreign_trees import VARIANTS, variant
from tests.catalog.matching import pairs_of, published, rows_at, separations
from tests.catalog.publishing import Published
from tests.catalog.sides_by_force import matched
from tests.joins.skies import placed

pytestmark = [pytest.mark.sampled(6), pytest.mark.usefixtures("large_sides")]

ROWS = 250
ELLIPSE = {"semi_major": "major", "semi_minor": "minor", "position_angle": "angle"}
SCORE = {
    "function": "hipslake.joins.likelihood_ratio:likelihood_ratio",
    "left": "major",
    "right": ["minor", "mag"],
    "parameters": {
        "left_error": "major",
        "right_error": "minor",
        "magnitude": "mag",
        "edges": [0.0, 12.0, 30.0],
        "counterparts": [0.4, 0.5],
        "background": [1e-4, 1e-3],
    },
}
ASKED: dict[str, dict[str, Any]] = {
    "circles": {"radius": {"left": "major", "right": "minor", "sigmas": 2.0}, "nearness": "near"},
    "ellipses": {"radius": {"left": ELLIPSE, "right": ELLIPSE, "sigmas": 1.5, "combine": "sum"}},
    "mutual within errors": {
        "radius": {"left": {"error": "major", "maximum": 60.0}, "sigmas": 1.0},
        "neighbours": "mutual",
        "filters": "major < 50",
    },
    "score": {"radius_arcsec": 60.0, "score": SCORE, "neighbours": 2, "rank": "rank"},
    "best score": {"radius_arcsec": 60.0, "score": SCORE, "neighbours": "best", "how": "left"},
    "best": {"radius_arcsec": 60.0, "neighbours": "best", "how": "outer"},
    "outer": {"radius_arcsec": 40.0, "neighbours": "all", "how": "outer", "region": "cone 45 41.8 5arcmin"},
    "anti": {"radius_arcsec": 30.0, "how": "anti", "other_filters": "mag < 15"},
    "not too near": {"radius_arcsec": 60.0, "min_radius_arcsec": 20.0, "neighbours": "all"},
}


class Sides(NamedTuple):
    """Two catalogs of ours, of which the right one has a margin, and where the tree of that lies."""

    left: Published
    right: Published
    wide: Catalog
    margin: Path


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    rng, folder = np.random.default_rng(4), tmp_path_factory.mktemp("ours")
    found = []
    for name, threshold in (("a", 120), ("b", 80)):
        place = placed(45 + 0.1 * rng.normal(size=ROWS), 41.81 + 0.08 * rng.normal(size=ROWS))
        minor = rng.uniform(1, 15, ROWS)
        rows = rows_at(
            place.ra,
            place.dec,
            minor=minor,
            major=pa.array(minor * rng.uniform(1, 4, ROWS), mask=rng.uniform(size=ROWS) < 0.05),
            angle=rng.uniform(0, 180, ROWS),
            mag=rng.uniform(8, 20, ROWS),
        )
        ours = published(folder, name, rows, threshold=f"{threshold} rows")
        found.append(Published(ours.storage, ours.metadata, rows, (place.ra, place.dec)))
    wide = Catalog(*found[1][:2]).build_margin(300.0)
    margin = wide.metadata.margin(300.0)
    assert margin is not None
    return Sides(*found, wide, Path(wide.metadata.margin_uri(margin, wide.storage)))


@pytest.fixture(scope="module", params=list(VARIANTS))
def others(
    request: pytest.FixtureRequest, sides: Sides, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Catalog, Catalog, Catalog]:
    """The same as trees of others: the left side, and the right one with its margin and without."""
    folder = tmp_path_factory.mktemp("others")
    left = variant(sides.left, request.param, folder / "a")
    right = variant(sides.right, request.param, folder / "b")
    return Catalog.open(left), Catalog.open(right, margins=[sides.margin]), Catalog.open(right)


@pytest.fixture(scope="module")
def wanted(sides: Sides) -> dict[str, pa.Table]:
    """What ours give of each kind of match."""
    mine = Catalog(*sides.left[:2])
    return {name: mine.crossmatch(sides.wide, **asked, suffixes=("", "_b")) for name, asked in ASKED.items()}


def told(table: pa.Table) -> pa.Table:
    """The rows in an order of their own, without notes."""
    ids = [(name, "ascending") for name in ("id", "id_b") if name in table.column_names]
    return table.replace_schema_metadata(None).sort_by(ids).combine_chunks()


def kept(others: tuple[Catalog, ...]) -> dict[str, Any]:
    """What is kept of the right side: the old index of HiPSCat is none of the margin's columns."""
    names = [name for name in others[1].schema.names if name not in ("_hipscat_index", "_healpix_29")]
    return {"suffixes": ("", "_b"), "other_columns": names}


def same(found: pa.Table, wanted: pa.Table) -> bool:
    found, wanted = told(found.select(wanted.column_names)), told(wanted)
    return all(mine.equals(theirs) for mine, theirs in zip(found.columns, wanted.columns, strict=True))


def test_every_kind_of_match_is_that_of_ours(
    others: tuple[Catalog, Catalog, Catalog], wanted: dict[str, pa.Table]
) -> None:
    left, right, _ = others
    for name, asked in ASKED.items():
        assert wanted[name].num_rows > 10, name
        assert same(left.crossmatch(right, **asked, **kept(others)), wanted[name]), name


def test_one_side_may_be_ours(
    others: tuple[Catalog, Catalog, Catalog], sides: Sides, wanted: dict[str, pa.Table]
) -> None:
    left, right, _ = others
    for name in ("ellipses", "best"):
        asked = ASKED[name]
        mine = Catalog(*sides.left[:2])
        assert same(mine.crossmatch(right, **asked, **kept(others)), wanted[name]), name
        assert same(left.crossmatch(sides.wide, **asked, suffixes=("", "_b")), wanted[name]), name


@pytest.mark.parametrize("side", ["left", "right"])
def test_either_side_may_be_a_small_one_without_a_margin(
    others: tuple[Catalog, Catalog, Catalog], wanted: dict[str, pa.Table], side: str
) -> None:
    left, _, bare = others
    for name, asked in ASKED.items():
        assert same(matched(side, left, bare, **asked, **kept(others)), wanted[name]), name


@pytest.mark.parametrize("which", ["all", "best"])
def test_without_a_margin_they_match_as_ours_do(
    others: tuple[Catalog, Catalog, Catalog], sides: Sides, which: Any
) -> None:
    left, _, bare = others
    asked: dict[str, Any] = {
        "radius_arcsec": 60.0,
        "neighbours": which,
        "how": "outer",
        "suffixes": ("", "_b"),
    }
    ours = Catalog(*sides.left[:2]), Catalog(*sides.right[:2])
    wanted = ours[0].crossmatch(ours[1], missing_margin="none", **asked)
    found = left.crossmatch(bare, missing_margin="none", **asked)
    assert same(found, wanted)
    assert found.schema.metadata == wanted.schema.metadata
    assert int(found.schema.metadata[b"rows_near_borders"]) > 0


def test_pairs_are_those_by_hand(others: tuple[Catalog, Catalog, Catalog], sides: Sides) -> None:
    left, right, _ = others
    apart = separations(sides.left.source, sides.right.source)
    errors = [side.source["major"].to_numpy(zero_copy_only=False) for side in sides[:2]]
    reach = 2.0 * np.hypot(errors[0][:, None], errors[1][None])  # NaN where an error is not known
    wanted = {(int(i), int(j)) for i, j in np.argwhere(apart <= reach)}
    found = left.crossmatch(
        right,
        radius={"left": "major", "right": "major", "sigmas": 2.0},
        neighbours="all",
        **kept(others),
    )
    assert set(pairs_of(found)) == wanted
    assert len(wanted) > 100


def test_errors_that_make_no_sense_are_told_of_others_too(sides: Sides, tmp_path: Path) -> None:
    left = Catalog.open(variant(sides.left, "folders, mixed up", tmp_path / "a"))
    right = Catalog.open(variant(sides.right, "mixed up", tmp_path / "b"), margins=[sides.margin])
    with pytest.raises(SpecError, match="maximum"):
        left.crossmatch(right, radius={"left": {"error": "major", "maximum": 2.0}, "sigmas": 1.0})
    with pytest.raises(SchemaMismatchError, match="did you mean 'major'"):
        left.crossmatch(right, radius={"left": "mayor", "sigmas": 1.0})
    with pytest.raises(SpecError, match="has no margin of"):
        left.crossmatch(right, radius={"left": "major", "right": "major", "sigmas": 20.0})


def test_a_margin_that_lacks_columns_is_refused_unless_they_are_not_kept(
    sides: Sides, tmp_path: Path
) -> None:
    left = Catalog(*sides.left[:2])
    right = Catalog.open(variant(sides.right, "hipscat", tmp_path / "b"), margins=[sides.margin])
    with pytest.raises(SpecError, match="has no column '_hipscat_index'; name the 'columns' that are kept"):
        left.crossmatch(right, radius_arcsec=30.0)
    with pytest.raises(SpecError, match="has no column '_hipscat_index'"):
        left.crossmatch(right, radius_arcsec=30.0, other_columns=["id"], other_filters="_hipscat_index > 1")
    assert left.crossmatch(right, radius_arcsec=30.0, other_columns=["id"]).num_rows > 10


def test_a_margin_of_another_catalog_is_refused(sides: Sides, tmp_path: Path) -> None:
    """That of finer leaves holds other rows than these leaves need."""
    coarse = published(tmp_path, "coarse", sides.right.source, threshold="300 rows")
    shutil.copytree(Path(coarse.path()) / "main", tmp_path / "tree")
    left = Catalog(*sides.left[:2])
    right = Catalog.open(tmp_path / "tree", margins=[sides.margin])
    with pytest.raises(SpecError, match="filed under other pixels than its leaves"):
        left.crossmatch(right, radius_arcsec=30.0)
