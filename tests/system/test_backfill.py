"""Ten nights backfilled under a real scheduler, several at a time: each lands once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.steps.nights import FIRST, Survey, night_rows
from tests.stores.postgres import find_postgres, running_postgres
from tests.system.standalone import Standalone, standalone

NIGHTS, EMPTY, MISSING = 10, 4, 7
DAG = "catalog_ingest__stars"


def test_ten_nights_of_a_backfill_land_once(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more='schedule: "0 0 * * *"')
    specs = tmp_path / "specs" / "catalogs"
    specs.mkdir(parents=True)
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    for number in range(NIGHTS):
        if number != MISSING:
            survey.land(number, night_rows(number, rows=0 if number == EMPTY else 100))
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    folders = {"HIPSLAKE_SPECS": str(specs.parent), "HIPSLAKE_WAREHOUSE": str(tmp_path / "warehouse")}
    with (
        running_postgres(programs) as database,
        standalone(tmp_path, **folders, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database) as airflow,
    ):
        airflow.run(f"airflow dags reserialize && airflow dags unpause --yes {DAG}")
        first, last = (FIRST + timedelta(days=day) for day in (0, NIGHTS - 1))
        create = (
            f"airflow backfill create --dag-id {DAG} --from-date {first:%Y-%m-%d} --to-date {last:%Y-%m-%d} "
            """--max-active-runs 4 --dag-run-conf '{"wait_minutes": 0}'"""
        )
        airflow.run(create)
        runs = ended_runs(airflow, survey, NIGHTS - 1)
    assert [run["state"] for run in runs] == ["success"] * NIGHTS
    survey.assert_holds_what_landed()
    increments = survey.catalog.metadata.increments
    nights = [(FIRST + timedelta(days=day)).isoformat() for day in range(NIGHTS) if day != MISSING]
    assert sorted(increment.key or "" for increment in increments) == nights
    assert survey.catalog.version == len(nights)


def ended_runs(airflow: Standalone, survey: Survey, versions: int) -> list[dict[str, str]]:
    """The backfill's runs, when all have ended."""
    patient_until(lambda: len(list(survey.root.glob("_versions/*.json"))) == versions, seconds=400)

    def backfilled() -> list[dict[str, str]]:
        printed = airflow.run(f"airflow dags list-runs {DAG} --output json")
        runs = json.loads(printed[printed.index("[{") :])
        return [run for run in runs if run["run_id"].startswith("backfill")]

    patient_until(lambda: {run["state"] for run in backfilled()} <= {"success", "failed"}, seconds=200)
    return backfilled()


def patient_until(condition: Callable[[], bool], *, seconds: float) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(2)
