"""Catalogs are matched within the errors of their rows, over all borders; what is no error is told before."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.joins.best_pairs import OneToOne
from hipslake.joins.error_regions import ErrorRegions
from hipslake.joins.motion import Motion, propagate
from hipslake.joins.pair_grid import SkyPositions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky
from tests.catalog.matching import pairs_of, published, rows_at
from tests.examples import examples
from tests.joins.error_skies import some_errors
from tests.joins.errors_by_hand import judged
from tests.joins.skies import placed

pytestmark = pytest.mark.usefixtures("large_sides")

ROWS = 250
CENTRES = [(0.0, 0.0), (10.0, 90.0), (200.0, -90.0), (45.0, 41.81)]
ELLIPSE = {"semi_major": "major", "semi_minor": "minor", "position_angle": "angle", "unit": "mas"}
CIRCLE = {"error": "major", "unit": "mas"}


def table_of(side: SkyPositions, **more: Any) -> pa.Table:
    """The rows, with errors in milliarcseconds; some that are not known are null."""
    assert side.errors is not None
    errors = {
        "major": pa.array(1000 * side.errors.semi_major, from_pandas=True),
        "minor": 1000 * side.errors.semi_minor,
        "angle": side.errors.angle,
    }
    return rows_at(side.ra, side.dec, **errors, **more)


def two_sides(seed: int, centre: tuple[float, float], size: float, elliptical: bool) -> list[SkyPositions]:
    """Two views of one patch, of which the errors are about the distances."""
    rng = np.random.default_rng(seed)
    width = size / 3600 * 8

    def side() -> SkyPositions:
        across = width * rng.normal(size=ROWS) / np.cos(np.radians(np.clip(centre[1], -85, 85)))
        place = placed(centre[0] + across, centre[1] + width * rng.normal(size=ROWS))
        return replace(place, errors=some_errors(rng, ROWS, size, elliptical=elliptical))

    return [side(), side()]


def expected_pairs(
    sides: list[SkyPositions], combine: str, sigmas: float, elliptical: bool
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The pairs that there have to be, and those that there may be."""
    told = judged(sides[0], sides[1], combine, sigmas, elliptical)
    largest = [side.errors.largest for side in sides if side.errors is not None]
    known = np.isfinite(largest[0])[:, None] & np.isfinite(largest[1])[None, :]
    doubt = 2e-3 * told.limit
    sure = np.argwhere(known & (told.nearness < told.limit - doubt))
    possible = np.argwhere(known & (told.nearness <= told.limit + doubt))
    return {(int(i), int(j)) for i, j in sure}, {(int(i), int(j)) for i, j in possible}


@given(
    seed=st.integers(0, 2**20),
    centre=st.sampled_from(CENTRES),
    size=st.sampled_from([1.0, 100.0]),
    combine=st.sampled_from(["quadrature", "sum"]),
    kinds=st.sampled_from([(CIRCLE, CIRCLE), (ELLIPSE, ELLIPSE), (CIRCLE, ELLIPSE)]),
    thresholds=st.tuples(st.sampled_from([20, 5000]), st.sampled_from([20, 60])),
    layout=st.sampled_from(["hats", "hipscat"]),
)
@settings(max_examples=examples(6), deadline=None)
def test_a_match_within_errors_equals_one_by_hand(
    seed: int,
    centre: tuple[float, float],
    size: float,
    combine: str,
    kinds: tuple[dict[str, str], dict[str, str]],
    thresholds: tuple[int, int],
    layout: str,
) -> None:
    sides = two_sides(seed, centre, size, kinds[1] is ELLIPSE)
    if kinds[0] is not kinds[1]:  # what the left side says of its minor axes is not asked for
        assert sides[0].errors is not None
        major = sides[0].errors.semi_major
        sides[0] = replace(sides[0], errors=ErrorRegions(major, major, np.zeros(ROWS)))
    needed, possible = expected_pairs(sides, combine, 1.5, kinds[1] is ELLIPSE)
    with tempfile.TemporaryDirectory() as folder:
        a, b = (
            published(
                folder,
                name,
                table_of(side),
                threshold=f"{most} rows",
                margin_arcsec=10 * size if name == "b" else None,
                layout=layout,
                parquet={"row_group_rows": 40},
            )
            for name, side, most in zip("ab", sides, thresholds, strict=True)
        )
        radius = {"left": kinds[0], "right": kinds[1], "sigmas": 1.5, "combine": combine}
        found = a.crossmatch(b, radius=radius, neighbours="all", nearness="near", rank="rank")
    pairs = pairs_of(found)
    assert len(set(pairs)) == len(pairs)
    assert needed <= set(pairs) <= possible
    assert len(needed) > 50
    near, rows = found["near"].to_numpy(), np.array([row for row, _ in pairs])
    again = rows[1:] == rows[:-1]
    assert np.all(near[1:][again] >= near[:-1][again])
    assert found["rank"].to_numpy()[0] == 1


@pytest.fixture(scope="module")
def patch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalog, Catalog, list[SkyPositions]]:
    """Two crowded catalogs in small leaves, with the errors of the right one in another column group."""
    sides = two_sides(11, (359.99, 12.0), 5.0, False)
    folder = tmp_path_factory.mktemp("patch")
    a = published(folder, "a", table_of(sides[0]), threshold="60 rows")
    groups = [
        {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "50 rows"},
        {"name": "errors", "columns": "*", "threshold": "100 rows"},
    ]
    table = table_of(sides[1], kind=pa.array(["star", "galaxy"] * (ROWS // 2)))
    b = published(folder, "b", table, threshold="50 rows", column_groups=groups, margin_arcsec=60.0)
    return a, b, sides


def one_to_one_by_hand(nearness: np.ndarray, allowed: np.ndarray, which: OneToOne) -> set[tuple[int, int]]:
    """The pairs of rows of which no one has two."""
    near = np.where(allowed, nearness, np.inf)
    mine = {i: int(near[i].argmin()) for i in range(len(near)) if np.isfinite(near[i].min())}
    if which == "mutual":
        return {(i, j) for i, j in mine.items() if near[:, j].argmin() == i}
    return {(min((i for i in mine if mine[i] == j), key=lambda i: near[i, j]), j) for j in set(mine.values())}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("combine", ["quadrature", "sum"])
@pytest.mark.parametrize("which", ["best", "mutual"])
def test_pairs_one_to_one_hold_over_borders(
    patch: tuple[Catalog, Catalog, list[SkyPositions]], which: OneToOne, combine: str
) -> None:
    a, b, sides = patch
    radius = {"left": CIRCLE, "right": CIRCLE, "sigmas": 1.0, "combine": combine}
    told = judged(*sides, combine, 1.0, False)
    expected = one_to_one_by_hand(told.nearness, told.nearness <= told.limit, which)
    found = {how: a.crossmatch(b, radius=radius, neighbours=which, how=how) for how in ("inner", "outer")}
    assert len(expected) > 60
    pairs = pairs_of(found["inner"])
    assert set(pairs) == expected
    assert len(pairs) == len(expected)
    outer = pairs_of(found["outer"])
    assert {pair for pair in outer if None not in pair} == expected
    assert sorted(row for row, _ in outer if row is not None) == list(range(ROWS))
    assert sorted(row for _, row in outer if row is not None) == list(range(ROWS))
    anti = a.crossmatch(b, radius=radius, neighbours=which, how="anti")
    assert set(anti["id"].to_pylist()) == set(range(ROWS)) - {row for row, _ in expected}
    part = a.crossmatch(b, radius=radius, neighbours=which, region="box ra 359.99..0.2 dec 11..13")
    inside = (sides[0].ra >= 359.99) | (sides[0].ra <= 0.2)
    assert set(pairs_of(part)) == {pair for pair in expected if inside[pair[0]]}


def test_mutual_pairs_are_among_the_best_and_fewer(
    patch: tuple[Catalog, Catalog, list[SkyPositions]],
) -> None:
    a, b, _ = patch
    kinds = ("mutual", "best", 1)
    mutual, best, nearest = (
        set(pairs_of(a.crossmatch(b, radius_arcsec=15, neighbours=kind)))
        for kind in kinds  # type: ignore[arg-type]
    )
    assert mutual < best < nearest


def test_rows_that_do_not_pass_have_no_error_that_counts(
    patch: tuple[Catalog, Catalog, list[SkyPositions]],
) -> None:
    """Of the right rows every other one is a galaxy: the best star is that of the stars."""
    a, b, sides = patch
    stars = np.arange(0, ROWS, 2)
    told = judged(sides[0], sides[1].take(stars), "sum", 1.0, False)
    near = one_to_one_by_hand(told.nearness, told.nearness <= told.limit, "mutual")
    radius = {"left": CIRCLE, "right": CIRCLE, "sigmas": 1, "combine": "sum"}
    found = a.crossmatch(b, radius=radius, neighbours="mutual", other_filters="kind = 'star'")
    assert set(pairs_of(found)) == {(i, int(stars[j])) for i, j in near}


def test_a_side_without_errors_is_exact(patch: tuple[Catalog, Catalog, list[SkyPositions]]) -> None:
    a, b, sides = patch
    exact = replace(sides[1], errors=ErrorRegions.none(ROWS))
    told = judged(sides[0], exact, "quadrature", 3.0, False)
    found = a.crossmatch(b, radius={"left": CIRCLE, "sigmas": 3}, neighbours="all")
    assert set(pairs_of(found)) == {
        (int(i), int(j)) for i, j in np.argwhere(told.nearness <= told.limit) if np.isfinite(told.limit[i, j])
    }


def test_errors_count_where_rows_have_moved_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    sides = two_sides(12, (100.0, 60.0), 5.0, True)
    motion = Motion(rng.normal(0, 5000, ROWS), rng.normal(0, 5000, ROWS))
    stored = propagate(sides[1].ra, sides[1].dec, motion, -25.0)
    moving = table_of(replace(stored, errors=sides[1].errors), pmra=motion.pmra, pmdec=motion.pmdec)
    a = published(tmp_path, "a", table_of(sides[0]), threshold="30 rows")
    b = published(tmp_path, "b", moving, threshold="30 rows", margin_arcsec=1500.0)
    there = replace(propagate(stored.ra, stored.dec, motion, 25.0), errors=sides[1].errors)
    needed, possible = expected_pairs([sides[0], there], "sum", 1.0, True)
    found = a.crossmatch(
        b,
        radius={"left": ELLIPSE, "right": ELLIPSE, "sigmas": 1, "combine": "sum"},
        neighbours="all",
        other_motion={"pmra": "pmra", "pmdec": "pmdec"},
        epoch=2025.0,
    )
    assert needed <= set(pairs_of(found)) <= possible
    assert len(needed) > 50


def catalog_with(folder: Path, errors: list[float | None], **more: Any) -> Catalog:
    ra, dec = sky(len(errors))
    rows = rows_at(ra, dec, err=pa.array(errors, pa.float64()), text=["x"] * len(errors))
    return published(folder, "b", rows, threshold="40 rows", margin_arcsec=10.0, **more)


ERR = {"right": "err", "sigmas": 2}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("wrong", "filters", "maximum", "message"),
    [
        (-1.0, None, None, "'err' of the row with _healpix_29 .* is -1 arcsec, which is none: .* 'err >= 0'"),
        (np.inf, None, None, "is inf arcsec, which is none: it has to be finite"),
        (50.0, None, 3.0, "is 50 arcsec, which is above the 'maximum' of 3; leave such rows out"),
        (2000.0, None, None, "let rows match that are 4000 arcsec apart; 3600 are the most"),
        (-1.0, "err >= 0", None, None),
        (np.inf, "err < 4", None, None),
        (50.0, "err < 4", 3.0, None),
        (50.0, None, None, "no margin of 100 arcsec"),
        (None, None, 3.0, None),
        (np.nan, None, 3.0, None),
    ],
)
def test_no_row_is_lost_for_its_error(
    tmp_path: Path, wrong: float | None, filters: str | None, maximum: float | None, message: str | None
) -> None:
    """What is no error, or reaches beyond what is stated or what the margin holds, is told."""
    errors: list[float | None] = [1.0] * 300
    errors[123] = wrong
    b = catalog_with(tmp_path, errors)
    a = published(tmp_path, "a", b.read(["id", "ra", "dec"]).select(["id", "ra", "dec"]), threshold="40 rows")
    radius = {"right": {"error": "err"} | ({"maximum": maximum} if maximum else {}), "sigmas": 2}
    if message is not None:
        with pytest.raises(SpecError, match=message):
            a.crossmatch(b, radius=radius, other_filters=filters)
        return
    found = a.crossmatch(b, radius=radius, other_filters=filters, how="left")
    assert found.num_rows == 300
    assert [row for row, other in pairs_of(found) if other is None] == [123]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, SpecError, "radius_arcsec: give it for all pairs, or 'radius: {left:"),
        ({"radius": ERR, "radius_arcsec": 1}, SpecError, "radius_arcsec: give it .*; not both"),
        ({"radius": {"right": "err"}}, SpecError, "radius.sigmas: is missing"),
        ({"radius": {"sigmas": 1}}, SpecError, "radius: names no column of errors"),
        ({"radius": {"right": "er", "sigmas": 1}}, SchemaMismatchError, "catalog b has no column 'er'"),
        ({"radius": {"left": "err", "sigmas": 1}}, SchemaMismatchError, "catalog a has no column 'err'"),
        ({"radius": {"right": "text", "sigmas": 1}}, SpecError, "'text' of its position errors is string"),
        ({"radius": {"right": {"semi_major": "err"}, "sigmas": 1}}, SpecError, "all three of an ellipse"),
        (
            {"radius": {"right": {"error": "err", "semi_minor": "err"}, "sigmas": 1}},
            SpecError,
            "a circle .* and an ellipse",
        ),
        (
            {"radius": {"right": {"error": "err", "unit": "rad"}, "sigmas": 1}},
            SpecError,
            "right.unit: does not fit; write 'deg'",
        ),
        (
            {"radius": ERR | {"combine": "max"}},
            SpecError,
            "combine: does not fit; write 'quadrature' or 'sum'",
        ),
        ({"radius": ERR | {"sigmas": 0}}, SpecError, "sigmas: does not fit; write a number above 0"),
        ({"radius_arcsec": 1, "nearness": "n"}, SpecError, "nearness: without 'radius'"),
        ({"radius": ERR, "neighbours": "closest"}, SpecError, "or 'all', or, .* 'best' or 'mutual'"),
    ],
)
def test_mistakes_in_a_radius_are_told(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    b = catalog_with(tmp_path, [1.0] * 50)
    a = published(tmp_path, "a", b.read(["id", "ra", "dec"]).select(["id", "ra", "dec"]))
    with pytest.raises(error, match=message):
        a.crossmatch(b, **options)


def test_a_column_of_another_unit_is_refused(tmp_path: Path) -> None:
    ra, dec = sky(50)
    rows = rows_at(ra, dec, err=np.ones(50), pa=np.zeros(50))
    for name, unit in (("err", "mas"), ("pa", "rad")):
        field = rows.schema.field(name).with_metadata({"unit": unit})
        rows = rows.set_column(rows.schema.get_field_index(name), field, rows[name])
    b = published(tmp_path, "b", rows, margin_arcsec=10.0)
    a = published(tmp_path, "a", rows_at(ra, dec))
    with pytest.raises(SpecError, match=r"'err' .* is in mas, but taken for arcsec; write unit: mas"):
        a.crossmatch(b, radius=ERR)
    assert a.crossmatch(b, radius={"right": {"error": "err", "unit": "mas"}, "sigmas": 1}).num_rows == 50
    ellipse = {"semi_major": "err", "semi_minor": "err", "position_angle": "pa", "unit": "mas"}
    with pytest.raises(SpecError, match=r"'pa' .* is in rad, but taken for deg; convert it"):
        a.crossmatch(b, radius={"right": ellipse, "sigmas": 1})
