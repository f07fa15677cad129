"""The attack's requests again, under FAB with rights per DAG: nobody reaches what is not of the own DAG.

What a task makes of an XCom that its DAG's user has replaced is held by `tests/dags/test_run_folders.py`, and
what a step makes of a form that Airflow lets pass by `tests/dags/test_hostile_forms.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_home import PROJECT
from tests.steps import in_process

FAB = PROJECT / ".fab"
MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was answered, of a warehouse with two catalogs."""
    if not (FAB / ".complete").exists():
        pytest.skip("there is no FAB; include/setup/setup.sh fab gets it")
    place = tmp_path_factory.mktemp("fab")
    specs = place / "specs" / "catalogs"
    specs.mkdir(parents=True)
    in_process.write_source(place / "landing", rows=300)
    for name in ("stars", "other"):
        path = in_process.write_spec(specs / f"{name}.yaml", f"{place}/landing/*.parquet")
        path.write_text(path.read_text().replace("name: stars", f"name: {name}"))
        in_process.ingest(in_process.start(place / "warehouse", path, name))
    (place / "home").mkdir()
    variables = {
        "AIRFLOW_HOME": str(place / "home"),
        "AIRFLOW__CORE__AUTH_MANAGER": MANAGER,
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{place}/home/airflow.db",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of tests, as long as it has to be" * 2,
        "HIPSLAKE_SPECS": str(place / "specs"),
        "HIPSLAKE_LANDING": str(place / "landing"),
        "HIPSLAKE_WAREHOUSE": str(place / "warehouse"),
        "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, PROJECT / "include", PROJECT / "plugins", FAB))),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "HIPSLAKE"))}
    for command in (["airflow", "db", "migrate"], ["tests.system.fab_attack"]):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=place,
            env=kept | variables,
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize(("who", "code"), [("no session", 401), ("no rights", 403), ("another's", 403)])
def test_every_request_about_the_dag_of_others_is_refused(told: dict[str, Any], who: str, code: int) -> None:
    answers = told["answers"][who]
    assert len(answers) == 15
    assert answers == dict.fromkeys(answers, code)


def test_the_requests_are_ones_that_the_own_dag_answers(told: dict[str, Any]) -> None:
    """So that what is refused is refused for its rights, and for nothing else."""
    answers = dict(told["answers"]["own"])
    assert answers.pop("edit what a task passed on") in (200, 404)
    assert {what: code for what, code in answers.items() if code not in (200, 201)} == {}


def test_forms_that_make_no_sense_are_refused_by_the_api(told: dict[str, Any]) -> None:
    refused = told["answers"]["conf"] | told["answers"]["forms"]
    assert refused.pop("conf that is no field") in (200, 400)  # no task looks at it
    assert set(refused.values()) <= {400, 422}, refused


def test_the_page_lists_what_the_user_may_read(told: dict[str, Any]) -> None:
    assert told["listed"] == ["stars"]
    assert told["admins"] == ["other", "stars"]
