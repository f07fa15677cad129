"""What the page tells of columns, places, light curves and matches, beside pandas and astropy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hipslake
import numpy as np
import pytest
from astropy import units
from astropy.coordinates import SkyCoord

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

OBJECTS = objects_table()
SOURCES = sources_table(OBJECTS)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects and their sources, both indexed; the objects with their light curves; and a match."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    lake.ingest_objects(OBJECTS, index=["id"], margin={"arcsec": [30]})
    lake.ingest_sources(SOURCES, index=["source_id"])
    sides = {"left": {"catalog": "objects"}, "right": {"catalog": "sources"}}
    nested = {"time": "time", "name": "curve"}
    hipslake.publish(
        {"name": "curves", "type": "equijoin", "on": {"id": "object_id"}, "nested": nested, **sides},
        warehouse=lake.warehouse,
    )
    lake.ingest("seen", SOURCES, threshold="1000 rows")
    sides = {"left": {"catalog": "seen"}, "right": {"catalog": "objects"}}
    hipslake.publish({"name": "pairs", "radius_arcsec": 4, **sides}, warehouse=lake.warehouse)
    folder = lake.place / "specs" / "catalogs"
    folder.mkdir(parents=True)
    for name in ("objects", "sources"):
        shutil.copy(lake.place / f"{name}.yaml", folder)
    return lake


@pytest.fixture(scope="module")
def page(airflow: Path, lake: Lake) -> Iterator[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        yield Page(Path(lake.warehouse), lake.place / "specs")
        purge_cached_app()


def told(page: Page, path: str, code: int = 200, **asked: Any) -> Any:
    answer = page.as_user().get(f"/hipslake/api/catalogs/{path}", params=asked)
    assert answer.status_code == code, answer.text[:500]
    return answer.json()


def test_columns_are_told_as_pandas_has_them(page: Page) -> None:
    found = told(page, "sources/columns")
    table = SOURCES.to_pandas()
    assert (found["exact"], found["rows"], found["total"]) == (True, len(table), len(table))
    columns = {column["name"]: column for column in found["columns"]}
    assert {name for name, column in columns.items() if column["indexed"]} == {"source_id"}
    for name in table.columns:
        assert columns[name]["nulls"] == 0
        assert (columns[name]["min"], columns[name]["max"]) == (table[name].min(), table[name].max())


@pytest.mark.parametrize("filters", [None, "flux > 100"])
def test_the_histogram_of_a_column_is_that_of_numpy(page: Page, filters: str | None) -> None:
    asked = {"column": "flux", "bins": 12} | ({"filters": filters} if filters else {})
    found = told(page, "sources/column", **asked)
    flux = SOURCES["flux"].to_numpy()
    flux = flux[flux > 100] if filters else flux
    counts, edges = np.histogram(flux, np.linspace(flux.min(), flux.max(), 13))
    assert found["exact"]
    assert found["histogram"]["counts"] == counts.tolist()
    assert found["histogram"]["edges"] == pytest.approx(edges.tolist())
    assert (found["mean"], found["deviation"]) == pytest.approx((flux.mean(), flux.std()))
    classes = told(page, "objects/column", column="class", region="cone 80 30 5deg")
    near = SkyCoord(OBJECTS["ra"].to_numpy(), OBJECTS["dec"].to_numpy(), unit="deg").separation(
        SkyCoord(80, 30, unit="deg")
    )
    inside = OBJECTS["class"].to_numpy()[near.deg <= 5]
    assert {each["value"]: each["count"] for each in classes["frequent"]} == {
        int(value): int(rows) for value, rows in zip(*np.unique(inside, return_counts=True), strict=True)
    }


@pytest.mark.parametrize(
    "text", ["80.5 30.25", "05:22:00 +30:15:00", "5h22m -10d30m", "galactic 120 -5", "J052200+301500"]
)
def test_positions_are_found_as_astropy_has_them(page: Page, text: str) -> None:
    found = told(page, "objects/search", q=text)
    (place,) = found["places"]
    if text.startswith("galactic"):
        expected = SkyCoord(120, -5, unit="deg", frame="galactic").icrs
    elif text.startswith("J"):
        expected = SkyCoord("05:22:00 +30:15:00", unit=("hourangle", "deg"))
    else:
        unit = ("deg", "deg") if text.startswith("80.5") else ("hourangle", "deg")
        expected = SkyCoord(text, unit=unit)
    assert found["kind"] == "position"
    assert SkyCoord(place["ra"], place["dec"], unit="deg").separation(expected).arcsec < 0.01


def test_regions_and_pixels_are_places(page: Page) -> None:
    for text, region in (("cone 80 30 2deg", "cone 80 30 2deg"), ("5/1234", "pixels 5/1234")):
        found = told(page, "objects/search", q=text)
        assert (found["kind"], found["region"], found["places"]) == ("region", region, [])


@pytest.mark.parametrize("form", ["{}", "id = {}", "id={}"])
def test_a_value_of_an_indexed_column_is_where_its_row_is(page: Page, form: str) -> None:
    row = OBJECTS.slice(77, 1).to_pylist()[0]
    found = told(page, "objects/search", q=form.format(row["id"]))
    (place,) = found["places"]
    assert (found["kind"], place["column"], place["value"]) == ("value", "id", row["id"])
    assert (place["ra"], place["dec"]) == pytest.approx((row["ra"], row["dec"]))
    whole = told(page, "objects/row", key=place["key"])
    values = dict(zip([column["name"] for column in whole["columns"]], whole["values"], strict=True))
    assert values["id"] == row["id"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("5", 404, "no row has id = 5"),
        ("NGC 1976", 422, "is not understood"),
        ("10 95", 422, "outside"),
        ("cone 1 2", 422, "is not understood"),
        ("class = 3", 422, "has no index"),
        ("clas = 3", 422, "did you mean"),
        ("5/99999999", 422, "no pixels"),
    ],
)
def test_what_is_not_found_or_not_understood_is_told(page: Page, text: str, code: int, words: str) -> None:
    assert words in told(page, "objects/search", code, q=text)["detail"]


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
