"""Catalogs that other tools wrote are matched: as LSDB matches them, and as the plainest arithmetic does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog, adopt, publish

from tests.catalog.sides_by_force import matched
from tests.hats_writers.trees import TREES, Tree, expected, unpacked

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

MARGINS = [tree for tree in TREES if tree.kind == "margin" and tree.of and tree.of.endswith("/gaia")]
COLLECTIONS = [tree for tree in TREES if tree.kind == "collection" and "extended" not in tree.name]
PAIRS = [tree for tree in TREES if tree.name.endswith("/pairs")]
_REACH = 300.0  # arcseconds: all margins of the archive reach as far
_MATCH_ARCSEC = 5.0  # of the pairs in the archive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


def _points(table: pa.Table, ra: str, dec: str) -> np.ndarray:
    lon, lat = (np.radians(table[name].to_numpy().astype(float)) for name in (ra, dec))
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _near(left: Catalog, right: Catalog, arcsec: float) -> set[tuple[int, int]]:
    """All pairs within a radius, each with each."""
    mine, theirs = left.read(["HIP", "RAICRS", "DEICRS"]), right.read(["source_id", "ra", "dec"])
    chords = np.linalg.norm(
        _points(mine, "RAICRS", "DEICRS")[:, None] - _points(theirs, "ra", "dec")[None], axis=2
    )
    here, there = np.nonzero(chords <= 2 * np.sin(np.radians(arcsec / 3600) / 2))
    return {
        (mine["HIP"][int(a)].as_py(), theirs["source_id"][int(b)].as_py())
        for a, b in zip(here, there, strict=True)
    }


def _found(left: Catalog, right: Catalog, arcsec: float) -> set[tuple[int, int]]:
    """The pairs by a margin; they have to be those that a small side gives on either hand, without one."""
    by_margin, *others = (
        matched(side, left, right, radius_arcsec=arcsec, neighbours="all") for side in (None, "left", "right")
    )
    assert all(other.equals(by_margin) for other in others)
    return {*zip(by_margin["HIP"].to_pylist(), by_margin["source_id"].to_pylist(), strict=True)}


@pytest.mark.parametrize("margin", MARGINS, ids=str)
def test_a_margin_given_by_hand_finds_the_pairs_over_borders(margin: Tree, folder: Path) -> None:
    writer = folder / margin.writer
    left, right = (
        Catalog.open(writer / "hipparcos"),
        Catalog.open(writer / "gaia", margins=[folder / margin.name]),
    )
    wanted = _near(left, right, _REACH)
    assert len(wanted) >= 66
    assert _found(left, right, _REACH) == wanted


@pytest.mark.parametrize("collection", COLLECTIONS, ids=str)
def test_a_collection_is_a_right_side(collection: Tree, folder: Path) -> None:
    left = Catalog.open(folder / collection.writer / "hipparcos")
    right = Catalog.open(folder / collection.name)
    assert _found(left, right, _REACH) == _near(left, right, _REACH)


@pytest.mark.parametrize("pairs", PAIRS, ids=str)
def test_a_match_is_that_of_lsdb(pairs: Tree, folder: Path, tmp_path: Path) -> None:
    writer = folder / pairs.writer
    told = expected(pairs, folder)
    wanted = {*zip(told["source_id_gaia"].to_pylist(), told["HIP_hip"].to_pylist(), strict=True)}
    match = {
        "name": "pairs",
        "left": {"catalog": str(writer / "gaia")},
        "right": {"catalog": str(writer / "hipparcos"), "columns": ["HIP"]},
        "radius_arcsec": _MATCH_ARCSEC,
        "missing_margin": "build",
    }
    found = publish(match, warehouse=tmp_path).read(["source_id", "HIP"])
    assert {*zip(found["source_id"].to_pylist(), found["HIP"].to_pylist(), strict=True)} == wanted


@pytest.mark.parametrize("name", ["hats-import-0.11.1/gaia", "hipscat-import-0.3.5/gaia"])
def test_what_others_wrote_is_adopted_and_matched_by_name(name: str, folder: Path, tmp_path: Path) -> None:
    writer = (folder / name).parent
    spec = {"name": "gaia", "adopt": {"uri": str(folder / name)}, "margin": {"arcsec": [400]}}
    right = adopt(spec, warehouse=tmp_path)
    left = Catalog.open(writer / "hipparcos")
    assert right.verify().ok
    assert _found(left, right, _REACH) == _near(left, right, _REACH)
