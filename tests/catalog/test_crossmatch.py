"""Catalogs are matched leaf by leaf, and nothing is lost at a border; mistakes are told before any work."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.catalog import leaf_rows
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.joining.stretches import plan_stretches
from hipslake.errors import RegionError, SchemaMismatchError, SpecError
from hipslake.joins.motion import Motion, propagate
from hipslake.specs.join_specs import MatchOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.examples import examples
from tests.joins.skies import placed

pytestmark = pytest.mark.usefixtures("large_sides")

ROWS = 1500
CENTRES = [(0.0, 0.0), (10.0, 90.0), (200.0, -90.0), (45.0, 41.81), (0.0, 41.0)]


def two_tables(rng: np.random.Generator, centre: tuple[float, float] | None) -> tuple[pa.Table, pa.Table]:
    """A sky, or a patch of it, seen twice: some rows of the second near those of the first, some doubled."""
    ra, dec = sky(ROWS, seed=int(rng.integers(1 << 30)))
    if centre is not None:
        dec = centre[1] + 3 * rng.normal(size=ROWS)
        ra = centre[0] + 3 * rng.normal(size=ROWS) / np.cos(np.radians(np.clip(dec, -85, 85)))
    some = rng.integers(0, ROWS, 700)  # the same row several times: neighbours, and ties
    wander = 10.0 ** rng.uniform(-5, 0, 700)
    up = dec[some] + wander * rng.normal(size=700)
    across = ra[some] + wander * rng.normal(size=700)
    other = np.concatenate([across, ra[:50], ra[:50]]), np.concatenate([up, dec[:50], dec[:50]])
    sides = [placed(*place) for place in ((ra, dec), other)]
    return rows_at(sides[0].ra, sides[0].dec), rows_at(sides[1].ra, sides[1].dec)


@given(
    seed=st.integers(0, 2**20),
    centre=st.sampled_from([None, *CENTRES]),
    thresholds=st.tuples(st.sampled_from([20, 150, 5000]), st.sampled_from([20, 150, 5000])),
    radius=st.sampled_from([1.0, 300.0, 3600.0]),
    neighbours=st.sampled_from([1, 3, None]),
    least=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=examples(20))
def test_a_match_equals_brute_force(
    seed: int,
    centre: tuple[float, float] | None,
    thresholds: tuple[int, int],
    radius: float,
    neighbours: int | None,
    least: float,
) -> None:
    left, right = two_tables(np.random.default_rng(seed), centre)
    with tempfile.TemporaryDirectory() as folder:
        a = published(Path(folder), "a", left, threshold=f"{thresholds[0]} rows")
        b = published(
            Path(folder),
            "b",
            right,
            threshold=f"{thresholds[1]} rows",
            margin_arcsec=radius,
            parquet={"row_group_rows": 50},
        )
        found = a.crossmatch(
            b,
            radius_arcsec=radius,
            min_radius_arcsec=least * radius,
            neighbours=neighbours or "all",
            rank="rank",
        )
        told = separations(left, right)
        pairs = pairs_of(found)
        assert len(set(pairs)) == len(pairs)
        if neighbours is None:
            assert set(pairs) == nearest_pairs(told, radius, None, least * radius)
        else:  # doubled rows are equally near: which of them is the nearer is a rule of ours
            expected = nearest_pairs(told, radius, neighbours, least * radius)
            distances = sorted((row, round(told[row, other], 6)) for row, other in expected)
            assert sorted((row, round(told[row, other], 6)) for row, other in pairs) == distances
        keys = found["_healpix_29"].to_numpy()
        assert np.all(keys[1:] >= keys[:-1])
        assert found["rank"].to_pylist() == ranks(pairs)


def ranks(pairs: list[tuple[int, int | None]]) -> list[int]:
    """1, 2, ... for every run of pairs of the same left row."""
    found: list[int] = []
    for at, (row, _) in enumerate(pairs):
        found.append(found[-1] + 1 if at and pairs[at - 1][0] == row else 1)
    return found


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    return two_tables(np.random.default_rng(5), None)


@pytest.fixture(scope="module")
def a(tmp_path_factory: pytest.TempPathFactory, tables: tuple[pa.Table, pa.Table]) -> Catalog:
    return published(tmp_path_factory.mktemp("a"), "a", tables[0], threshold="100 rows")


@pytest.fixture(scope="module")
def b(tmp_path_factory: pytest.TempPathFactory, tables: tuple[pa.Table, pa.Table]) -> Catalog:
    return published(tmp_path_factory.mktemp("b"), "b", tables[1], threshold="250 rows", margin_arcsec=600.0)


def test_a_left_match_keeps_every_row_and_an_anti_match_the_others(a: Catalog, b: Catalog) -> None:
    inner = a.crossmatch(b, radius_arcsec=600, neighbours="all")
    left = a.crossmatch(b, radius_arcsec=600, neighbours="all", how="left")
    anti = a.crossmatch(b, radius_arcsec=600, neighbours="all", how="anti")
    assert set(left["id"].to_pylist()) == set(range(ROWS))
    with_match = left.filter(pc.is_valid(left["id_b"]))
    assert with_match.equals(inner)
    without = left.filter(pc.is_null(left["id_b"]))
    assert without["separation_arcsec"].null_count == without.num_rows
    assert without.select(anti.schema.names).equals(anti)
    assert anti.schema.names == ["_healpix_29", "id", "ra", "dec"]
    assert set(anti["id"].to_pylist()) == set(range(ROWS)) - set(inner["id"].to_pylist())


def test_how_the_curve_is_cut_changes_nothing(a: Catalog, b: Catalog) -> None:
    sides = ((a.storage, a.metadata), (b.storage, b.metadata))
    match = Crossmatch.of([Pairing.of(*sides, MatchOptions(radius_arcsec=600, neighbours="all"))])
    whole = pa.Table.from_batches(match.batches(0, 12 << 58), match.schema)
    for most_rows in (1, 77, 10_000):
        plan = plan_stretches(a.storage, a.metadata, most_rows, only=match.only)
        parts = [
            batch
            for stretch in zip(plan.start.tolist(), plan.stop.tolist(), strict=True)
            for batch in match.batches(*stretch)
        ]
        assert pa.Table.from_batches(parts, match.schema).equals(whole)
    for cut in np.linspace(0, 12 << 58, 9).astype(np.int64)[1:-1].tolist():  # through the middle of leaves
        parts = [*match.batches(0, cut), *match.batches(cut, 12 << 58)]
        assert pa.Table.from_batches(parts, match.schema).equals(whole)


def test_large_leaves_are_cut_and_small_ones_put_together(tmp_path: Path) -> None:
    ra, dec = sky(4000)
    stars = published(
        tmp_path, "stars", rows_at(ra, dec), threshold="900 rows", parquet={"row_group_rows": 100}
    )
    leaves = stars.metadata.partitions(None, stars.storage)["rows"].to_numpy()
    assert leaves.max() > 400
    plan = plan_stretches(stars.storage, stars.metadata, 200)
    assert plan.rows.sum() == 4000
    assert plan.rows.max() <= 2 * 200
    assert len(plan) > len(leaves)
    assert np.all(plan.start[1:] >= plan.stop[:-1])
    few = plan_stretches(stars.storage, stars.metadata, 2000)
    assert len(few) < len(leaves)


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_column_groups_and_radians_on_either_side(
    tmp_path: Path, tables: tuple[pa.Table, pa.Table], b: Catalog, layout: str
) -> None:
    groups = [{"name": "main"}, {"name": "details", "columns": ["mag"], "threshold": "60 rows"}]
    left = tables[0].append_column("mag", pa.array(np.arange(ROWS) / 7))
    grouped = published(tmp_path, "grouped", left, threshold="200 rows", layout=layout, column_groups=groups)
    found = grouped.crossmatch(b, radius_arcsec=600)
    assert found["mag"].to_pylist() == [row / 7 for row in found["id"].to_pylist()]
    assert set(pairs_of(found)) == set(pairs_of(grouped.crossmatch(b, radius_arcsec=600, columns=["id"])))
    assert grouped.crossmatch(b, radius_arcsec=600, columns=["id"]).schema.names[:4] == [
        "_healpix_29", "id", "ra", "dec",
    ]  # fmt: skip


@pytest.mark.parametrize(("filters", "reader"), [(None, "leaf_batches"), ("id >= 0", "read_leaf")])
def test_only_row_groups_that_come_near_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: str | None, reader: str
) -> None:
    """A small left catalog in a corner of a large right leaf opens a few row groups of it."""
    rng = np.random.default_rng(0)
    wide = rows_at(rng.uniform(0.1, 40, 5000), rng.uniform(2, 30, 5000))
    right = published(
        tmp_path, "b", wide, threshold="50000 rows", margin_arcsec=60.0, parquet={"row_group_rows": 50}
    )
    near = rows_at(20.0 + 0.1 * rng.normal(size=50), 12.0 + 0.1 * rng.normal(size=50))
    left = published(tmp_path, "a", near, threshold="1000 rows")
    asked: list[tuple[int, int]] = []
    chosen = getattr(leaf_rows, reader)

    def counted(*args: Any, wanted: Any = None, **more: Any) -> Any:
        def seen(start: np.ndarray, stop: np.ndarray) -> np.ndarray:
            found = wanted(start, stop)
            asked.append((int(found.sum()), len(found)))
            return found

        return chosen(*args, wanted=None if wanted is None else seen, **more)

    monkeypatch.setattr(f"hipslake.catalog.joining.stretches.{reader}", counted)
    found = left.crossmatch(right, radius_arcsec=60, neighbours="all", other_filters=filters)
    assert set(pairs_of(found)) == nearest_pairs(separations(near, wide), 60.0, None)
    read, held = (sum(column) for column in zip(*asked, strict=True))
    assert held >= 20
    assert read <= held / 3


@given(seed=st.integers(0, 2**20), both=st.booleans(), years=st.sampled_from([-40.0, 24.75, 100.0]))
@settings(max_examples=6)
def test_rows_that_move_over_borders_are_found(seed: int, both: bool, years: float) -> None:
    """Stars as fast as Barnard's in small leaves: what was stored in one leaf matches in another."""
    rng = np.random.default_rng(seed)
    moves: dict[str, Motion] = {}
    sides = {}
    ra, dec = rng.uniform(0, 360, 400), np.degrees(np.arcsin(rng.uniform(-1, 1, 400)))
    dec[:200] = 3 * rng.normal(size=200)
    ra[:200] = (2 * rng.normal(size=200)) % 360
    for name in ("a", "b"):
        pm = rng.normal(0, 6000, (2, 400))
        pm[:, rng.uniform(size=400) < 0.2] = np.nan
        motion = moves[name] = Motion(pm[0], pm[1], rng.uniform(-5, 500, 400), rng.normal(0, 100, 400))
        # Where they meet at the epoch of the match, they stand somewhere else in their catalogs.
        place = propagate(ra, dec + 1e-4 * rng.normal(size=400), motion, -years)
        nulls = {
            "pmra": pa.array(pm[0], mask=np.isnan(pm[0])),
            "pmdec": pa.array(pm[1]),
            "plx": motion.parallax,
            "rv": motion.radial_velocity,
        }
        sides[name] = rows_at(place.ra, place.dec, **nulls)
    columns = {"pmra": "pmra", "pmdec": "pmdec", "parallax": "plx", "radial_velocity": "rv"}
    moved = [
        propagate(
            side["ra"].to_numpy(), side["dec"].to_numpy(), moves[name], years if name == "b" or both else 0.0
        )
        for name, side in sides.items()
    ]
    told = separations(*(rows_at(place.ra, place.dec) for place in moved))
    with tempfile.TemporaryDirectory() as folder:
        a = published(Path(folder), "a", sides["a"], threshold="30 rows")
        b = published(Path(folder), "b", sides["b"], threshold="20 rows", margin_arcsec=20_000.0)
        found = a.crossmatch(
            b,
            radius_arcsec=5,
            neighbours="all",
            motion=columns if both else None,
            other_motion=columns,
            epoch=2000.0 + years,
        )
        assert set(pairs_of(found)) == nearest_pairs(told, 5.0, None)
        assert found["ra"].to_pylist() == sides["a"]["ra"].take(found["id"]).to_pylist()  # as it was stored


def test_the_margin_has_to_hold_what_moves_in(tmp_path: Path, a: Catalog) -> None:
    ra, dec = sky(300)
    still = {"pmra": np.zeros(300), "pmdec": np.zeros(300)}
    still["pmdec"][7] = 10_000.0
    slow = published(tmp_path, "b", rows_at(ra, dec, **still), threshold="50 rows", margin_arcsec=60.0)
    motion = {"pmra": "pmra", "pmdec": "pmdec"}
    assert a.crossmatch(slow, radius_arcsec=9, other_motion=motion, epoch=2005.0).num_rows >= 0
    with pytest.raises(
        SpecError,
        match=r"no margin of 1009 arcsec .* 60\); add it by catalog_margin__b or "
        r"Catalog.build_margin\(1009\), "
        r"or write 'margin: \{arcsec: \[1009\]\}'",
    ):
        a.crossmatch(slow, radius_arcsec=9, other_motion=motion, epoch=2100.0)


def test_rows_of_a_column_without_statistics_are_read_for_the_bound(tmp_path: Path, a: Catalog) -> None:
    ra, dec = sky(200)
    rows = rows_at(ra, dec, pmra=np.full(200, np.nan), pmdec=np.full(200, np.nan))
    still = published(tmp_path, "b", rows, threshold="50 rows", margin_arcsec=60.0)
    motion = {"pmra": "pmra", "pmdec": "pmdec"}
    moved = a.crossmatch(still, radius_arcsec=60, other_motion=motion, epoch=2100.0)
    assert moved.equals(a.crossmatch(still, radius_arcsec=60))


def test_names_that_both_sides_have_get_suffixes(a: Catalog, b: Catalog) -> None:
    found = a.crossmatch(b, radius_arcsec=600, suffixes=("_one", "_two"), separation="d", position_angle="pa")
    names = ["id_one", "ra_one", "dec_one", "id_two", "ra_two", "dec_two", "d", "pa"]
    assert found.schema.names == ["_healpix_29", *names]
    few = a.crossmatch(b, radius_arcsec=600, columns=["id"], other_columns=["ra"])
    assert few.schema.names[:5] == ["_healpix_29", "id", "ra", "dec", "ra_b"]
    assert "dec_b" not in few.schema.names


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"radius_arcsec": 601}, SpecError, r"no margin of 601 arcsec .*'main': 600\).*{arcsec: \[601\]}"),
        ({"radius_arcsec": -1}, SpecError, "radius_arcsec: .*a number above 0"),
        ({"radius_arcsec": 3601}, SpecError, "radius_arcsec: .*a number of at most 3600"),
        ({"neighbours": 0}, SpecError, "neighbours: 0 is out of bounds; take 1 to"),
        ({"neighbours": -3}, SpecError, "neighbours: -3 is out of bounds"),
        ({"neighbours": 1.5}, SpecError, "neighbours: 1.5 is out of bounds; take 1 to .* or 'all'"),
        ({"neighbours": True}, SpecError, "neighbours: true is out of bounds"),
        ({"radius_arcsec": float("nan")}, SpecError, "radius_arcsec: "),
        ({"min_radius_arcsec": 700}, SpecError, "min_radius_arcsec: 700.0 is above radius_arcsec 600.0"),
        ({"min_radius_arcsec": -1}, SpecError, "min_radius_arcsec: "),
        ({"how": "right"}, SpecError, "how: does not fit; write 'inner', 'left', 'anti' or 'outer'"),
        ({"columns": ["idd"]}, SchemaMismatchError, "catalog a has no column 'idd'; did you mean 'id'?"),
        ({"other_columns": ["decl"]}, SchemaMismatchError, "catalog b has no column 'decl'"),
        ({"columns": "id"}, SchemaMismatchError, r"catalog a: columns is a list .* give \['id'\]"),
        ({"columns": [3]}, SchemaMismatchError, "catalog a has no column 3"),
        ({"separation": "_healpix_29"}, SpecError, "'_healpix_29' of the match .* that catalogs add"),
        ({"rank": "_row"}, SpecError, "'_row' of the match .* that catalogs add"),
        ({"region": 5}, RegionError, "a region is one of .* not 5"),
        ({"suffixes": ("_x", "_x")}, SpecError, "suffixes: both are '_x'"),
        ({"suffixes": ("_b", ""), "separation": "id_b"}, SpecError, "'id_b', 'id_b' of the match"),
        ({"separation": "RA", "suffixes": None}, SpecError, "'RA', 'ra' of the match would share"),
        ({"epoch": 2016.0}, SpecError, "epoch: no side has a motion"),
        ({"motion": {"pmra": "id", "pmdec": "id"}}, SpecError, "the left side move.* give one"),
        ({"motion": {"pmra": "pm", "pmdec": "id"}, "epoch": 2016.0}, SchemaMismatchError, "no column 'pm'"),
        ({"motion": {"pmra": "id"}, "epoch": 2016.0}, SpecError, "motion.pmdec: is missing; add it"),
        ({"motion": ("id", "id"), "epoch": 2016.0}, SpecError, "motion: .* write keys with values"),
        ({"colour": "red"}, SpecError, "colour: unknown key"),
    ],
)  # fmt: skip
def test_mistakes_are_told(
    a: Catalog, b: Catalog, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        a.crossmatch(b, **({"radius_arcsec": 600} | options))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_no_column_of_the_right_side_need_be_kept(a: Catalog, b: Catalog, how: Any) -> None:
    found = a.crossmatch(b, radius_arcsec=600, how=how, other_columns=[], rank="rank")
    assert found.column_names[4:] == ["separation_arcsec", "position_angle_deg", "rank"]
    whole = a.crossmatch(b, radius_arcsec=600, how=how, rank="rank")
    assert found.equals(whole.select(found.column_names))


def test_a_catalog_without_any_margin_is_no_right_side(a: Catalog) -> None:
    other = Catalog(a.storage.sub("elsewhere"), a.metadata)
    with pytest.raises(SpecError, match="margins of column group 'main': none"):
        a.crossmatch(other, radius_arcsec=1)


def test_a_match_with_itself_needs_a_least_separation(b: Catalog, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="matched with itself"):
        b.crossmatch(b, radius_arcsec=600)
    root, link = Path(b.uri), tmp_path / "link"
    link.symlink_to(root)
    for way in (root.parent / ".." / root.parent.name / root.name, link):
        with pytest.raises(SpecError, match="matched with itself"):
            b.crossmatch(Catalog.open(way), radius_arcsec=600)
    pairs = b.crossmatch(b, radius_arcsec=600, min_radius_arcsec=1e-3, neighbours="all")
    assert all(one != other for one, other in pairs_of(pairs))
    assert pairs.num_rows > 0


def test_motion_needs_an_epoch_and_the_axes_of_icrs(tmp_path: Path, a: Catalog) -> None:
    ra, dec = sky(100)
    rows = rows_at(ra, dec, pmra=np.ones(100), pmdec=np.ones(100), name=[str(at) for at in range(100)])
    motion = {"pmra": "pmra", "pmdec": "pmdec"}
    timeless = published(tmp_path, "b", rows, margin_arcsec=60.0, position={"epoch": None})
    with pytest.raises(SpecError, match="catalog b: its positions have no epoch"):
        a.crossmatch(timeless, radius_arcsec=1, other_motion=motion, epoch=2016.0)
    galactic = timeless.metadata.position.model_copy(update={"frame": "galactic", "epoch": 2000.0})
    turned = Catalog(timeless.storage, timeless.metadata.model_copy(update={"position": galactic}))
    with pytest.raises(SpecError, match="its positions are galactic"):
        a.crossmatch(turned, radius_arcsec=1, other_motion=motion, epoch=2016.0)
    with pytest.raises(SpecError, match="column 'name' of its motion is string"):
        a.crossmatch(
            published(tmp_path, "c", rows, margin_arcsec=60.0),
            radius_arcsec=1,
            other_motion={"pmra": "name", "pmdec": "pmdec"},
            epoch=2016.0,
        )


def test_the_margin_has_to_be_that_of_the_primary_group(tmp_path: Path, a: Catalog) -> None:
    groups = [{"name": "main"}, {"name": "details", "columns": ["mag"]}]
    rows = rows_at(*sky(100), mag=np.ones(100))
    grouped = published(tmp_path, "b", rows, column_groups=groups, layout="hats")
    with pytest.raises(SpecError, match=r"has no margin of 1 arcsec .*margins of column group 'main': none"):
        a.crossmatch(grouped, radius_arcsec=1, other_columns=["mag"])
