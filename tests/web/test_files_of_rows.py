"""Downloads and cone searches, read back by pyarrow, pandas and astropy."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from astropy.io import votable
from astropy.io.votable.exceptions import W06, VOWarning
from astropy.table import Table
from hipslake_airflow.web import cone_search, download, row_data

from tests.steps.sources_of_objects import Lake
from tests.web.lakes import told

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page


@pytest.fixture(scope="module")
def page(lake_page: Page) -> Page:
    return lake_page


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


@pytest.mark.sampled(3)
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
        ({"RA": "1_0", "DEC": 2, "SR": 1}, "RA is '1_0'"),
        ({"RA": "\uff11", "DEC": 2, "SR": 1}, "RA is '\uff11'"),
        ({"RA": "1e400", "DEC": 2, "SR": 1}, "RA is '1e400'"),
        ({"RA": "9" * 300, "DEC": 2, "SR": 1}, "RA is '999"),
        ({"RA": [1, 2], "DEC": 2, "SR": 1}, "RA is given twice"),
        ({"RA": 1, "ra": 1, "DEC": 2, "SR": 1}, "RA is given twice"),
        ({"RA": 1, "DEC": 2, "SR": 1, "RESPONSEFORMAT": "csv"}, "RESPONSEFORMAT is 'csv'"),
        (
            {"RA": 1, "DEC": 2, "SR": 1, "RESPONSEFORMAT": f"{cone_search.MEDIA_TYPE};serialization=BINARY2"},
            "RESPONSEFORMAT",
        ),
    ],
)
def test_cones_that_are_none_are_told_in_a_votable(page: Page, asked: dict[str, Any], words: str) -> None:
    parsed = scs(page, "objects", **asked)
    (error,) = [info for info in parsed.resources[0].infos if info.name == "Error"]
    assert words in error.value


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("votable", cone_search.MEDIA_TYPE),
        (cone_search.MEDIA_TYPE, cone_search.MEDIA_TYPE),
        ("application/x-votable+xml; serialization=TABLEDATA", cone_search.MEDIA_TYPE),
        ("text/xml", "text/xml; charset=utf-8"),
    ],
)
def test_the_media_type_is_the_one_that_is_asked_for(page: Page, asked: str, given: str) -> None:
    cone = {"RA": 80, "DEC": 30, "SR": 3, "MAXREC": "0000000007", "unknown": ["1", "2"]}
    answer = page.as_user().get("/hipslake/scs/objects", params=cone | {"responseformat": asked})
    assert answer.headers["content-type"] == given
    assert len(votable.parse(io.BytesIO(answer.content)).get_first_table().array) == 7


def test_what_cannot_be_read_or_is_too_much_is_told_in_a_votable(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", "/warehouse/x")

    for name, value, words in (
        ("MOST_ANSWER", 10, "choose fewer columns"),
        ("bounded_rows", refused, "Permission denied"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(row_data, name, value)
            parsed = scs(page, "objects", RA=80, DEC=30, SR=3)
        (error,) = [info for info in parsed.resources[0].infos if info.name == "Error"]
        assert words in error.value


def test_a_catalog_that_is_not_there_is_an_error_of_the_protocol(page: Page) -> None:
    parsed = scs(page, "nothing", RA=1, DEC=2, SR=1)
    assert any(info.name == "Error" for info in parsed.resources[0].infos)
