"""Rows and densities as the page's server gives them, beside what the catalog itself says."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.bounded_rows import ReadBounds
from hipslake.catalog.leaf_rows import row_group_sizes
from hipslake.sphere.intervals import Intervals
from hipslake_airflow.web import column_data, row_data
from hipslake_airflow.web.columnar import kind_of, values_of

from tests.steps.nights import Survey

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

STARS = "/hipslake/api/catalogs/stars"
CONE = "cone 80 20 2deg"


def told(page: Page, path: str, code: int = 200, **asked: Any) -> Any:
    answer = page.as_user().get(f"{STARS}/{path}", params=asked)
    assert answer.status_code == code, answer.text[:500]
    return answer.json()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(("pixel", "order"), [(None, 0), (None, 6), (None, 9), ((0, 4), 8), ((5, 4500), 14)])
def test_densities_are_those_of_healpy(
    page: Page, survey: Survey, version: int, pixel: tuple[int, int] | None, order: int
) -> None:
    user = page.as_user()
    if pixel is None:
        answer = user.get(f"{STARS}/density", params={"version": version, "order": order})
    else:
        deeper = {"version": version, "deeper": order - pixel[0]}
        answer = user.get(f"{STARS}/density/{pixel[0]}/{pixel[1]}", params=deeper)
    assert answer.status_code == 200
    head = answer.headers
    assert (head["x-hipslake-order"], head["x-hipslake-exact"]) == (str(order), "true")
    assert (head["x-hipslake-version"], head["x-hipslake-counts"]) == (str(version), "uint32")
    rows = type(survey.catalog).open(survey.root, version).read(["ra", "dec"])
    at = healpy.ang2pix(1 << order, rows["ra"].to_numpy(), rows["dec"].to_numpy(), nest=True, lonlat=True)
    if pixel is not None:
        shift = 2 * (order - pixel[0])
        at = at[at >> shift == pixel[1]] - (pixel[1] << shift)
    found = np.frombuffer(answer.content, "<u4")
    assert len(found) == (12 << 2 * order if pixel is None else 1 << 2 * (order - pixel[0]))
    assert (found == np.bincount(at, minlength=len(found))).all()
    assert float(head["x-hipslake-rows"]) == found.sum()
    assert float(head["x-hipslake-largest"]) == found.max()


def test_a_pixel_that_is_none_has_no_density(page: Page) -> None:
    assert page.as_user().get(f"{STARS}/density/1/48").status_code == 404
    assert page.as_user().get(f"{STARS}/density/29/3", params={"deeper": 9}).status_code == 200


def test_rows_of_a_cone_are_those_of_a_read(page: Page, survey: Survey) -> None:
    expected = survey.catalog.read(["id", "mag", "ra", "dec"], "mag < 19", region=CONE)
    found = told(page, "rows", region=CONE, columns=["id", "mag"], filters="mag < 19", limit=5000)
    assert (found["total"], found["truncated"], found["why"]) == (expected.num_rows, False, None)
    assert found["rows"] > 50
    assert [column["name"] for column in found["columns"]] == ["id", "mag"]
    assert [column["kind"] for column in found["columns"]] == ["integer", "number"]
    assert found["data"] == [expected["id"].to_pylist(), expected["mag"].to_pylist()]
    assert found["ra"] == pytest.approx(expected["ra"].to_pylist())
    assert found["dec"] == pytest.approx(expected["dec"].to_pylist())


def test_a_limit_is_told_with_an_estimate(page: Page, survey: Survey) -> None:
    found = told(page, "rows", limit=10)
    assert (found["rows"], found["truncated"], found["why"]) == (10, True, "limit")
    assert (found["total"], found["estimate"]) == (None, survey.catalog.metadata.total_rows)
    spread = told(page, "rows", limit=10, spread="true")
    assert (spread["rows"], spread["total"]) == (10, survey.catalog.metadata.total_rows)
    least = told(page, "rows", limit=3, sort="mag", columns=["mag"])
    assert least["data"][0] == sorted(survey.catalog.read(["mag"])["mag"].to_pylist())[:3]


def test_a_key_gives_its_row_whole(page: Page, survey: Survey) -> None:
    rows = told(page, "rows", region=CONE, columns=["id", "night"], limit=5)
    for at, key in enumerate(rows["keys"]):
        row = told(page, "row", key=key)
        names = [column["name"] for column in row["columns"]]
        assert len(row["rows"]) == 1
        assert row["key"] == key
        values = dict(zip(names, row["values"], strict=True))
        assert [values["id"], values["night"]] == [column[at] for column in rows["data"]]
        assert (row["ra"], row["dec"]) == (rows["ra"][at], rows["dec"][at])
        assert set(names) == set(survey.catalog.schema.names)


def test_keys_that_are_none_are_refused_and_those_of_no_row_not_found(page: Page) -> None:
    for key in ("", "x", "1.2.3", "-1", str(12 << 58)):
        told(page, "row", 422, key=key)
    told(page, "row", 404, key="17")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"region": "cone 1 2"}, "RegionError"),
        ({"region": "moc /etc/passwd"}, "RegionError"),
        ({"filters": "mag <"}, "FilterError"),
        ({"filters": "magn < 1"}, "magn"),
        ({"columns": ["magn"]}, "did you mean 'mag'"),
        ({"sort": "magn"}, "magn"),
    ],
)
def test_what_is_asked_wrongly_is_told(page: Page, asked: dict[str, Any], words: str) -> None:
    assert words in told(page, "rows", 422, **asked)["detail"]


def test_rows_that_are_too_many_bytes_are_refused(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_data, "MOST_ANSWER", 1000)
    assert "choose fewer columns" in told(page, "rows", 413)["detail"]


def test_a_file_that_cannot_be_read_is_told(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", "/warehouse/x")

    monkeypatch.setattr(row_data, "bounded_rows", refused)
    assert "PermissionError" in told(page, "rows", 503)["detail"]


VALUES = [
    pa.array([1, None, -(2**53)]),
    pa.array([2**53 + 1, None, 5]),
    pa.array([2**64 - 1], pa.uint64()),
    pa.array([0.1, None, math.nan, math.inf, -math.inf], pa.float32()),
    pa.array([0.1, 1e-300, None, math.nan]),
    pa.array(["a", None, ""]),
    pa.array(["a", None, "a"]).dictionary_encode(),
    pa.array([True, None]),
    pa.array([b"\xff", None]),
    pa.array([0, None], pa.timestamp("ns", "UTC")),
    pa.array([0, None], pa.date32()),
    pa.array([[1.5, math.nan], None, []]),
    pa.array([{"t": [1, 2**60], "f": [None, math.inf]}, None]),
    pa.array([], pa.float64()),
    pa.array([1, None, 2**62], pa.duration("ns")),
    pa.array([1, None], pa.time64("ns")),
    pa.array([2**62, None], pa.timestamp("s")),
    pa.array([2**62, None], pa.timestamp("us", "Europe/Berlin")),
    pa.array([5, None], pa.timestamp("us", "nowhere")),
    pa.array([2**31 - 1, None], pa.date32()),
    pa.array([[2**62], None], pa.list_(pa.duration("s"))),
    pa.array([[2**62], None], pa.list_(pa.timestamp("s"))),
    pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.time64("ns"))),
    pa.array([{}, None], pa.struct([])),
    pa.array([b"0123456789abcdef", None], pa.uuid()),
    pa.nulls(2),
]


@pytest.mark.parametrize("column", VALUES, ids=lambda column: str(column.type))
def test_values_are_json_that_tells_all(column: pa.Array) -> None:
    for given in (column, pa.chunked_array([column]), pa.chunked_array([column, column])):
        encoding, values = values_of(given)
        assert json.loads(json.dumps(values, allow_nan=False)) == values
        assert len(values) == len(given)
        assert [value is None for value in values] == given.is_null().to_pylist()
        if kind_of(column.type) == "integer":
            given = given.cast(pa.int64()) if pa.types.is_duration(column.type) else given
            back = [None if value is None else int(value) for value in values]
            assert back == given.to_pylist()
            assert all(value is None or isinstance(value, str) for value in values) == (encoding == "text")
        if pa.types.is_floating(column.type):
            back = pa.array([None if value is None else float(value) for value in values], column.type)
            assert back.is_null().equals(
                pa.concat_arrays(given.chunks).is_null()
                if isinstance(given, pa.ChunkedArray)
                else given.is_null()
            )
            numbers = [value for value in back.to_pylist() if value is not None and not math.isnan(value)]
            assert numbers == [v for v in given.to_pylist() if v is not None and not math.isnan(v)]


def test_a_search_of_many_blanks_is_answered_at_once(page: Page) -> None:
    begun = time.perf_counter()
    answer = page.as_user().get(
        "/hipslake/api/catalogs/stars/search", params={"q": "a=" + " " * 15_000 + "x\ny"}
    )
    assert answer.status_code in (404, 422)
    assert time.perf_counter() - begun < 5


def test_columns_that_are_too_many_together_are_told_one_by_one(
    page: Page, survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = {each["name"]: each for each in told(page, "columns")["columns"]}
    storage = survey.catalog.storage
    paths = survey.catalog.metadata.partitions(None, storage)["path"].to_pylist()
    schema = survey.catalog.metadata.schema_of()
    own, sky = {"ra", "dec", "_healpix_29", "_row"}, Intervals.whole_sky()

    def most(columns: set[str]) -> int:
        sizes = (row_group_sizes(storage, path, schema, columns, sky) for path in paths)
        return max(each.bytes for leaf in sizes for each in leaf)

    names = [name for name in together if not name.startswith("_")]
    most_of_one = max(most({name, *own}) for name in names)
    assert most_of_one < most({*names, *own})
    monkeypatch.setattr(column_data, "_OF_ALL", ReadBounds(row_group_bytes=most_of_one))
    monkeypatch.setattr(column_data.CatalogStore, "kept", lambda self, key, name, version, make, size: make())
    alone = {each["name"]: each for each in told(page, "columns")["columns"]}
    assert alone == together


def test_a_column_that_fails_is_told_and_fails_no_other(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    together = {each["name"]: each for each in told(page, "columns")["columns"]}
    summarize = column_data.summarize_column

    def failing(column: pa.ChunkedArray, bins: int) -> Any:
        if column.type == pa.float32():
            raise pa.ArrowNotImplementedError("no such kernel")
        return summarize(column, bins)

    monkeypatch.setattr(column_data, "summarize_column", failing)
    monkeypatch.setattr(column_data.CatalogStore, "kept", lambda self, key, name, version, make, size: make())
    for each in told(page, "columns")["columns"]:
        if each["type"] == "float":
            assert each["problem"] == "ArrowNotImplementedError: no such kernel"
            assert each["min"] is None
        else:
            assert each == together[each["name"]]


def test_many_sampled_values_are_no_answer_that_is_too_large(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_data, "MOST_ANSWER", 1)
    monkeypatch.setattr(column_data.CatalogStore, "kept", lambda self, key, name, version, make, size: make())
    assert told(page, "columns")["exact"] is True
    assert told(page, "column", column="mag")["exact"] is True
