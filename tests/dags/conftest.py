"""Airflow with a database, and a folder of specs that belongs to the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import airflow_home
from tests.dags.dag_runs import Load
from tests.dags.pauses import without_pauses
from tests.steps import in_process
from tests.steps.upserts import UpsertSurvey


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run DAGs without the pauses of Airflow's test loop."""
    monkeypatch.setattr(time, "sleep", without_pauses(time.sleep))


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of catalog specs that the DAG file reads; the warehouse is the test's own too."""
    folder = tmp_path / "specs" / "catalogs"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HIPSLAKE_SPECS", str(folder.parent))
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setenv("HIPSLAKE_STATE", str(tmp_path / "state"))
    return folder


@pytest.fixture
def stars(specs: Path, tmp_path: Path) -> Path:
    """The spec `stars`, whose files are there."""
    in_process.write_source(tmp_path / "landing")
    return in_process.write_spec(specs / "stars.yaml", f"{tmp_path}/landing/*.parquet")


@pytest.fixture
def survey(specs: Path, tmp_path: Path) -> UpsertSurvey:
    """A survey in mode upsert, whose spec lies where the DAG files look."""
    survey = UpsertSurvey(tmp_path, more="margin: {arcsec: 60}")
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    return survey


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse in which a link leads to what is published."""
    root = tmp_path / "warehouse"
    for name in ("catalogs/stars", "cubes/sky", "exports"):
        (root / name).mkdir(parents=True)
    (root / "exports" / "link").symlink_to(root / "catalogs" / "stars")
    return root


@pytest.fixture
def load() -> Load:
    """Load the DAG files as Airflow does; DAGs by id. No file may fail but the one that tells of specs."""
    return lambda: _loaded()[0]


@pytest.fixture
def told() -> Callable[[], str]:
    """Load the DAG files as Airflow does; the import error that its UI shows, or an empty text."""
    return lambda: _loaded()[1]


def _loaded() -> tuple[dict[str, Any], str]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(airflow_home.PROJECT / "dags"))
    errors = {Path(file).name: text for file, text in bag.import_errors.items()}
    assert errors.keys() <= {"spec_errors.py"}
    return dict(bag.dags), errors.get("spec_errors.py", "")
