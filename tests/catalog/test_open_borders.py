"""Matches without a margin: the pairs inside leaves, and every row that lacks a partner is counted."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.joining.stretches import plan_stretches
from hipslake.errors import SpecError
from hipslake.joins.pair_scores import pair_score
from hipslake.specs.join_specs import MatchOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.margins_by_hand import pixels_with_margin
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.examples import examples
from tests.joins.skies import placed

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

ROWS = 220
CENTRES = [(0.0, 0.0), (45.0, 41.81), (10.0, 88.0), (200.0, -88.0), (100.0, -20.0)]
WHICH = [1, 3, "all", "best", "mutual"]
REACHES = {"mutual": 2.0, "best": 3.0}
Pairs = set[tuple[int | None, int | None]]


def patch(rng: np.random.Generator, centre: tuple[float, float], rows: int = ROWS) -> pa.Table:
    """Rows of one patch of some degrees."""
    dec = centre[1] + 3 * rng.normal(size=rows)
    across = 3 * rng.normal(size=rows) / np.cos(np.radians(np.clip(dec, -85, 85)))
    place = placed(centre[0] + across, dec)
    return rows_at(place.ra, place.dec)


def tiles_of(catalog: Catalog) -> tuple[list[tuple[int, int]], list[bool]]:
    """The leaves and the coarsest pixels between them, and which are leaves."""
    order, npix = catalog.pixels.order, catalog.pixels.npix
    leaves = set(zip(order.tolist(), npix.tolist(), strict=True))
    tiles = pixels_with_margin(order, npix)
    return tiles, [tile in leaves for tile in tiles]


def tile_of(tiles: list[tuple[int, int]], rows: pa.Table) -> np.ndarray:
    """The tile that each row lies in."""
    found = np.full(rows.num_rows, -1)
    for at, (order, npix) in enumerate(tiles):
        there = healpy.ang2pix(1 << order, *degrees(rows), nest=True, lonlat=True)
        found[there == npix] = at
    return found


def degrees(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    return rows["ra"].to_numpy(), rows["dec"].to_numpy()


def chosen(apart: np.ndarray, radius: float, which: Any) -> set[tuple[int, int]]:
    """The pairs of a match, of all that may be one: the others are infinitely far apart."""
    if which not in ("best", "mutual"):
        return nearest_pairs(apart, radius, None if which == "all" else which)
    pairs = nearest_pairs(apart, radius, 1)
    if which == "mutual":
        back = {(left, right) for right, left in nearest_pairs(apart.T, radius, 1)}
        return pairs & back
    keeper: dict[int, int] = {}
    for left, right in sorted(pairs, key=lambda pair: (apart[pair], pair[0])):
        keeper.setdefault(right, left)
    return {(left, right) for right, left in keeper.items()}


def outcome(pairs: set[tuple[int, int]], how: str) -> Pairs:
    """With the rows that have no partner, where they are kept."""
    found: Pairs = set(pairs)
    if how != "inner":
        found |= {(row, None) for row in range(ROWS) if row not in {left for left, _ in pairs}}
    if how == "outer":
        found |= {(None, row) for row in range(ROWS) if row not in {right for _, right in pairs}}
    return found


def borders(
    rows: pa.Table, right: Catalog, radius: float, *, one_to_one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows surely lie within a distance of another leaf, and which may: by points on the edges."""
    tiles, leaf = tiles_of(right)
    own = tile_of(tiles, rows)
    points = healpy.ang2vec(*degrees(rows), lonlat=True)
    sure, possible = np.zeros(rows.num_rows, bool), np.zeros(rows.num_rows, bool)
    for at, (order, npix) in enumerate(tiles):
        edge = healpy.boundaries(1 << order, npix, step=96, nest=True).T
        between = np.degrees(2 * np.arcsin(np.linalg.norm(edge - np.roll(edge, 1, 0), axis=1).max() / 2))
        chord = np.linalg.norm(points[:, None] - edge[None], axis=2).min(axis=1)
        away = 3600 * np.degrees(2 * np.arcsin(chord / 2))
        asked = (own != at) & (leaf[at] | (one_to_one & np.array(leaf)[own]))
        sure |= asked & (away <= radius)
        possible |= asked & (away <= radius + 3600 * between)
    return sure, possible


@given(
    seed=st.integers(0, 2**20),
    centre=st.sampled_from(CENTRES),
    radius=st.sampled_from([300.0, 1500.0, 3600.0]),
    which=st.sampled_from(WHICH),
    how=st.sampled_from(["inner", "left", "outer"]),
    thresholds=st.tuples(st.sampled_from([15, 60, 5000]), st.sampled_from([15, 60])),
    layout=st.sampled_from(["hats", "hipscat"]),
)
@settings(max_examples=examples(10), deadline=None)
def test_pairs_are_those_inside_leaves_and_rows_that_lack_one_are_counted(
    seed: int,
    centre: tuple[float, float],
    radius: float,
    which: Any,
    how: str,
    thresholds: tuple[int, int],
    layout: str,
) -> None:
    rng = np.random.default_rng(seed)
    left, right = patch(rng, centre), patch(rng, centre)
    with tempfile.TemporaryDirectory() as folder:
        a, b = (
            published(folder, name, rows, threshold=f"{most} rows", layout=layout)
            for name, rows, most in zip("ab", (left, right), thresholds, strict=True)
        )
        asked = {"radius_arcsec": radius, "neighbours": which, "how": how}
        found = a.crossmatch(b, missing_margin="none", **asked)
        sides = ((a.storage, a.metadata), (b.storage, b.metadata))
        match = Crossmatch.of([Pairing.of(*sides, MatchOptions(**asked), missing_margin="none")])
        assert match.open_borders is not None
        h29 = healpy.ang2pix(1 << 29, *degrees(left), nest=True, lonlat=True)
        near = match.open_borders.near(h29, *degrees(left))
        tiles, leaf = tiles_of(b)
        sure, possible = borders(left, b, REACHES.get(which, 1.0) * radius, one_to_one=which in REACHES)
    apart = separations(left, right)
    homes = tile_of(tiles, left)
    together = (homes[:, None] == tile_of(tiles, right)[None]) & np.array(leaf)[homes][:, None]
    inside = chosen(np.where(together, apart, np.inf), radius, which)
    assert set(pairs_of(found)) == outcome(inside, how)
    assert found.num_rows == len(outcome(inside, how))
    assert found["_healpix_29"].to_pylist() == sorted(found["_healpix_29"].to_pylist())
    differing = inside ^ chosen(apart, radius, which)
    assert near[[row for row, _ in differing]].all()
    assert not (sure & ~near).any()
    assert not (near & ~possible).any()
    assert int(found.schema.metadata[b"rows_near_borders"]) == near.sum()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalog, Catalog, Catalog]:
    """A left side, a right one without a margin, and the same with one."""
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("sides")
    moving = {"pmra": pa.array(rng.normal(0, 1500, ROWS)), "err": pa.array(rng.uniform(50, 400, ROWS))}
    tables = []
    for _ in "ab":
        table = patch(rng, CENTRES[1])
        for name, column in moving.items():
            table = table.append_column(name, column)
        table = table.append_column("fast", pa.array(np.full(ROWS, 3e6)))
        tables.append(table.append_column("pmdec", table["pmra"]))
    a = published(folder, "a", tables[0], threshold="40 rows")
    b = published(folder, "b", tables[1], threshold="25 rows")
    return a, b, published(folder / "wide", "b", tables[1], threshold="25 rows", margin_arcsec=3600.0)


def test_some_pairs_are_missing_and_that_is_said(
    sides: tuple[Catalog, Catalog, Catalog], caplog: pytest.LogCaptureFixture
) -> None:
    a, b, wide = sides
    with caplog.at_level(logging.WARNING):
        found = a.crossmatch(b, radius_arcsec=1800, neighbours="all", missing_margin="none")
    whole = a.crossmatch(wide, radius_arcsec=1800, neighbours="all")
    lacking = {row for row, _ in set(pairs_of(whole)) - set(pairs_of(found))}
    number = int(found.schema.metadata[b"rows_near_borders"])
    assert 10 < len(lacking) <= number < ROWS
    told = (
        f"catalog b has no margin of 1800 arcsec, and is matched without one: {number} rows of a lie so near"
    )
    assert told in caplog.text


def test_a_margin_that_is_there_is_used(
    sides: tuple[Catalog, Catalog, Catalog], caplog: pytest.LogCaptureFixture
) -> None:
    a, _, wide = sides
    found = a.crossmatch(wide, radius_arcsec=1800, neighbours="best", how="outer", missing_margin="none")
    assert found.equals(a.crossmatch(wide, radius_arcsec=1800, neighbours="best", how="outer"))
    assert not found.schema.metadata
    assert not caplog.text
    # It is too narrow for more.
    assert a.crossmatch(
        wide, radius_arcsec=3600, missing_margin="none", motion=MOTION, epoch=2100.0
    ).schema.metadata


MOTION = {"pmra": "pmra", "pmdec": "pmdec"}
FAST = {"pmra": "fast", "pmdec": "pmdec"}


@pytest.mark.parametrize(
    "asked",
    [
        {"radius_arcsec": 600, "motion": MOTION, "other_motion": MOTION, "epoch": 2100.0},
        {"radius": {"left": "err", "right": "err", "sigmas": 2.0}},
        {"radius_arcsec": 1200, "filters": "id > 60", "other_filters": "id < 200", "how": "left"},
        {"radius_arcsec": 1200, "region": "cone 45 41.8 3deg"},
    ],
    ids=["motion", "errors", "filters", "region"],
)
def test_whatever_is_asked_rows_that_lack_a_partner_are_counted(
    sides: tuple[Catalog, Catalog, Catalog], asked: dict[str, Any]
) -> None:
    a, b, wide = sides
    found = a.crossmatch(b, neighbours="all", missing_margin="none", **asked)
    whole = a.crossmatch(wide, neighbours="all", **asked)
    kept = set(pairs_of(whole)) & set(pairs_of(found))
    lacking = {row for row, partner in set(pairs_of(whole)) - set(pairs_of(found)) if partner is not None}
    if asked.get("how") != "left":
        assert kept == set(pairs_of(found))
    number = int(found.schema.metadata[b"rows_near_borders"])
    taking_part = a.read(["id"], region=asked.get("region"), filters=asked.get("filters")).num_rows
    assert 0 < len(lacking) <= number < taking_part


@pytest.mark.sampled(4)
@pytest.mark.parametrize("which", ["all", "best"])
@pytest.mark.parametrize("how", ["inner", "outer"])
def test_how_the_curve_is_cut_changes_nothing(
    sides: tuple[Catalog, Catalog, Catalog], which: Any, how: Any
) -> None:
    a, b, _ = sides
    options = MatchOptions(radius_arcsec=1800, neighbours=which, how=how)
    sides = ((a.storage, a.metadata), (b.storage, b.metadata))
    match = Crossmatch.of([Pairing.of(*sides, options, missing_margin="none")])
    assert match.open_borders is not None
    whole, number = match.table(0, 12 << 58), match.open_borders.count(0, 12 << 58)
    for most_rows in (1, 50, 10_000):
        plan = match.stretches(most_rows)
        stretches = list(zip(plan.start.tolist(), plan.stop.tolist(), strict=True))
        assert pa.concat_tables([match.table(*stretch) for stretch in stretches]).equals(whole)
        assert sum(match.open_borders.count(*stretch) for stretch in stretches) == number > 0
    bounds = [0, *plan_stretches(a.storage, a.metadata, 30).start[1::2].tolist(), 12 << 58]
    parts = [match.table(*bounds[at : at + 2]) for at in range(len(bounds) - 1)]
    assert pa.concat_tables(parts).equals(whole)


def test_left_rows_where_the_right_side_has_no_leaf_are_counted(tmp_path: Path) -> None:
    """Its only leaf ends at ra 45: the partners of what lies east of it are over the border."""
    right = rows_at(np.array([44.95, 20.0, 30.0]), np.array([0.0, 10.0, 5.0]))
    left = rows_at(np.array([45.05, 46.0, 40.0]), np.array([0.0, 0.0, 0.3]))
    a, b = published(tmp_path, "a", left), published(tmp_path, "b", right)
    for which in (1, "best"):
        found = a.crossmatch(b, radius_arcsec=600, neighbours=which, missing_margin="none")
        assert found.num_rows == 0
        assert int(found.schema.metadata[b"rows_near_borders"]) == 1


@pair_score
def shared(candidates: pa.Table) -> np.ndarray:
    """A left row of several candidates is less sure of each."""
    rows = candidates["left_row"].to_numpy()
    return (1 - candidates["separation_arcsec"].to_numpy() / 3600) / np.bincount(rows)[rows]


def test_rows_whose_rivals_score_otherwise_beyond_the_border_are_counted(tmp_path: Path) -> None:
    """The border is at ra 90. Beyond it, the rival of the row at 89.2 has another candidate."""
    left = rows_at(np.array([89.2, 89.78]), np.full(2, 60.0))
    right = rows_at(np.array([89.5, 90.07]), np.full(2, 60.0))
    a, b = published(tmp_path, "a", left), published(tmp_path, "b", right)
    wide = published(tmp_path / "wide", "b", right, margin_arcsec=600.0)
    asked = {"radius_arcsec": 600, "neighbours": "mutual", "score": {"function": f"{__name__}:shared"}}
    found = a.crossmatch(b, missing_margin="none", **asked)
    assert pairs_of(found) == [(1, 0)]
    assert pairs_of(a.crossmatch(wide, **asked)) == [(0, 0)]
    assert int(found.schema.metadata[b"rows_near_borders"]) == 2


def test_what_makes_no_sense_without_a_margin_is_refused(sides: tuple[Catalog, Catalog, Catalog]) -> None:
    a, b, wide = sides
    for right in (b, wide):
        with pytest.raises(SpecError, match=r"'none' does not fit 'how: anti'.*take 'build', or 'how: left'"):
            a.crossmatch(right, radius_arcsec=10, how="anti", missing_margin="none")
    with pytest.raises(SpecError, match=r"'build' does not fit; take 'none' or 'refuse'.*hipslake.publish"):
        a.crossmatch(b, radius_arcsec=10, missing_margin="build")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"has no margin.*'missing_margin: none'"):
        a.crossmatch(b, radius_arcsec=10)
    with pytest.raises(SpecError, match=r"without a margin 36000 \(10 degrees\) are the most"):
        a.crossmatch(b, radius_arcsec=10, missing_margin="none", motion=FAST, epoch=2200.0)


def test_the_unmatched_left_rows_near_borders_are_no_more_than_counted(
    sides: tuple[Catalog, Catalog, Catalog],
) -> None:
    a, b, wide = sides
    lone, alone = (
        set(found.filter(pc.is_null(found["id_b"]))["id"].to_pylist())
        for found in (
            a.crossmatch(b, radius_arcsec=1800, how="left", missing_margin="none"),
            a.crossmatch(wide, radius_arcsec=1800, how="left"),
        )
    )
    assert alone < lone
