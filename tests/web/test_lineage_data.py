"""What is made of what, and two catalogs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import healpy
import numpy as np
import pytest
from hipslake.specs.spec_folder import SpecFolder
from hipslake_airflow.web.lineage_data import edges_of

from tests.steps.sources_of_objects import Lake
from tests.web.lakes import OBJECTS, SOURCES

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page


@pytest.fixture(scope="module")
def page(lake_page: Page) -> Page:
    return lake_page


def test_lineage_tells_what_is_made_of_what(page: Page, lake: Lake) -> None:
    found = page.as_user().get("/hipslake/api/lineage").json()
    edges = {(edge["from"], edge["to"]) for edge in found["edges"]}
    assert ("catalog:objects", "catalog:sources") in edges
    landing = f"source:{lake.place}/landing/objects/*.parquet"
    assert (landing, "catalog:objects") in edges
    nodes = {node["id"]: node for node in found["nodes"]}
    assert nodes["catalog:objects"]["published"]
    assert {"catalog:pairs", "catalog:curves"} <= nodes.keys()
    near = page.as_user().get("/hipslake/api/lineage", params={"of": "objects"}).json()
    assert {node["id"] for node in near["nodes"]} == {landing, "catalog:objects", "catalog:sources"}


def test_every_side_of_a_match_is_an_edge(tmp_path: Path) -> None:
    (tmp_path / "joins").mkdir()
    (tmp_path / "joins" / "a_x_all.yaml").write_text(
        "name: a_x_all\ntype: crossmatch\nleft: {catalog: a}\nright: {catalog: b}\nradius_arcsec: 1\n"
        "further:\n- {right: {catalog: c}, radius_arcsec: 2}\n- {right: {catalog: d}, radius_arcsec: 3}\n"
    )
    assert [tuple(edge) for edge in edges_of(SpecFolder(tmp_path))] == [
        ("catalog:a", "catalog:a_x_all", "crossmatch, left"),
        *((f"catalog:{name}", "catalog:a_x_all", "crossmatch, right") for name in "bcd"),
    ]


def test_lineage_leaves_out_what_the_user_may_not_read(page: Page) -> None:
    user = page.as_user("catalog_ingest__sources", role="VIEWER")
    found = user.get("/hipslake/api/lineage").json()
    assert [node["id"] for node in found["nodes"] if node["kind"] != "source"] == ["catalog:sources"]
    assert all(edge["to"] == "catalog:sources" for edge in found["edges"])
    assert "objects" not in json.dumps(found["edges"])


def test_two_catalogs_are_compared_cell_by_cell(page: Page) -> None:
    asked = {"left": "objects", "right": "seen", "order": 5}
    found = page.as_user().get("/hipslake/api/compare", params=asked).json()
    for side, table in (("left", OBJECTS), ("right", SOURCES)):
        at = healpy.ang2pix(32, table["ra"].to_numpy(), table["dec"].to_numpy(), nest=True, lonlat=True)
        counts = np.bincount(at, minlength=12 << 10)
        assert found[f"{side}_rows"] == counts[found["npix"]].tolist()
        assert sum(found[f"{side}_rows"]) == table.num_rows
    assert (found["order"], found["exact"]) == (5, True)
    assert {column["name"] for column in found["columns"]["left_only"]} == {"id", "class"}
    assert found["columns"]["differing"] == []
    same = page.as_user().get("/hipslake/api/compare", params={"left": "objects", "right": "objects"}).json()
    assert same["left_rows"] == same["right_rows"]


def test_a_comparison_takes_the_right_to_read_both(page: Page) -> None:
    asked = {"left": "objects", "right": "sources"}
    for allowed in ("catalog_ingest__objects", "catalog_ingest__sources"):
        user = page.as_user(allowed, role="VIEWER")
        assert user.get("/hipslake/api/compare", params=asked).status_code == 403
    user = page.as_user("catalog_ingest__objects,catalog_ingest__sources", role="VIEWER")
    assert user.get("/hipslake/api/compare", params=asked).status_code == 200
