"""What the page tells of columns, places, light curves and matches, beside pandas and astropy."""

from __future__ import annotations

import io
import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import healpy
import hipslake
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.io import votable
from astropy.io.votable.exceptions import W06, VOWarning
from astropy.table import Table
from hipslake_airflow.web import column_data, download

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


def test_what_is_seen_is_downloaded_in_every_format(page: Page, lake: Lake) -> None:
    region = "cone 80 30 2deg"
    asked = {"region": region, "filters": "class < 3", "columns": ["id", "ra", "class"]}
    expected = lake.open("objects").read(["id", "ra", "class"], "class < 3", region=region)
    assert expected.num_rows > 50
    for kind, ending in (("parquet", "parquet"), ("csv", "csv"), ("fits", "fits"), ("votable", "vot")):
        answer = page.as_user().get(
            "/hipslake/api/catalogs/objects/download", params={"format": kind, **asked}
        )
        assert answer.status_code == 200, answer.text[:300]
        assert answer.headers["content-disposition"] == f'attachment; filename="objects_v1.{ending}"'
        found = read_file(kind, answer.content)
        assert found["id"].tolist() == expected["id"].to_pylist()
        assert found["ra"].to_numpy() == pytest.approx(expected["ra"].to_numpy(), abs=1e-12)


def read_file(kind: str, data: bytes) -> Any:
    file = io.BytesIO(data)
    if kind == "parquet":
        return pq.read_table(file).to_pandas()
    if kind == "csv":
        return pd.read_csv(file)
    return Table.read(file, format=kind).to_pandas()


def test_an_empty_download_has_its_columns(page: Page) -> None:
    asked = {"format": "csv", "filters": "class > 100", "columns": "id"}
    answer = page.as_user().get("/hipslake/api/catalogs/objects/download", params=asked)
    assert answer.text.strip() == '"id"'


def test_what_is_too_much_is_left_to_the_dag_of_exports(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_DOWNLOADED", 100)
    asked = {"format": "fits", "region": "cone 80 30 5deg", "columns": "id", "version": 1}
    refused = told(page, "objects/download", 413, **asked)
    assert "catalog_export" in refused["detail"]
    assert refused["estimate"] > 100
    assert refused["conf"] == {
        "catalog": "objects",
        "version": 1,
        "region": "cone 80 30 5deg",
        "columns": ["id"],
        "filters": None,
        "format": "fits",
    }
    monkeypatch.undo()
    monkeypatch.setattr(download, "MOST_DOWNLOADED_BYTES", 100)
    told(page, "objects/download", 413, **asked)
    told(page, "objects/download", 422, format="exe")


def scs(page: Page, name: str, **asked: Any) -> Any:
    answer = page.as_user().get(f"/hipslake/scs/{name}", params=asked)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-votable+xml"
    with warnings.catch_warnings():
        warnings.simplefilter("error", VOWarning)
        # Simple Cone Search 1.03 wants words of UCD1, of which astropy warns.
        warnings.simplefilter("ignore", W06)
        return votable.parse(io.BytesIO(answer.content), verify="warn")


@pytest.mark.parametrize(
    "cone", [(80, 30, 1.5), (10.5, -40, 20), (0, 90, 15), (359.9, 0, 10), (80, 30, 180), (5, 5, 0)]
)
@pytest.mark.parametrize("name", ["objects", "sources", "seen"])
def test_a_cone_search_gives_the_rows_of_a_read(
    page: Page, lake: Lake, name: str, cone: tuple[float, ...]
) -> None:
    ra, dec, radius = cone
    catalog = lake.open(name)
    expected = catalog.read(region=f"cone {ra} {dec} {radius}deg")
    table = scs(page, name, RA=ra, DEC=dec, SR=radius).get_first_table()
    roles = {field.ucd: field.name for field in table.fields if field.ucd}
    key = "id" if name == "objects" else "source_id"
    assert roles["ID_MAIN"] == key
    assert len(table.array) == expected.num_rows
    if expected.num_rows:
        assert [int(each) for each in table.array[key]] == expected[key].to_pylist()
        position = catalog.metadata.position
        own = (position.icrs_ra or position.ra, position.icrs_dec or position.dec)
        for ucd, column in zip(("POS_EQ_RA_MAIN", "POS_EQ_DEC_MAIN"), own, strict=True):
            assert np.asarray(table.array[roles[ucd]]) == pytest.approx(
                expected[column].to_numpy(), abs=1e-12
            )
    fields = {field.name: field for field in table.fields}
    assert fields[key].datatype == "char"
    assert [fields[roles[f"POS_EQ_{axis}_MAIN"]].datatype for axis in ("RA", "DEC")] == ["double"] * 2
    assert sum(field.ucd is not None and field.ucd.endswith("MAIN") for field in table.fields) == 3


def test_verbosity_and_the_most_records_are_as_asked(page: Page) -> None:
    few = scs(page, "objects", RA=80, DEC=30, SR=3, VERB=1, MAXREC=7)
    table = few.get_first_table()
    assert [field.name for field in table.fields] == ["id", "ra", "dec"]
    assert len(table.array) == 7
    assert ("QUERY_STATUS", "OVERFLOW") in [(info.name, info.value) for info in few.resources[0].infos]
    assert len(scs(page, "objects", ra=80, dec=30, sr=3, maxrec=0).get_first_table().array) == 0
    curves = scs(page, "curves", RA=80, DEC=30, SR=1, VERB=3).get_first_table()
    assert "class" in [field.name for field in curves.fields]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"RA": 1, "DEC": 2}, "SR is missing"),
        ({"RA": "x", "DEC": 2, "SR": 1}, "RA is 'x'"),
        ({"RA": "nan", "DEC": 2, "SR": 1}, "RA is 'nan'"),
        ({"RA": 1, "DEC": 91, "SR": 1}, "dec"),
        ({"RA": 1, "DEC": 2, "SR": -1}, "SR is -1"),
        ({"RA": 1, "DEC": 2, "SR": 1, "VERB": 4}, "VERB is '4'"),
        ({"RA": 1, "DEC": 2, "SR": 1, "MAXREC": "-1"}, "MAXREC"),
    ],
)
def test_cones_that_are_none_are_told_in_a_votable(page: Page, asked: dict[str, Any], words: str) -> None:
    parsed = scs(page, "objects", **asked)
    (error,) = [info for info in parsed.resources[0].infos if info.name == "Error"]
    assert words in error.value


def test_a_catalog_that_is_not_there_is_an_error_of_the_protocol(page: Page) -> None:
    parsed = scs(page, "nothing", RA=1, DEC=2, SR=1)
    assert any(info.name == "Error" for info in parsed.resources[0].infos)


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
