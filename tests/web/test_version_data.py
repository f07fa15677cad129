"""What the page tells of versions: cells, tiles, layers, differences, and the reports of runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake_airflow.web.answers import catalog_answer

from tests.steps.nights import Survey

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

STARS = "/hipslake/api/catalogs/stars"
INGEST = "catalog_ingest__stars"


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
    assert [each["rows_replaced"] for each in versions] == [400, None, None, None]
    assert {each["inserted"] for each in versions} == {None}
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


def test_rows_that_were_superseded_or_may_lack_partners_are_told(survey: Survey) -> None:
    metadata = survey.catalog.metadata
    replaced = metadata.increments[-1].model_copy(update={"superseded": 5})
    changed = {"increments": (*metadata.increments[:-1], replaced), "rows_near_borders": 7}
    told = catalog_answer("x", "/x", metadata.model_copy(update=changed), (), 4, (), {}, (), None, None, None)
    assert (told.rows_superseded, told.rows_near_borders) == (5, 7)
    told = catalog_answer("x", "/x", metadata, (), 4, (), {}, (), None, None, None)
    assert (told.rows_superseded, told.rows_near_borders) == (0, None)
