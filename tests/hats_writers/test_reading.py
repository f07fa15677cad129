"""Every catalog that other tools wrote is opened, read row by row as LSDB reads it, and verified."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SpecError
from hipslake.sphere.pixels import Pixel

from tests.hats_writers.test_fixtures import texts
from tests.hats_writers.trees import TREES, Tree, expected, unpacked

pytestmark = pytest.mark.sampled(4)

_LEAF = ("leaf_order", "leaf_pixel")
_PARTITIONS = ("Norder", "Dir", "Npix", "join_Norder", "join_Dir", "join_Npix", "_hipscat_index")
INDICES = [tree for tree in TREES if tree.kind == "index"]
OTHERS = [tree for tree in TREES if tree.kind != "index"]
PLACED = [tree for tree in OTHERS if tree.kind in ("object", "source", "collection")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


def _told(tree: Tree, folder: Path) -> pa.Table:
    return expected(tree, folder).drop_columns([*_LEAF])


def _alike(found: pa.Table, told: pa.Table) -> bool:
    return sorted(texts(found.select(told.column_names))) == sorted(texts(told))


@pytest.mark.parametrize("tree", OTHERS, ids=str)
def test_its_rows_are_those_that_lsdb_reads(tree: Tree, folder: Path) -> None:
    catalog = Catalog.open(folder / tree.name)
    told = _told(tree, folder)
    names = [name for name in told.column_names if name in catalog.schema.names]
    assert set(told.column_names) - {*names} <= {*_PARTITIONS, "_healpix_29"}
    assert _alike(catalog.read(), told.select(names))
    assert catalog.scan().count() == tree.rows
    report = catalog.verify()
    assert report.ok, report.problems
    assert report.rows == tree.rows


@pytest.mark.parametrize("tree", PLACED, ids=str)
def test_regions_pixels_and_filters_choose_as_numpy_does(tree: Tree, folder: Path) -> None:
    catalog = Catalog.open(folder / tree.name)
    place = catalog.metadata.position
    rows = catalog.read()
    assert np.all(np.diff(rows["_healpix_29"].to_numpy()) >= 0)
    ra, dec = (rows[name].to_numpy().astype(float) for name in (place.ra, place.dec))
    at = len(ra) // 3
    near = _separation(ra, dec, ra[at], dec[at]) <= np.radians(20)
    assert near.sum() > 0
    found = catalog.read(region=f"cone {ra[at]} {dec[at]} 20deg")
    assert _alike(found, rows.filter(pa.array(near)))
    north = catalog.read(filters=f"{place.dec} > 10")
    assert _alike(north, rows.filter(pa.array(dec > 10)))
    pixel = Pixel(1, int(rows["_healpix_29"][at].as_py()) >> 56)
    start, stop = pixel.interval
    keys = rows["_healpix_29"].to_numpy()
    assert _alike(catalog.read(pixels=[pixel]), rows.filter(pa.array((keys >= start) & (keys < stop))))
    told = expected(tree, folder)
    pixels = {*zip(told["leaf_order"].to_pylist(), told["leaf_pixel"].to_pylist(), strict=True)}
    assert {(order, npix) for order, npix in catalog.pixels} == pixels


def _separation(ra: np.ndarray, dec: np.ndarray, lon: float, lat: float) -> np.ndarray:
    ra, dec, lon, lat = (np.radians(each) for each in (ra, dec, lon, lat))
    cosine = np.sin(dec) * np.sin(lat) + np.cos(dec) * np.cos(lat) * np.cos(ra - lon)
    return np.asarray(np.arccos(np.clip(cosine, -1, 1)))


@pytest.mark.parametrize("tree", INDICES, ids=str)
def test_an_index_is_read_as_the_table_that_it_is(tree: Tree, folder: Path) -> None:
    catalog = Catalog.open(folder / tree.name)
    told = _told(tree, folder)
    rows = catalog.read(["source_id"])
    assert {*rows["source_id"].to_pylist()} == {*told["source_id"].to_pylist()}
    with pytest.raises(SpecError, match="its rows do not say where on the sky they lie"):
        catalog.read(region="cone 10 10 1deg")
    assert catalog.verify().ok


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.kind == "collection"], ids=str)
def test_a_collection_brings_its_margins_and_indices(
    tree: Tree, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog.open(folder / tree.name)
    said = (folder / tree.name / "collection.properties").read_text()
    named = [line for line in said.splitlines() if line.startswith("all_margins=")]
    assert len(catalog.metadata.margins) == len(named[0].split()) if named else not catalog.metadata.margins
    rows = catalog.read(["source_id"])["source_id"]
    with caplog.at_level(logging.WARNING):
        found = catalog.find("source_id", rows[5:9])
    assert sorted(found["source_id"].to_pylist()) == sorted(rows[5:9].to_pylist())
    assert ("looked through" in caplog.text) is not bool(catalog.metadata.indices_of_others)
