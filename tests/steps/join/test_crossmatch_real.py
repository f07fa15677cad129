"""Gaia and Hipparcos really match, once Hipparcos is carried along its proper motion to the epoch of Gaia."""

from __future__ import annotations

import json
from pathlib import Path

import astropy.units as u
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from astropy.coordinates import Distance, SkyCoord
from astropy.time import Time
from hipslake import Catalog, adopt
from hipslake_demo.nearby import write_nearby

from tests.peers.running import run_peer
from tests.steps import in_process
from tests.steps.real_skies import CATALOGS, SPECS, copy_real_catalog

SPEC = SPECS / "joins" / "gaia_x_hipparcos.yaml"
ASKED = [(1.0, 1), (200.0, 3)]  # radius in arcseconds, most neighbours
MOTION = {"pmra": "pmRA", "pmdec": "pmDE", "parallax": "Plx"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("real")
    for name in CATALOGS:
        copy_real_catalog(name, tmp_path_factory, warehouse)
    return warehouse


@pytest.fixture(scope="module")
def gaia(warehouse: Path) -> Catalog:
    return Catalog.open(warehouse / "catalogs" / "gaia_dr3")


@pytest.fixture(scope="module")
def hipparcos(warehouse: Path) -> Catalog:
    return Catalog.open(warehouse / "catalogs" / "hipparcos_hats")


def at_gaias_epoch(hipparcos: pa.Table) -> SkyCoord:
    """Hipparcos at J2016.0, carried there by astropy."""
    parallax = hipparcos["Plx"].to_numpy()
    known = np.where(parallax > 0, parallax, 1e-3)
    place = SkyCoord(
        hipparcos["ra_icrs"].to_numpy() * u.deg,
        hipparcos["dec_icrs"].to_numpy() * u.deg,
        distance=Distance(parallax=known * u.mas),
        pm_ra_cosdec=hipparcos["pmRA"].to_numpy() * u.mas / u.yr,
        pm_dec=hipparcos["pmDE"].to_numpy() * u.mas / u.yr,
        obstime=Time(1991.25, format="jyear", scale="tdb"),
    )
    moved = place.apply_space_motion(new_obstime=Time(2016.0, format="jyear", scale="tdb"))
    return SkyCoord(moved.ra, moved.dec)


def pairs_by_astropy(gaia: pa.Table, place: SkyCoord, radius: float) -> tuple[np.ndarray, ...]:
    """All pairs within a radius: places in both tables, and separations in arcseconds."""
    stars = SkyCoord(gaia["ra"].to_numpy() * u.deg, gaia["dec"].to_numpy() * u.deg)
    there, here, separation, _ = stars.search_around_sky(place, radius * u.arcsec)
    return here, there, separation.arcsec


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::erfa.ErfaWarning")
@pytest.mark.parametrize("moves", [True, False])
def test_the_pairs_are_astropys(gaia: Catalog, hipparcos: Catalog, moves: bool) -> None:
    stars, others = gaia.read(["source_id", "ra", "dec"]), hipparcos.read()
    still = SkyCoord(others["ra_icrs"].to_numpy() * u.deg, others["dec_icrs"].to_numpy() * u.deg)
    here, there, separation = pairs_by_astropy(stars, at_gaias_epoch(others) if moves else still, 1.0)
    told = {"other_motion": MOTION, "epoch": 2016.0} if moves else {}
    found = gaia.crossmatch(
        hipparcos, radius_arcsec=1, neighbours="all", columns=["source_id"], other_columns=["HIP"], **told
    )
    ids, numbers = stars["source_id"].to_numpy(), others["HIP"].to_numpy()
    expected = dict(
        zip(zip(ids[here].tolist(), numbers[there].tolist(), strict=True), separation, strict=True)
    )
    pairs = list(zip(found["source_id"].to_pylist(), found["HIP"].to_pylist(), strict=True))
    assert len(pairs) == len(expected)
    assert set(pairs) == set(expected)
    np.testing.assert_allclose(
        found["separation_arcsec"].to_numpy(),
        [expected[pair] for pair in pairs],
        atol=1e-4 if moves else 1e-9,
    )
    nearest = gaia.crossmatch(
        hipparcos, radius_arcsec=1, columns=["source_id"], other_columns=["HIP"], **told
    )
    assert nearest.num_rows == len({star for star, _ in expected}) == (110_349 if moves else 76_757)


def test_the_brightest_rows_of_gaia_are_at_its_epoch_and_stay_there(
    gaia: Catalog, hipparcos: Catalog
) -> None:
    """They come from Hipparcos, carried to J2016.0 already, and say that they do not move."""
    bright = gaia.read(filters=pc.field("source_id") < 0)
    assert bright.num_rows == 70
    assert set(bright["pmra"].to_pylist()) == {0.0}
    found = gaia.crossmatch(
        hipparcos, radius_arcsec=1, other_columns=["HIP"], other_motion=MOTION, epoch=2016.0
    )
    bright = found.filter(pc.less(found["source_id"], 0))
    assert pc.negate(bright["source_id"]).cast(pa.int64()).equals(bright["HIP"].cast(pa.int64()))
    assert bright.num_rows == 69  # alpha Centauri, which they carried in another way, is 1.14 arcsec off
    without = gaia.crossmatch(hipparcos, radius_arcsec=1, other_columns=["HIP"])
    assert pc.sum(pc.less(without["source_id"], 0)).as_py() == 28


def test_a_catalog_of_two_column_groups_is_matched_as_one_of_one_group(
    warehouse: Path, gaia: Catalog, hipparcos: Catalog
) -> None:
    """`hipparcos` and `hipparcos_hats` are one source; the columns of the former lie in two groups."""
    groups = Catalog.open(warehouse / "catalogs" / "hipparcos").build_margin(1)
    main, details = groups.metadata.groups
    found = gaia.crossmatch(groups, radius_arcsec=1)
    expected = gaia.crossmatch(hipparcos, radius_arcsec=1)
    names = [name for name in expected.column_names if name in found.column_names]
    assert {"HIP", "e_Plx", "Hpmag", "separation_arcsec"} <= set(names)
    keys = [("source_id", "ascending"), ("HIP", "ascending")]
    assert found.select(names).sort_by(keys).equals(expected.select(names).sort_by(keys))
    assert len(names) >= len(main.columns) + len(details.columns)
    faint = "Hpmag > 9 and e_Plx < 1"  # a column of each group
    told = {"columns": ["source_id"], "other_columns": ["HIP", "e_pmRA"], "other_filters": faint}
    some = gaia.crossmatch(groups, radius_arcsec=1, **told)
    assert 0 < some.num_rows < found.num_rows
    assert some.sort_by(keys).equals(gaia.crossmatch(hipparcos, radius_arcsec=1, **told).sort_by(keys))


@pytest.fixture(scope="module")
def lsdb_pairs(warehouse: Path, peers_python: str) -> dict[str, list[tuple[int, int, float]]]:
    """What LSDB, in one process of its own, finds within each radius."""
    script = Path(__file__).with_name("peers_match.py")
    sides = [str(warehouse / "catalogs" / name) for name in ("gaia_dr3", "hipparcos_hats")]
    asked = [f"{radius}:{neighbours}" for radius, neighbours in ASKED]
    printed = run_peer(peers_python, script, *sides, *asked)
    found: dict[str, list[tuple[int, int, float]]] = json.loads(printed)
    return found


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(("radius", "neighbours"), ASKED)
def test_lsdb_finds_the_same_pairs(
    gaia: Catalog,
    hipparcos: Catalog,
    lsdb_pairs: dict[str, list[tuple[int, int, float]]],
    radius: float,
    neighbours: int,
) -> None:
    pairs_there = lsdb_pairs[f"{radius}:{neighbours}"]
    told = {(star, number): distance for star, number, distance in pairs_there}
    found = gaia.crossmatch(
        hipparcos,
        radius_arcsec=radius,
        neighbours=neighbours,
        columns=["source_id"],
        other_columns=["HIP"],
    )
    pairs = list(zip(found["source_id"].to_pylist(), found["HIP"].to_pylist(), strict=True))
    assert set(pairs) == set(told)
    np.testing.assert_allclose(
        found["separation_arcsec"].to_numpy(), [told[pair] for pair in pairs], atol=1e-6
    )


def test_the_spec_of_the_demo_is_matched_verified_and_published(warehouse: Path) -> None:
    folder = in_process.start_match(warehouse, SPEC)
    in_process.publish_match(folder)
    outcome = Catalog.open(warehouse / "catalogs" / "gaia_x_hipparcos")
    assert outcome.metadata.total_rows == 110_349
    assert outcome.verify().ok
    assert outcome.metadata.position.epoch == 2016.0
    assert outcome.metadata.group().leaves > 6  # of at most 20,000 rows
    assert outcome.read(["HIP", "phot_g_mean_mag"]).num_rows == 110_349


@pytest.mark.filterwarnings("ignore::erfa.ErfaWarning")
def test_the_catalog_of_others_of_the_demo_is_adopted_and_its_pairs_are_astropys(
    warehouse: Path, gaia: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_LANDING", str(tmp_path))
    write_nearby(tmp_path)
    nearby = adopt(SPECS / "catalogs" / "nearby_stars.yaml", warehouse=warehouse, spark=False)
    assert nearby.metadata.adopted is not None
    assert not nearby.metadata.adopted.copied
    folder = in_process.start_match(warehouse, SPECS / "joins" / "gaia_x_nearby.yaml")
    in_process.publish_match(folder)
    found = Catalog.open(warehouse / "catalogs" / "gaia_x_nearby").read(["source_id", "hip"])
    stars, others = gaia.read(["source_id", "ra", "dec"]), nearby.read()
    names = {"parallax": "Plx", "ra": "ra_icrs", "dec": "dec_icrs", "pmra": "pmRA", "pmdec": "pmDE"}
    here, there, separation = pairs_by_astropy(stars, at_gaias_epoch(others.rename_columns(names)), 1.0)
    nearest: dict[int, tuple[float, int]] = {}
    for star, number, apart in zip(
        stars["source_id"].to_numpy()[here].tolist(),
        others["hip"].to_numpy()[there].tolist(),
        separation,
        strict=True,
    ):
        nearest[star] = min(nearest.get(star, (np.inf, 0)), (apart, number))
    assert dict(zip(found["source_id"].to_pylist(), found["hip"].to_pylist(), strict=True)) == {
        star: number for star, (_, number) in nearest.items()
    }
    assert len(nearest) > 1000
