"""The page shows catalogs that older code published, and the nights that came to them since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrade.test_first_catalogs import Grown, night
from tests.upgrade.unpacked import unpacked


@pytest.fixture(scope="module")
def page(airflow: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The page of a warehouse of the first ingest, one of whose catalogs has got a night."""
    place = unpacked("first_catalogs", tmp_path_factory.mktemp("older"))
    survey = Grown(place, "stars")
    survey.land(0, night(0))
    survey.append(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        yield Page(place / "warehouse", place / "specs")
        purge_cached_app()


def told(page: object, path: str) -> object:
    answer = page.as_user().get(f"/hipslake/api/catalogs{path}")  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_they_are_listed_with_their_versions(page: object) -> None:
    listed = {each["name"]: each for each in told(page, "")}  # type: ignore[attr-defined]
    assert {name: each["rows"] for name, each in listed.items()} == {"grouped": 1498, "stars": 1698}
    assert {name: each["version"] for name, each in listed.items()} == {"grouped": 1, "stars": 3}
    versions = told(page, "/stars/versions")
    assert [each["version"] for each in versions] == [3, 2, 1]  # type: ignore[attr-defined]


def test_their_skies_and_differences_are_shown(page: object) -> None:
    shown = {
        "/grouped/cells?version=1": 1498,
        "/stars/cells?version=1": 1498,
        "/stars/cells?version=3": 1698,
        "/stars/cells?version=3&layer=increment&of=0": 1498,
        "/stars/cells?version=3&layer=increment&of=1": 200,
    }
    found = {path: sum(told(page, path)["rows"]) for path in shown}  # type: ignore[index]
    assert found == shown
    assert told(page, "/stars/diff?old=1&new=3")
