"""A warehouse with a catalog of four versions, behind Airflow's auth manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake.steps.ingest import draft

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.sources_of_objects import Lake
from tests.web.lakes import make_lake


@pytest.fixture(scope="session")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Three nights and a margin; the second night came twice. Versions 1 to 4.

    Of the increments of 3 and 4, metadata.json lists the last only, as that of many nights does.
    """
    survey = Survey(tmp_path_factory.mktemp("survey"), more="margin: {arcsec: [600]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "MOST_LISTED", 2)
        patch.setattr(draft, "LISTED_AGAIN", 1)
        for number in (0, 1, 2):
            survey.land(number, night_rows(number))
            survey.append(number)
        survey.land(1, night_rows(1, rows=500, seed=1))
        folder = survey.start(1)
        in_process.append(folder)
    in_process.show(folder)
    assert survey.catalog.metadata.earlier is not None
    return survey


@pytest.fixture(scope="module")
def page(airflow: Path, survey: Survey) -> Iterator[object]:
    """The page of the survey's warehouse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        specs = survey.place / "specs" / "catalogs"
        specs.mkdir(parents=True, exist_ok=True)
        (specs / "stars.yaml").write_text(survey.spec.read_text())
        yield Page(Path(survey.warehouse), specs.parent)
        purge_cached_app()  # others take Airflow's own auth manager


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects, sources, light curves and a match."""
    return make_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def lake_page(airflow: Path, lake: Lake) -> Iterator[object]:
    """The page of that warehouse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        yield Page(Path(lake.warehouse), lake.place / "specs")
        purge_cached_app()
