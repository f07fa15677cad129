"""Lists and timelines: one run that went well hides no failed one, and a wrong spec says what is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage

from tests.steps.nights import FIRST, Survey

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

STARS = "/hipslake/api/catalogs/stars"
INGEST = "catalog_ingest__stars"
DAY = timedelta(days=1)


@contextmanager
def known_runs(*runs: tuple[str, str, int | None, str]) -> Iterator[None]:
    """Runs in Airflow's database: DAG, run, night, state."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    names = {dag_id for dag_id, *_ in runs}
    with create_session() as session:
        session.query(DagRun).filter(DagRun.dag_id.in_(names)).delete()
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for name in names:
            session.merge(DagModel(dag_id=name, bundle_name="dags-folder", is_stale=False, fileloc="x"))
        session.flush()
        for number, (dag_id, run_id, night, state) in enumerate(runs):
            when = datetime(2026, 11, 22, tzinfo=UTC) + timedelta(minutes=number)
            start = None if night is None else FIRST + night * DAY
            session.add(
                DagRun(
                    dag_id=dag_id,
                    run_id=run_id,
                    run_type=DagRunType.MANUAL,
                    run_after=when,
                    logical_date=when,
                    start_date=when,
                    state=state,
                    triggered_by=DagRunTriggeredByType.TEST,
                    data_interval=None if start is None else (start, start + DAY),
                )
            )
            session.flush()
    try:
        yield
    finally:
        with create_session() as session:
            session.query(DagRun).filter(DagRun.dag_id.in_(names)).delete()
            session.query(DagModel).filter(DagModel.dag_id.in_(names)).delete()


@pytest.fixture
def failed_report(survey: Survey) -> Iterator[None]:
    folder = Storage.at(run_uri(survey.warehouse, INGEST, "bad"))
    told = {
        "step": "histogram",
        "ok": False,
        "error": {"kind": "CorruptFileError", "message": "a.parquet is cut"},
    }
    folder.write("reports/histogram.json", json.dumps(told).encode())
    yield
    folder.delete_tree("reports")


def listed(page: Page, kind: str = "catalogs") -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in page.as_user().get(f"/hipslake/api/{kind}").json()}


@pytest.mark.usefixtures("failed_report")
def test_a_failed_night_is_not_hidden_by_a_later_one_that_went_well(page: Page) -> None:
    with known_runs((INGEST, "bad", 3, "failed"), (INGEST, "good", 4, "success")):
        stars = listed(page)["stars"]
        assert stars["last_run"]["run_id"] == "good"
        assert stars["last_failed"]["run_id"] == "bad"
        assert stars["last_failed"]["error"] == "histogram: CorruptFileError: a.parquet is cut"
        assert page.as_user().get(STARS).json()["last_failed"] == stars["last_failed"]
        timeline = page.as_user().get(f"{STARS}/timeline").json()
        assert timeline["last_error"] == stars["last_failed"]
        states = {each["label"]: each["state"] for each in timeline["nights"]}
        assert states["2026-10-04"] == "failed"
        assert states["2026-10-05"] == "empty"
        (failed,) = [each for each in timeline["nights"] if each["state"] == "failed"]
        assert failed["runs"][0]["error"] == stars["last_failed"]["error"]
    with known_runs((INGEST, "bad", 3, "failed"), (INGEST, "good", 3, "success")):
        assert listed(page)["stars"]["last_failed"] is None
    with known_runs((INGEST, "bad", None, "failed"), (INGEST, "good", None, "success")):
        assert listed(page)["stars"]["last_failed"] is None
    with known_runs((INGEST, "good", None, "success"), (INGEST, "unknown", None, "failed")):
        assert listed(page)["stars"]["last_failed"]["error"] is None


def test_who_may_not_see_runs_is_told_of_none(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.web.catalogs_page import PerDag

    allowed = PerDag.is_authorized_dag

    def without_runs(self: Any, *, access_entity: Any = None, **asked: Any) -> bool:
        return access_entity is None and allowed(self, access_entity=access_entity, **asked)

    monkeypatch.setattr(PerDag, "is_authorized_dag", without_runs)
    with known_runs((INGEST, "bad", 3, "failed")):
        assert listed(page)["stars"]["last_failed"] is None
        timeline = page.as_user().get(f"{STARS}/timeline").json()
        assert timeline["last_error"] is None
        assert all(each["runs"] == [] for each in timeline["nights"])


def test_the_timeline_tells_which_nights_each_version_brought(page: Page, survey: Survey) -> None:
    timeline = page.as_user().get(f"{STARS}/timeline").json()
    versions = {each["version"]: each for each in timeline["versions"]}
    assert [versions[number]["nights"] for number in (2, 3, 4)] == [
        ["2026-10-02"],
        ["2026-10-03"],
        ["2026-10-02"],
    ]
    assert versions[4]["replaced"] == ["2026-10-02"]
    assert versions[4]["margins"] == [600]
    nights = {each["label"]: each for each in timeline["nights"]}
    assert [nights[f"2026-10-0{day}"]["state"] for day in (1, 2, 3)] == ["in", "replaced", "in"]
    assert [nights[f"2026-10-0{day}"]["rows"] for day in (1, 2, 3)] == [400, 500, 400]
    assert nights["2026-10-02"]["version"] == 4
    assert nights["2026-10-02"]["times"] == 2
    older = page.as_user().get(f"{STARS}/timeline?before=4&most=1").json()
    assert [each["version"] for each in older["versions"]] == [3]


def test_what_is_wrong_with_a_spec_stands_in_the_list(page: Page, survey: Survey) -> None:
    folder = survey.place / "specs"
    wrong = folder / "catalogs" / "wrong.yaml"
    assert "wrong" not in listed(page)
    wrong.write_text("name: wrong\nsorce: {uri: /x}\n")
    try:
        told = listed(page)["wrong"]
        assert told["problem"] == "not published yet"
        assert f"{wrong}:2: sorce" in told["spec_problem"]
        wrong.write_text(
            "name: wrong\nsource: {uri: /x/a.parquet, format: parquet}\nposition: {ra: ra, dec: dec}\n"
        )
        assert listed(page)["wrong"]["spec_problem"] is None
    finally:
        wrong.unlink()
    assert "wrong" not in listed(page)
    assert listed(page)["stars"]["nights"] == 3


def test_cubes_tell_the_last_run_of_the_dags_that_make_them(page: Page, survey: Survey) -> None:
    cubes = survey.place / "specs" / "cubes"
    cubes.mkdir(exist_ok=True)
    (cubes / "aligned_sky.yaml").write_text("name: aligned_sky\n")
    try:
        with known_runs(("cube_align__aligned_sky", "aligned", None, "success")):
            cube = listed(page, "cubes")["aligned_sky"]
        assert cube["last_run"]["run_id"] == "aligned"
        assert cube["problem"] == "not built yet"
        assert "dimension_columns" in cube["spec_problem"]
    finally:
        (cubes / "aligned_sky.yaml").unlink()


def test_a_thousand_specs_are_listed_soon(
    airflow: Path, survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are read: 0.3 s on an idle machine, of which this leaves much."""
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
    monkeypatch.setenv("HIPSLAKE_PAGE_SECONDS", "60")
    from airflow.api_fastapi.app import purge_cached_app

    from tests.web.catalogs_page import Page

    (tmp_path / "catalogs").mkdir()
    for number in range(1000):
        name = f"c{number:04}"
        (tmp_path / "catalogs" / f"{name}.yaml").write_text(
            f"name: {name}\nsource: {{uri: /x/*.parquet, format: parquet}}\nposition: {{ra: ra, dec: dec}}\n"
        )
    user = Page(Path(survey.warehouse), tmp_path).as_user()
    try:
        assert len(user.get("/hipslake/api/catalogs").json()) == 1001
        begin = time.process_time()
        assert len(user.get("/hipslake/api/catalogs").json()) == 1001
        assert time.process_time() - begin < 1.5
    finally:
        purge_cached_app()
