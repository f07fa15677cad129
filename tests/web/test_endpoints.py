"""The endpoints of the catalogs page, behind Airflow's own sessions and rights."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from fastapi.routing import APIRoute
from hipslake.sphere.pixels import order29

from tests.airflow_home import PROJECT
from tests.steps.nights import Survey, night_rows

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

STARS = "/hipslake/api/catalogs/stars"
INGEST = "catalog_ingest__stars"
_FIRST = night_rows(0)
KEY = int(order29(_FIRST["ra"][:1], _FIRST["dec"][:1])[0])
ADDRESSES = [
    "/hipslake/catalogs",
    "/hipslake/page.js",
    "/hipslake/page.css",
    "/hipslake/licences.txt",
    "/hipslake/api/catalogs",
    "/hipslake/api/tables",
    "/hipslake/api/cubes",
    "/hipslake/api/tables/night_log",
    "/hipslake/api/cubes/night_cube",
    STARS,
    f"{STARS}/versions",
    f"{STARS}/diff?old=1&new=2",
    f"{STARS}/cells?version=1",
    f"{STARS}/tiles/0/1?version=1",
    f"{STARS}/runs",
    f"{STARS}/density?version=2&order=2",
    f"{STARS}/density/0/1?version=2&deeper=2",
    f"{STARS}/rows?region=cone 80 20 3deg&columns=id&filters=mag<18&limit=20&sort=mag&descending=true"
    "&spread=false",
    f"{STARS}/row?key={KEY}",
    f"{STARS}/columns?version=4",
    f"{STARS}/column?column=mag&region=cone 80 20 3deg&filters=mag<18&bins=9",
    f"{STARS}/search?q=80 20",
    f"{STARS}/light_curve?key={KEY}&catalog=stars&time=mag",
    f"{STARS}/timeline?before=4&most=2",
    f"{STARS}/matches?region=cone 80 20 3deg&limit=20",
    f"{STARS}/download?format=csv&region=cone 80 20 3deg&columns=id&filters=mag<18",
    "/hipslake/api/lineage?of=stars&kind=catalog",
    "/hipslake/api/compare?left=stars&right=stars&left_version=3&right_version=4&order=2",
    "/hipslake/scs/stars?RA=80&DEC=20&SR=1",
    f"/hipslake/api/reports?dag_id={INGEST}&run_id=run-1",
]
BINARY = {f"{STARS}/density", f"{STARS}/density/0/1"}
NOT_OF_STARS = {f"{STARS}/light_curve", f"{STARS}/matches"}  # it has neither sources nor pairs
OTHERS_OF_THE_CATALOG = ("/hipslake/api/compare", "/hipslake/scs/stars")
OF_THE_CATALOG = [address for address in ADDRESSES if address.startswith((STARS, *OTHERS_OF_THE_CATALOG))]


def test_the_addresses_tried_here_are_all_that_there_are(page: Page) -> None:
    routes = [f"/hipslake{route.path}" for route in page.routes if isinstance(route, APIRoute)]
    filled = {
        address.partition("?")[0]
        .replace("stars", "{name}")
        .replace("night_log", "{name}")
        .replace("night_cube", "{name}")
        .replace("/0/1", "/{order}/{npix}")
        for address in ADDRESSES
    }
    assert sorted(routes) == sorted(filled)


def test_every_endpoint_is_listed_in_the_page_on_security(page: Page) -> None:
    listed = (PROJECT / "docs" / "security.md").read_text()
    routes = [route.path for route in page.routes if isinstance(route, APIRoute)]
    assert [path for path in routes if f"`{path}`" not in listed] == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_gets_in_without_a_session(page: Page, address: str) -> None:
    assert page.as_nobody().get(address).status_code == 401


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_user_without_any_right_is_refused(page: Page, address: str) -> None:
    assert page.as_user("guest", role=None).get(address).status_code == 403


@pytest.mark.parametrize("address", [*OF_THE_CATALOG, ADDRESSES[-1]])
def test_who_may_not_read_the_dag_does_not_read_what_it_made(page: Page, address: str) -> None:
    assert page.as_user("catalog_ingest__other", role="VIEWER").get(address).status_code == 403


@pytest.mark.parametrize("address", OF_THE_CATALOG)
def test_who_may_read_the_dag_reads_what_it_made(page: Page, address: str) -> None:
    answer = page.as_user(INGEST, role="VIEWER").get(address)
    assert answer.status_code == (404 if address.partition("?")[0] in NOT_OF_STARS else 200)


def test_the_list_shows_what_the_user_may_read(page: Page, survey: Survey) -> None:
    assert page.as_user("catalog_ingest__other", role="VIEWER").get("/hipslake/api/catalogs").json() == []
    (listed,) = page.as_user(INGEST, role="VIEWER").get("/hipslake/api/catalogs").json()
    metadata = survey.catalog.metadata
    assert (listed["name"], listed["version"]) == ("stars", 4)
    assert (listed["rows"], listed["bytes"]) == (metadata.total_rows, metadata.total_bytes)
    assert datetime.fromisoformat(listed["created"]) == metadata.created


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../stars",
            "..%2Fstars",
            "..%5Cstars",
            "%2Fetc%2Fpasswd",
            "stars%00",
            "stars%0A",
            "stars%0D%0Ax: y",
            ".",
        ),
        *(
            "stars'; drop table dag; --",
            "{{ 1 }}",
            "{% raw %}",
            "--conf",
            "<script>",
            "%ED%A0%80",
            "a" * 200,
            "é",
        ),
    ],
)
def test_names_that_are_none_are_refused(page: Page, name: str) -> None:
    answer = page.as_user().get(f"/hipslake/api/catalogs/{name}/versions")
    assert answer.status_code in (404, 422)


HOSTILE = (
    "../../etc/passwd",
    "%00",
    "{{ 7*7 }}",
    "' or 1=1 --",
    "<script>alert(1)</script>",
    "-1",
    "1e309",
    "nan",
)
HOSTILE += ("9" * 400, "%F0%28%8C%28", "1;rm", "http://169.254.169.254/", "a" * 5000)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("address", [address for address in ADDRESSES if "/scs/" not in address])
def test_hostile_values_of_each_query_parameter_are_refused_or_pass_by(page: Page, address: str) -> None:
    user = page.as_user()
    path, _, query = address.partition("?")
    sound = [pair for pair in query.split("&") if pair]
    named = {pair.partition("=")[0] for pair in sound} | {
        "version",
        "layer",
        "of",
        "since",
        "before",
        "unknown",
    }
    for name in sorted(named):
        others = [pair for pair in sound if not pair.startswith(f"{name}=")]
        without = user.get(f"{path}?{'&'.join(others)}").content
        for value in HOSTILE:
            answer = user.get(f"{path}?{'&'.join([*others, f'{name}={value}'])}")
            assert answer.status_code in (200, 404, 422), (name, value)
            assert "passwd" not in answer.text or answer.headers["content-type"] == "application/json"
            if answer.status_code == 200:  # of a parameter that the endpoint does not have
                assert answer.content == without, (name, value)


@pytest.mark.parametrize("name", ["RA", "DEC", "SR", "VERB", "MAXREC", "unknown"])
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_in_a_cone_search_are_told_as_it_wants_errors(
    page: Page, name: str, value: str
) -> None:
    """By a VOTable with status 200, by the standard; some numbers are a cone, and no more than one."""
    others = [f"{each}=1" for each in ("RA", "DEC", "SR") if each != name]
    answer = page.as_user().get(f"/hipslake/scs/stars?{'&'.join([*others, f'{name}={value}'])}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-votable+xml"
    assert "<script>" not in answer.text
    is_wrong = ' name="Error" ' in answer.text
    assert (
        is_wrong or name == "unknown" or (name, value) in {("RA", "-1"), ("DEC", "-1"), ("MAXREC", "9" * 400)}
    )


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_reading_is_possible(page: Page, address: str) -> None:
    user = page.as_user()
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert user.request(method, address).status_code == 405


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_answer_is_taken_for_a_page_that_it_is_not(page: Page, address: str) -> None:
    """Names and texts that hold markup stay data: JSON that no browser may take for anything else."""
    answer = page.as_user().get(address)
    assert answer.headers["x-content-type-options"] == "nosniff"
    if address.endswith(("night_log", "night_cube")):  # there is none
        assert answer.status_code == 404
    if address.partition("?")[0] in BINARY:
        assert answer.headers["content-type"] == "application/octet-stream"
    elif "/download" in address:
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment; ")
    elif "/api/" in address:
        assert answer.headers["content-type"] == "application/json"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("cells?version=9", 404),
        ("cells?version=0", 422),
        ("cells?version=1&layer=margin&of=nope", 404),
        ("cells?version=1&layer=increment&of=../../etc/passwd", 404),
        ("cells?version=1&layer=shadow", 422),
        ("cells?version=2&layer=added&of=main", 404),
        ("tiles/30/1?version=1", 422),
        ("tiles/0/12?version=1", 404),
        ("diff?old=1&new=99", 404),
    ],
)
def test_what_there_is_not_is_told(page: Page, asked: str, code: int) -> None:
    assert page.as_user().get(f"{STARS}/{asked}").status_code == code


def test_a_catalog_that_is_not_there_is_not_found(page: Page) -> None:
    assert page.as_user().get("/hipslake/api/catalogs/nope").status_code == 404


def test_nothing_may_be_loaded_from_elsewhere(page: Page) -> None:
    headers = page.as_user().get("/hipslake/catalogs").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]
    assert headers["cache-control"] == "private, no-store"
