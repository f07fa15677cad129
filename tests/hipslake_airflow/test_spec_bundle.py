"""The bundle has its DAG files parsed when specs change, and not otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake_airflow.spec_bundle import SpecBundle

DAGS = "from hipslake_airflow import spec_dags\n"

pytestmark = pytest.mark.usefixtures("airflow")


@pytest.fixture
def bundle(tmp_path: Path) -> SpecBundle:
    """A bundle of two DAG files, with one spec."""
    for name in ("survey.py", "errors.py"):
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / name).write_text(DAGS)
    (tmp_path / "specs" / "catalogs").mkdir(parents=True)
    (tmp_path / "specs" / "catalogs" / "stars.yaml").write_text("name: stars\n")
    return SpecBundle(
        name="ours", path=str(tmp_path / "dags"), specs=[str(tmp_path / "specs")], refresh_interval=1
    )


def asked() -> list[str]:
    """Return the files that are to be parsed at once, and forget them, as the DAG processor does."""
    from airflow.models.dagbag import DagPriorityParsingRequest
    from airflow.utils.session import create_session

    with create_session() as session:
        waiting = session.query(DagPriorityParsingRequest).filter_by(bundle_name="ours").all()
        for request in waiting:
            session.delete(request)
        return sorted(request.relative_fileloc for request in waiting)


def added(specs: Path) -> None:
    (specs / "catalogs" / "more.yml").write_text("name: more\n")


def changed(specs: Path) -> None:
    (specs / "catalogs" / "stars.yaml").write_text("name: stars \n")


def touched(specs: Path) -> None:
    os.utime(specs / "catalogs" / "stars.yaml", (1, 1))


def removed(specs: Path) -> None:
    (specs / "catalogs" / "stars.yaml").unlink()


def folder_added(specs: Path) -> None:
    (specs / "joins").mkdir()
    (specs / "joins" / "match.yaml").write_text("name: match\n")


def all_gone(specs: Path) -> None:
    removed(specs)
    (specs / "catalogs").rmdir()


@pytest.mark.parametrize("change", [added, changed, touched, removed, folder_added, all_gone])
def test_a_change_of_specs_has_all_files_parsed_once(
    bundle: SpecBundle, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    bundle.refresh()
    assert asked() == []  # Airflow parses them at its start anyway
    bundle.refresh()
    assert asked() == []
    change(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "survey.py"]
    bundle.refresh()
    assert asked() == []


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_files_are_those_that_airflow_itself_takes(
    bundle: SpecBundle, tmp_path: Path, syntax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX", syntax)
    dags = tmp_path / "dags"
    for folder in ("night", "night/deep", "old"):
        (dags / folder).mkdir()
        (dags / folder / "survey.py").write_text(DAGS)
    (dags / "night" / "no_dags.py").write_text("import os\n")
    (dags / "night" / "notes.txt").write_text(DAGS)
    (dags / ".airflowignore").write_text("old/\n")
    (dags / "night" / ".airflowignore").write_text("skipped.*\n")
    (dags / "night" / "skipped.py").write_text(DAGS)
    bundle.refresh()
    added(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "night/deep/survey.py", "night/survey.py", "survey.py"]


def test_what_waits_to_be_parsed_is_not_asked_for_twice(bundle: SpecBundle, tmp_path: Path) -> None:
    bundle.refresh()
    added(tmp_path / "specs")
    bundle.refresh()
    removed(tmp_path / "specs")
    bundle.refresh()
    assert asked() == ["errors.py", "survey.py"]


def test_what_is_no_spec_is_not_looked_at(bundle: SpecBundle, tmp_path: Path) -> None:
    bundle.refresh()
    (tmp_path / "specs" / "catalogs" / "notes.txt").touch()
    (tmp_path / "specs" / "README.md").touch()
    bundle.refresh()
    assert asked() == []


def test_tasks_find_the_folder(bundle: SpecBundle, tmp_path: Path) -> None:
    assert bundle.path == tmp_path / "dags"
    assert bundle.get_current_version() is None
