"""Light curves and matches as the page tells of them, beside pandas and astropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import SkyCoord

from tests.steps.sources_of_objects import Lake
from tests.web.lakes import OBJECTS, SOURCES, told

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page


@pytest.fixture(scope="module")
def page(lake_page: Page) -> Page:
    return lake_page


def key_of(page: Page, name: str, object_id: int) -> str:
    return str(told(page, f"{name}/rows", filters=f"id = {object_id}")["keys"][0])


@pytest.mark.parametrize("how", ["nested", "catalog"])
def test_a_light_curve_has_the_sources_of_its_object_in_the_order_of_time(page: Page, how: str) -> None:
    table = SOURCES.to_pandas()
    name = "curves" if how == "nested" else "objects"
    for object_id in table["object_id"].unique()[:3].tolist():
        key = key_of(page, name, object_id)
        (curve,) = [
            each for each in told(page, f"{name}/row", key=key)["light_curves"] if each["kind"] == how
        ]
        asked = {"column": curve["column"]} if how == "nested" else {"catalog": curve["catalog"]}
        found = told(page, f"{name}/light_curve", key=key, **asked)
        expected = table[table["object_id"] == object_id].sort_values("time")
        columns = [column["name"] for column in found["columns"]]
        assert found["time"] == "time"
        assert found["values"][0] == "flux"
        assert found["data"][columns.index("time")] == expected["time"].tolist()
        assert sorted(found["data"][columns.index("source_id")]) == sorted(expected["source_id"].tolist())
        assert (found["rows"], found["truncated"]) == (len(expected), False)


def test_an_object_without_sources_has_an_empty_light_curve(page: Page) -> None:
    alone = (set(OBJECTS["id"].to_pylist()) - set(SOURCES["object_id"].to_pylist())).pop()
    found = told(page, "curves/light_curve", key=key_of(page, "curves", alone), column="curve")
    assert (found["rows"], found["data"][0]) == (0, [])
    found = told(page, "objects/light_curve", key=key_of(page, "objects", alone), catalog="sources")
    assert found["rows"] == 0


def test_a_light_curve_takes_the_right_to_read_its_sources(page: Page) -> None:
    key = key_of(page, "objects", OBJECTS["id"][3].as_py())
    asked = {"key": key, "catalog": "sources"}
    path = "/hipslake/api/catalogs/objects/light_curve"
    user = page.as_user("catalog_ingest__objects", role="VIEWER")
    assert user.get(path, params=asked).status_code == 403
    user = page.as_user("catalog_ingest__objects,catalog_ingest__sources", role="VIEWER")
    assert user.get(path, params=asked).status_code == 200


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, 422),
        ({"column": "curve", "catalog": "sources"}, 422),
        ({"column": "class"}, 422),
        ({"column": "nothing"}, 422),
        ({"catalog": "pairs"}, 404),
        ({"column": "curve", "time": "nothing"}, 422),
    ],
)
def test_light_curves_that_are_none_are_refused(page: Page, asked: dict[str, str], code: int) -> None:
    told(page, "curves/light_curve", code, key=key_of(page, "curves", OBJECTS["id"][3].as_py()), **asked)


def test_matches_are_pairs_of_positions(page: Page, lake: Lake) -> None:
    region = "cone 80 30 3deg"
    found = told(page, "pairs/matches", region=region, limit=5000)
    rows = lake.open("pairs").read(region=region)
    objects = dict(zip(OBJECTS["id"].to_pylist(), range(OBJECTS.num_rows), strict=True))
    at = [objects[each] for each in rows["id"].to_pylist()]
    there = SkyCoord(OBJECTS["ra"].to_numpy()[at], OBJECTS["dec"].to_numpy()[at], unit="deg")
    right = SkyCoord(found["right_ra"], found["right_dec"], unit="deg")
    left = SkyCoord(found["left_ra"], found["left_dec"], unit="deg")
    assert (found["rows"], found["total"], found["truncated"]) == (len(at), len(at), False)
    assert len(at) > 100
    assert right.separation(there).arcsec.max() < 1e-3
    assert left.separation(right).arcsec == pytest.approx(found["separation_arcsec"], abs=1e-6)
    assert (found["left"], found["right"]) == ("seen", "objects")
    told(page, "objects/matches", 404)
    assert told(page, "pairs/matches", limit=3)["truncated"]


def test_moved_positions_are_those_of_astropy() -> None:
    from hipslake.sphere.vectors import moved_along

    rng = np.random.default_rng(4)
    ra, dec = rng.uniform(0, 360, 500), np.degrees(np.arcsin(rng.uniform(-1, 1, 500)))
    far, angle = 10 ** rng.uniform(-6, 2, 500), rng.uniform(0, 360, 500)
    expected = SkyCoord(ra, dec, unit="deg").directional_offset_by(angle * units.deg, far * units.deg)
    found = SkyCoord(*moved_along(ra, dec, far, angle), unit="deg")
    assert found.separation(expected).arcsec.max() < 1e-6
