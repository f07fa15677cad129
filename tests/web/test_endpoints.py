"""The endpoints of the catalogs page, behind Airflow's own sessions and rights."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fastapi.routing import APIRoute
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
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


def test_cells_are_the_partitions_of_the_version(page: Page, survey: Survey) -> None:
    for version in (1, 4):
        catalog = Catalog.open(survey.root, version)
        cells = page.as_user().get(f"{STARS}/cells?version={version}").json()
        leaves = catalog.metadata.partitions(None, catalog.storage)
        found = dict(zip(zip(cells["order"], cells["npix"], strict=True), cells["rows"], strict=True))
        expected = zip(leaves["order"].to_pylist(), leaves["npix"].to_pylist(), strict=True)
        assert found == dict(zip(expected, leaves["rows"].to_pylist(), strict=True))
        assert cells["totals"]["rows"] == catalog.metadata.total_rows
        assert cells["totals"]["bytes"] == catalog.metadata.groups[0].bytes


def test_a_tile_has_what_lies_in_its_pixel(page: Page, survey: Survey) -> None:
    user, leaves = page.as_user(), survey.catalog.pixels
    rows = 0
    for npix in range(12):
        tile = user.get(f"{STARS}/tiles/0/{npix}?version=4").json()
        inside = leaves.npix[(leaves.npix >> (2 * leaves.order)) == npix]
        assert sorted(tile["npix"]) == sorted(inside.tolist())
        rows += tile["totals"]["rows"]
    assert rows == survey.catalog.metadata.total_rows


def test_margins_and_increments_are_layers(page: Page, survey: Survey) -> None:
    user, catalog = page.as_user(), survey.catalog
    (margin,) = catalog.metadata.margins
    cells = user.get(f"{STARS}/cells?version=4&layer=margin&of={margin.name}").json()
    assert cells["totals"]["rows"] == margin.rows
    for increment in catalog.increments:
        cells = user.get(f"{STARS}/cells?version=4&layer=increment&of={increment.ordinal}").json()
        assert cells["totals"]["rows"] == increment.rows


def test_versions_tell_what_each_brought(page: Page, survey: Survey) -> None:
    versions = page.as_user().get(f"{STARS}/versions").json()
    assert [(each["version"], each["kind"]) for each in versions] == [
        (4, "appended"),
        (3, "appended"),
        (2, "appended"),
        (1, "first"),
    ]
    assert [each["rows_added"] for each in versions] == [100, 400, 400, 400]
    assert [[i["rows"] for i in each["increments_added"]] for each in versions] == [
        [500],
        [400],
        [400],
        [400],
    ]
    older = page.as_user().get(f"{STARS}/versions?before=3").json()
    assert [each["version"] for each in older] == [2, 1]


def test_a_diff_says_which_files_came_and_went(page: Page, survey: Survey) -> None:
    user = page.as_user()
    diff = user.get(f"{STARS}/diff?old=2&new=4").json()
    old, new = (files_of(Catalog.open(survey.root, version).metadata, survey) for version in (2, 4))
    (group,) = diff["groups"]
    came, went = new.keys() - old.keys(), old.keys() - new.keys()
    assert (group["files_added"], group["files_removed"]) == (len(came), len(went))
    assert group["files_kept"] == len(new.keys() & old.keys())
    assert group["rows_added"] == sum(new[path] for path in came)
    assert group["rows_removed"] == sum(old[path] for path in went)
    assert diff["rows"] == group["rows_added"] - group["rows_removed"]
    assert [i["rows"] for i in diff["increments_removed"]] == [400]
    added = user.get(f"{STARS}/cells?version=4&layer=added&of=main&since=2").json()
    removed = user.get(f"{STARS}/cells?version=4&layer=removed&of=main&since=2").json()
    assert added["totals"]["rows"] == group["rows_added"]
    assert removed["totals"]["rows"] == group["rows_removed"]


def test_a_diff_backwards_is_the_diff_turned_round(page: Page) -> None:
    user = page.as_user()
    there, back = (user.get(f"{STARS}/diff?old={a}&new={b}").json() for a, b in ((1, 3), (3, 1)))
    assert back["rows"] == -there["rows"]
    for one, other in zip(there["groups"], back["groups"], strict=True):
        assert one["files_added"] == other["files_removed"]
        assert one["bytes_removed"] == other["bytes_added"]


def test_a_catalog_is_described(page: Page, survey: Survey) -> None:
    shown = page.as_user().get(STARS).json()
    metadata = survey.catalog.metadata
    (group,) = shown["groups"]
    assert [column["name"] for column in group["columns"]] == [c.name for c in metadata.groups[0].columns]
    orders, counts = np.unique(survey.catalog.pixels.order, return_counts=True)
    expected = dict(zip(map(str, orders.tolist()), counts.tolist(), strict=True))
    assert group["leaves_per_order"] == expected
    assert {line["tool"] for line in shown["lines"]} == {"LSDB", "hipslake", "Spark", "DuckDB"}
    assert page.as_user().get(f"{STARS}?version=2").json()["rows"] == 800


def test_the_reports_of_a_run_have_seconds_per_step(page: Page, survey: Survey, known_run: str) -> None:
    user = page.as_user()
    runs = {(run["dag_id"], run["run_id"]): run["state"] for run in user.get(f"{STARS}/runs").json()}
    assert runs[INGEST, known_run] == "success"
    steps = user.get("/hipslake/api/reports", params={"dag_id": INGEST, "run_id": known_run}).json()
    assert [step["step"] for step in steps][:3] == ["resolve", "inputs", "histogram"]
    append = next(step for step in steps if step["step"] == "append")
    assert append["ok"]
    assert append["rows_out"] == 400
    assert sum(append["seconds"].values()) > 0
    assert user.get("/hipslake/api/catalogs").json()[0]["last_run"]["state"] == "success"


def test_a_run_that_airflow_does_not_know_has_no_reports(page: Page) -> None:
    asked = {"dag_id": "../../catalogs", "run_id": "stars"}
    assert page.as_user().get("/hipslake/api/reports", params=asked).status_code == 404


def test_a_vacuumed_version_is_gone_from_the_page(page: Page, survey: Survey) -> None:
    from hipslake.storage.folder import Storage
    from hipslake.versions.log_files import version_path

    user, path = page.as_user(), Storage.at(survey.root)
    before = path.read(version_path(1))
    try:
        survey.catalog.vacuum(keep_versions=3, keep_days=0, dry_run=False)
        assert [each["version"] for each in user.get(f"{STARS}/versions").json()] == [4, 3, 2]
        assert user.get(f"{STARS}/cells?version=1").status_code == 404
    finally:
        path.write(version_path(1), before)


def files_of(metadata: CatalogMetadata, survey: Survey) -> dict[str, int]:
    """Rows of each file of the primary group, by path."""
    table = metadata.partitions(None, survey.catalog.storage)
    return dict(zip(table["path"].to_pylist(), table["rows"].to_pylist(), strict=True))


@pytest.fixture
def known_run(page: Page) -> Iterator[str]:
    """The first night's run, as Airflow would have it in its database."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    now = datetime(2026, 11, 22, tzinfo=UTC)
    with create_session() as session:
        # Other tests use this database too, and name their catalogs alike.
        session.query(DagRun).filter(DagRun.dag_id.endswith("__stars")).delete()
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.merge(DagModel(dag_id=INGEST, bundle_name="dags-folder", is_stale=False, fileloc="x"))
        session.flush()
        run = DagRun(
            dag_id=INGEST,
            run_id="run-1",
            run_type=DagRunType.MANUAL,
            run_after=now,
            logical_date=now,
            start_date=now,
            state=DagRunState.SUCCESS,
            triggered_by=DagRunTriggeredByType.TEST,
        )
        session.add(run)
    yield "run-1"
    with create_session() as session:
        session.query(DagRun).filter_by(dag_id=INGEST).delete()
        session.query(DagModel).filter_by(dag_id=INGEST).delete()
