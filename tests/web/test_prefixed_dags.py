"""DAGs whose ids have a prefix are found on the page: by name, with their runs, for whom may read them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hipslake
import pyarrow as pa
import pytest
from hipslake_airflow.web import pipelines

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

IDS = (
    "survey.catalog_ingest__pleiades",
    "survey.catalog_verify__pleiades",
    "survey.catalog_export",
    "catalog_export",
    "survey.catalog_ingest__pleiades_2",
    "survey.catalog_ingest__xpleiades",
    "catalog_verify__pleiades",
    "other.iceberg_sink__pleiades",
    "pleiades",
)


@pytest.fixture(scope="module")
def page(airflow: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a catalog whose name no other test of this database uses."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    rows = pa.table({"ra": [56.75], "dec": [24.12]})
    hipslake.ingest(
        rows, spec={"name": "pleiades", "position": {"ra": "ra", "dec": "dec"}}, warehouse=warehouse
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        yield Page(warehouse, warehouse / "specs")
        purge_cached_app()  # others take Airflow's own auth manager


@pytest.fixture(autouse=True)
def known_dags(airflow: object) -> Iterator[None]:
    """DAGs of several prefixes, and a run that failed, in Airflow's database."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    with create_session() as session:
        session.merge(DagBundleModel(name="prefixed"))
        session.flush()
        for dag_id in IDS:
            session.merge(DagModel(dag_id=dag_id, bundle_name="prefixed", is_stale=False))
        session.flush()
        when = datetime(2026, 11, 1, tzinfo=UTC)
        session.add(
            DagRun(
                dag_id=IDS[0],
                run_id="night",
                run_type=DagRunType.MANUAL,
                run_after=when,
                state=DagRunState.FAILED,
            )
        )
    yield
    with create_session() as session:
        session.query(DagRun).filter(DagRun.dag_id.in_(IDS)).delete()
        session.query(DagModel).filter(DagModel.dag_id.in_(IDS)).delete()


def found(names: list[str]) -> dict[str, tuple[str, ...]]:
    from airflow.utils.session import create_session

    with create_session() as session:
        return pipelines.found((*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG), names, session)


def test_ids_are_found_by_the_exact_name_of_the_spec() -> None:
    wanted = (
        "survey.catalog_ingest__pleiades",
        "catalog_verify__pleiades",
        "survey.catalog_verify__pleiades",
    )
    assert found(["pleiades"]) == {"pleiades": wanted}
    # Of many names all ids are looked through.
    many = found(["pleiades", *(f"none_{number}" for number in range(30))])
    assert many["pleiades"] == wanted
    assert not any(several for name, several in many.items() if name != "pleiades")
    assert found([]) == {}
    assert found(["pleiade%", "pleiade_", "s"]) == {"pleiade%": (), "pleiade_": (), "s": ()}


@pytest.mark.parametrize(
    ("dag_id", "told"),
    [
        ("catalog_ingest__a__b", ("", "catalog_ingest", "a__b")),
        ("x_catalog_ingest__a", ("x_", "catalog_ingest", "a")),
        ("iceberg_sink__catalog_ingest__a", ("", "iceberg_sink", "catalog_ingest__a")),
        ("catalog_ingests__a", None),
        ("", None),
    ],
)
def test_an_id_is_taken_apart(dag_id: str, told: tuple[str, str, str] | None) -> None:
    assert pipelines.parts(dag_id) == told


def test_the_page_of_a_catalog_has_the_dags_and_runs_of_its_prefix(page: Page) -> None:
    answer = page.as_user().get("/hipslake/api/catalogs/pleiades").json()
    assert answer["dags"]["ingest"] == "survey.catalog_ingest__pleiades"
    assert answer["dags"]["export"] == "survey.catalog_export"
    assert answer["last_failed"]["dag_id"] == "survey.catalog_ingest__pleiades"
    listed = {each["name"]: each for each in page.as_user().get("/hipslake/api/catalogs").json()}
    assert listed["pleiades"]["last_run"]["dag_id"] == "survey.catalog_ingest__pleiades"
    assert page.as_user().get("/hipslake/api/catalogs/pleiades/runs").json()[0]["run_id"] == "night"


def test_rights_are_those_of_the_dag_with_the_prefix(page: Page) -> None:
    for dag_id, code in (
        ("survey.catalog_ingest__pleiades", 200),
        ("catalog_ingest__pleiades", 403),
        ("survey.catalog_ingest__xpleiades", 403),
        ("survey.catalog_verify__pleiades", 403),
        ("other.iceberg_sink__pleiades", 403),
    ):
        assert page.as_user(dag_id, "VIEWER").get("/hipslake/api/catalogs/pleiades").status_code == code
