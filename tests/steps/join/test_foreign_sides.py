"""Joins and lookups with catalogs of others: what comes out is what ours give, and never silently less."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog, ingest, publish
from hipslake.errors import ConflictError, SpecError
from hipslake.steps.join.frozen_sides import frozen_side, open_side

pytestmark = pytest.mark.usefixtures("large_sides")

ARCSEC = 1800.0


def _stars(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ra = rng.uniform(0, 360, rows)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    return pa.table({"id": np.arange(rows) * 3 + seed, "ra": ra, "dec": dec, "mag": rng.normal(15, 2, rows)})


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two collections of others, `left` and `right`, and `bare`, which has no margin."""
    warehouse, folder = tmp_path_factory.mktemp("warehouse"), tmp_path_factory.mktemp("others")
    for seed, name in enumerate(("left", "right")):
        spec = {
            "name": name,
            "position": {"ra": "ra", "dec": "dec"},
            "threshold": "300 rows",
            "margin": {"arcsec": [3600]},
            "index": ["id"],
        }
        catalog = ingest(_stars(4000, seed), spec=spec, warehouse=warehouse)
        shutil.copytree(Path(catalog.path()), folder / name)
        said = {
            "obs_collection": name,
            "hats_primary_table_url": "main",
            "all_margins": "main_3600arcs",
            "default_margin": "main_3600arcs",
            "all_indexes": "id index_id",
        }
        text = "".join(f"{key}={value}\n" for key, value in said.items())
        (folder / name / "collection.properties").write_text(text)
    shutil.copytree(folder / "right" / "main", folder / "bare")
    return folder


def _spec(others: Path, right: str = "right", **more: Any) -> dict[str, Any]:
    side = more.pop("side", {})
    return {
        "name": "pairs",
        "type": "crossmatch",
        "left": {"catalog": str(others / "left")},
        "right": {"catalog": str(others / right), **side},
        "radius_arcsec": ARCSEC,
        "neighbours": "all",
        **more,
    }


def _brute_force() -> set[tuple[int, int]]:
    """All pairs within the radius, by the plainest of arithmetic."""
    points = []
    for seed in (0, 1):
        table = _stars(4000, seed)
        ra, dec = (np.radians(table[name].to_numpy()) for name in ("ra", "dec"))
        points.append(np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1))
    chord = 2 * np.sin(np.radians(ARCSEC / 3600) / 2)
    found = set()
    for at, point in enumerate(points[0]):
        near = np.flatnonzero(np.linalg.norm(points[1] - point, axis=1) <= chord)
        found |= {(at * 3, int(each) * 3 + 1) for each in near}
    return found


def _pairs_of(catalog: Catalog) -> set[tuple[int, int]]:
    ids = [name for name in catalog.schema.names if name == "id" or name.startswith("id_")]
    table = catalog.read(ids)
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_match_of_others_finds_every_pair(others: Path, tmp_path: Path) -> None:
    wanted = _brute_force()
    assert len(wanted) > 50
    by_collection = publish(_spec(others), warehouse=tmp_path / "one")
    assert _pairs_of(by_collection) == wanted
    by_hand = _spec(others, "bare", side={"margins": [str(others / "right" / "main_3600arcs")]})
    assert _pairs_of(publish(by_hand, warehouse=tmp_path / "two")) == wanted
    built = publish(_spec(others, "bare", missing_margin="build"), warehouse=tmp_path / "three")
    assert _pairs_of(built) == wanted
    built.verify().raise_if_failed()
    left, right = (Catalog.open(others / name) for name in ("left", "right"))
    found = left.crossmatch(right, radius_arcsec=ARCSEC, neighbours="all")
    table = found if isinstance(found, pa.Table) else pa.concat_tables(found)
    ids = [name for name in table.column_names if name == "id" or name.startswith("id_")]
    assert set(zip(*(table[name].to_pylist() for name in ids), strict=True)) == wanted


def test_a_right_side_without_a_margin_is_never_matched_silently(others: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="missing_margin: build"):
        publish(_spec(others, "bare"), warehouse=tmp_path)
    with pytest.raises(SpecError, match="has no margin of 1800 arcsec"):
        Catalog.open(others / "left").crossmatch(Catalog.open(others / "bare"), radius_arcsec=ARCSEC)


def test_without_a_margin_pairs_inside_leaves_are_found_and_the_others_are_told(
    others: Path, tmp_path: Path
) -> None:
    found = publish(_spec(others, "bare", missing_margin="none"), warehouse=tmp_path)
    right = Catalog.open(others / "bare")
    homes = []
    for seed in (0, 1):
        table = _stars(4000, seed)
        cells = [
            healpy.ang2pix(1 << pixel.order, *(table[name].to_numpy() for name in ("ra", "dec")), True, True)
            == pixel.npix
            for pixel in right.pixels
        ]
        homes.append(np.where(np.any(cells, axis=0), np.argmax(cells, axis=0), -1))
    inside = {pair for pair in _brute_force() if homes[0][pair[0] // 3] == homes[1][(pair[1] - 1) // 3]}
    assert _pairs_of(found) == inside
    number = found.metadata.rows_near_borders
    assert number is not None
    assert 0 < len({row for row, _ in _brute_force() - inside}) <= number < 4000
    left = Catalog.open(others / "left").crossmatch(right, radius_arcsec=ARCSEC, missing_margin="none")
    assert left.schema.metadata == {b"rows_near_borders": str(number).encode()}


def test_what_is_made_of_others_is_made_once(others: Path, tmp_path: Path) -> None:
    first = publish(_spec(others), warehouse=tmp_path)
    again = publish(_spec(others), warehouse=tmp_path)
    assert (first.version, again.version) == (1, 1)
    text = (others / "right" / "main" / "properties").read_text()
    for name in ("properties", "hats.properties"):
        (others / "right" / "main" / name).write_text(text + "hats_creation_date=2026-11-26T00:00UTC\n")
    try:
        assert publish(_spec(others), warehouse=tmp_path).version == 2
    finally:
        for name in ("properties", "hats.properties"):
            (others / "right" / "main" / name).write_text(text)


def test_a_side_that_is_written_anew_during_a_run_is_told(others: Path, tmp_path: Path) -> None:
    shutil.copytree(others / "bare", tmp_path / "bare")
    side = frozen_side(Catalog.open(tmp_path / "bare"))
    assert open_side(side).metadata.total_rows == 4000
    info = tmp_path / "bare" / "partition_info.csv"
    info.write_text("\n".join(info.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(ConflictError, match="not what it was when the run began"):
        open_side(side)


def test_values_are_found_by_the_index_of_others(others: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Catalog.open(others / "left")
    wanted = [0, 33, 1500, 11997, 5]
    found = catalog.find("id", wanted, columns=["id", "mag"])
    assert sorted(found["id"].to_pylist()) == [0, 33, 1500, 11997]
    assert "looked through" not in caplog.text
    assert catalog.find("id", [5]).num_rows == 0
    opened = Catalog.open(others / "left" / "index_id")
    assert opened.read().num_rows == 4000
    assert {"id", "Norder", "Npix"} <= set(opened.schema.names)
    for refused in ({"region": "cone 10 10 1deg"}, {"pixels": [(0, 4)]}):
        with pytest.raises(SpecError, match="do not say where on the sky they lie"):
            opened.read(**refused)
    with pytest.raises(SpecError, match="lie elsewhere than its leaves"):
        opened.pixels  # noqa: B018


def test_margins_are_opened_as_catalogs_too(others: Path) -> None:
    margin = Catalog.open(others / "left" / "main_3600arcs")
    assert margin.metadata.total_rows == margin.scan().count() > 0
    assert margin.read().num_rows == margin.metadata.total_rows
