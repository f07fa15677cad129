"""Gaia with margins: equal to brute force on boundaries that healpy draws, and used by LSDB."""

from __future__ import annotations

import json
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import Margin

from tests.airflow_home import PROJECT
from tests.peers.running import run_peer
from tests.sphere.boundaries import rows_near
from tests.steps import in_process
from tests.steps.margins import stored_margin

HERE = Path(__file__).parent
ARCSEC = np.pi / 180 / 3600


@pytest.fixture(scope="module")
def gaia(landing: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Gaia as the spec that ships makes it, with margins of 10 and 600 arcseconds."""
    place = tmp_path_factory.mktemp("gaia")
    text = (PROJECT / "include" / "specs" / "catalogs" / "gaia_dr3.yaml").read_text()
    spec = place / "gaia_dr3.yaml"
    spec.write_text(text.replace("${HIPSLAKE_LANDING}", str(landing)) + "\nmargin: {arcsec: [10, 600]}\n")
    folder = in_process.start(place / "warehouse", spec)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.make_plan(folder)
    in_process.write_leaves(folder)
    in_process.make_margins(folder)
    in_process.check(folder)
    in_process.commit(folder)
    in_process.show(folder)
    return Catalog.open(place / "warehouse" / "catalogs" / "gaia_dr3")


@pytest.mark.parametrize("arcsec", [10.0, 600.0])
def test_margins_of_gaia_are_those_of_brute_force(gaia: Catalog, arcsec: float) -> None:
    margin = gaia.metadata.margin(arcsec)
    assert margin is not None
    rows = gaia.read()
    h29 = rows["_healpix_29"].to_numpy()
    vectors = healpy.ang2vec(rows["ra"].to_numpy(), rows["dec"].to_numpy(), lonlat=True)
    stored = stored_margin(gaia, margin)
    undecided = 0
    for pixel in gaia.pixels.tiling():
        surely, maybe = rows_near(vectors, h29, pixel, arcsec * ARCSEC)
        undecided += len(maybe)
        found = stored.get(pixel, gaia.schema.empty_table())
        ids = set(found["source_id"].to_pylist())
        expected = rows.take(pa.array(surely))
        assert (
            set(expected["source_id"].to_pylist())
            <= ids
            <= set(rows.take(pa.array(np.union1d(surely, maybe)))["source_id"].to_pylist())
        )
        assert len(ids) == found.num_rows
        if not len(maybe):
            assert found.combine_chunks().equals(expected.combine_chunks())
    assert set(stored) <= set(gaia.pixels.tiling())
    assert undecided <= 3  # of the boundary that healpy draws, with 8,192 arcs for each edge
    assert margin.rows > {10.0: 100, 600.0: 8_000}[arcsec]


def test_lsdb_takes_the_margins_and_finds_with_them_what_lies_across_borders(
    gaia: Catalog, peers_python: str
) -> None:
    told = json.loads(run_peer(peers_python, HERE / "lsdb_margins.py", gaia.uri).splitlines()[-1])
    for margin in gaia.metadata.margins:
        assert told["rows"][margin.name] == margin.rows
        assert told["valid"][margin.name]
    assert told["default"] == margin_of(gaia, 10.0).radius_arcsec
    # Pairs of stars within 60 arcseconds, counted by LSDB leaf by leaf, are those of the whole sky.
    assert told["pairs"] == told["pairs of the whole sky"] > told["pairs without margin"]


def margin_of(catalog: Catalog, arcsec: float) -> Margin:
    found = catalog.metadata.margin(arcsec)
    assert found is not None
    return found
