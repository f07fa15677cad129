"""Published matches of catalogs with column groups: outer ones, and outcomes with margins and indices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError

from tests.catalog.little import sky
from tests.catalog.matching import nearest_pairs, pairs_of, published, rows_at, separations
from tests.peers.running import run_peer
from tests.steps import in_process

pytestmark = pytest.mark.sampled(2)

GROUPS: list[dict[str, Any]] = [
    {"name": "main", "columns": ["id", "ra", "dec"]},
    {"name": "details", "columns": "*", "threshold": "90 rows"},
]
SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a, filters: "mag < 19"}
right: {catalog: b, filters: "mag < 18"}
radius_arcsec: 600
neighbours: 2
threshold: 300 rows
"""
PEER = """\
import json, sys
import lsdb
catalog = lsdb.open_catalog(sys.argv[1])
frame = catalog.compute()
cone = catalog.cone_search(0, 10, 20 * 3600).compute()
print(json.dumps({
    "pairs": frame[["id", "id_b"]].fillna(-1).astype(int).to_numpy().tolist(),
    "cone": len(cone),
    "margin": catalog.margin is not None and catalog.margin.hc_structure.catalog_info.margin_threshold,
}))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two catalogs of two groups each, the second near the first in part."""
    rng = np.random.default_rng(1)
    ra, dec = sky(1500)
    place = tmp_path_factory.mktemp("groups")
    root = place / "warehouse" / "catalogs"
    mags = [pa.array(rng.uniform(10, 20, size)) for size in (1500, 1100)]
    near = np.clip(dec[:800] + 0.1 * rng.normal(size=800), -90, 90)
    far = sky(300, seed=9)
    options: dict[str, Any] = {"column_groups": GROUPS, "layout": "hats"}
    published(root, "a", rows_at(ra, dec, mag=mags[0]), threshold="200 rows", **options)
    there = rows_at(np.append(ra[:800], far[0]), np.append(near, far[1]), mag=mags[1])
    published(root, "b", there, threshold="300 rows", margin_arcsec=600.0, **options)
    return place / "warehouse"


def publish(lake: Path, more: str = "", text: str = SPEC, **fields: Any) -> Catalog:
    file = lake.parent / "a_x_b.yaml"
    file.write_text(text + more)
    run_id = f"run {len(list(lake.rglob('run.json')))}"
    in_process.publish_match(in_process.start_match(lake, file, run_id, **fields))
    found = Catalog.open(lake / "catalogs" / "a_x_b")
    found.verify().raise_if_failed()
    return found


def sides(lake: Path) -> list[Catalog]:
    return [Catalog.open(lake / "catalogs" / name) for name in "ab"]


def by_hand(lake: Path) -> set[tuple[int, int]]:
    """The pairs of an outer match of the spec, -1 for none; by astropy."""
    tables = [side.read(["id", "ra", "dec", "mag"]).sort_by("id") for side in sides(lake)]
    told = separations(*tables)
    keep = [table["mag"].to_numpy() < limit for table, limit in zip(tables, (19, 18), strict=True)]
    pairs = nearest_pairs(np.where(keep[0][:, None] & keep[1][None, :], told, np.inf), 600.0, 2)
    alone = [
        set(np.flatnonzero(kept).tolist()) - {pair[side] for pair in pairs} for side, kept in enumerate(keep)
    ]
    return pairs | {(row, -1) for row in alone[0]} | {(-1, row) for row in alone[1]}


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_an_outer_match_of_groups_is_a_catalog(lake: Path, layout: str) -> None:
    found = publish(lake, f"how: outer\nlayout: {layout}\n")
    a, b = sides(lake)
    rows = found.read()
    expected = a.crossmatch(
        b, radius_arcsec=600, neighbours=2, how="outer", filters="mag < 19", other_filters="mag < 18"
    )
    assert rows.equals(expected)
    pairs = [tuple(-1 if value is None else value for value in pair) for pair in pairs_of(rows)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == by_hand(lake)
    position = found.metadata.position
    assert (position.ra, position.dec, position.frame, position.epoch) == (
        "ra_match", "dec_match", "icrs", 2000.0,
    )  # fmt: skip
    assert found.metadata.description.startswith("a (mag < 19) and, side by side where they match, b (mag")


def test_an_outer_match_in_a_region_is_the_part_of_the_whole_there(lake: Path) -> None:
    whole = publish(lake, "how: outer\n", force=True)
    for region in ("cone 0 10 40deg", "box ra 100..200 dec -30..30"):
        expected = whole.read(region=region)
        assert 0 < expected.num_rows < whole.metadata.total_rows
        a, b = sides(lake)
        found = a.crossmatch(
            b,
            radius_arcsec=600,
            neighbours=2,
            how="outer",
            filters="mag < 19",
            other_filters="mag < 18",
            region=region,
        )
        assert found.equals(expected)
        assert publish(lake, "how: outer\n", region=region).read().equals(expected)


def test_an_outer_match_of_two_epochs_has_none(lake: Path, tmp_path: Path) -> None:
    ra, dec = sky(100, seed=3)
    late = published(
        tmp_path,
        "late",
        rows_at(ra, dec),
        margin_arcsec=600.0,
        position={"ra": "ra", "dec": "dec", "epoch": 2016.0},
    )
    text = SPEC.replace("catalog: b", f"catalog: {late.uri}").replace(', filters: "mag < 18"', "")
    found = publish(lake, "how: outer\nposition: [lon, lat]\n", text)
    position = found.metadata.position
    assert (position.ra, position.dec, position.epoch) == ("lon", "lat", None)
    assert publish(lake, "how: left\n", text).metadata.position.epoch == 2000.0


def test_margins_and_indices_come_with_the_run_so_that_the_outcome_is_a_right_side_at_once(
    lake: Path,
) -> None:
    found = publish(lake, "how: outer\nmargin: {arcsec: [60, 900]}\nindex: [id, id_b]\n")
    assert [margin.radius_arcsec for margin in found.metadata.margins] == [60.0, 900.0]
    assert found.metadata.version == 1 or found.metadata.increments[0].ordinal == 0
    for name in ("id", "id_b"):
        known = [value for value in found.read([name])[name].to_pylist() if value is not None]
        some = known[:20]
        expected = found.read(filters=pc.field(name).isin(some))
        assert found.find(name, some).equals(expected)
    a, _ = sides(lake)
    again = a.crossmatch(
        found, radius_arcsec=900, neighbours="all", columns=["id"], other_columns=["id", "id_b"]
    )
    here, there = a.read(["id", "ra", "dec"]), found.read(["ra_match", "dec_match"])
    told = separations(here, there.rename_columns(["ra", "dec"]))
    assert again.num_rows == np.count_nonzero(told <= 900.0)
    alone = pc.sum(pc.is_null(found.read(["id"])["id"])).as_py()
    assert alone > 0


def test_keys_of_an_outcome_are_checked_before_anything_is_read(lake: Path) -> None:
    for more, error, message in (
        ("index: [idd]\n", SchemaMismatchError, r"index: .*'idd'"),
        ("index: [id, id]\n", SpecError, "index: id stands twice"),
        ("margin: {arcsec: 0}\n", SpecError, "margin.arcsec: a margin of 0 arcsec"),
        ("position: [x, y]\n", SpecError, "position: with 'how: inner', rows lie where the left"),
        (
            "how: outer\nassociation: {left: id, right: id}\n",
            SpecError,
            "association: an outer match has right rows",
        ),
        ("how: outer\nposition: [id, dec_match]\n", SpecError, "columns 'id', 'id' of the match"),
    ):
        with pytest.raises(error, match=message):
            publish(lake, more)


@pytest.mark.peers
def test_lsdb_reads_an_outer_match_with_its_margin(lake: Path, peers_python: str) -> None:
    found = publish(lake, "how: outer\nmargin: {arcsec: 60}\n", force=True)
    told = json.loads(run_peer(peers_python, "-c", PEER, found.uri).splitlines()[-1])
    assert {tuple(pair) for pair in told["pairs"]} == by_hand(lake)
    assert len(told["pairs"]) == found.metadata.total_rows
    assert told["cone"] == found.read(["id"], region="cone 0 10 20deg").num_rows > 0
    assert told["margin"] == 60.0
