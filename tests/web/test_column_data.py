"""What the page tells of columns and places, beside pandas and astropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from hipslake_airflow.web import column_data

from tests.steps.sources_of_objects import Lake
from tests.web.lakes import OBJECTS, SOURCES, told

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page


@pytest.fixture(scope="module")
def page(lake_page: Page) -> Page:
    return lake_page


def test_columns_are_told_as_pandas_has_them(page: Page) -> None:
    found = told(page, "sources/columns")
    table = SOURCES.to_pandas()
    assert (found["exact"], found["rows"], found["total"]) == (True, len(table), len(table))
    columns = {column["name"]: column for column in found["columns"]}
    assert {name for name, column in columns.items() if column["indexed"]} == {"source_id"}
    for name in table.columns:
        assert columns[name]["nulls"] == 0
        assert (columns[name]["min"], columns[name]["max"]) == (table[name].min(), table[name].max())


def test_of_many_rows_footers_tell_what_a_sample_does_not(
    page: Page, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_data, "SAMPLED_ROWS", 50)
    lake.ingest("many", SOURCES, threshold="2000 rows")
    found = told(page, "many/columns")
    assert (found["exact"], found["rows"]) == (False, 50)
    table, columns = SOURCES.to_pandas(), {column["name"]: column for column in found["columns"]}
    for name in ("source_id", "object_id", "time", "flux", "ra"):
        assert columns[name]["exact"]
        assert (columns[name]["rows"], columns[name]["nulls"]) == (len(table), 0)
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
