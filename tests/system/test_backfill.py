"""Nights backfilled under a real scheduler, several at a time: each lands once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.receivers import statsd_socket
from tests.steps.nights import FIRST, Survey, night_rows
from tests.stores.postgres import find_postgres, running_postgres
from tests.system.standalone import standalone

EMPTY, MISSING = 4, 3  # four run at once: the empty night is never the first of all
DAG = "catalog_ingest__stars"


@pytest.mark.slow
@pytest.mark.parametrize("nights", [5, 10])
def test_nights_of_a_backfill_land_once(tmp_path: Path, nights: int) -> None:
    survey = Survey(tmp_path, more='schedule: "0 0 * * *"')
    specs = tmp_path / "specs" / "catalogs"
    specs.mkdir(parents=True)
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    for number in range(nights):
        if number != MISSING:
            survey.land(number, night_rows(number, rows=0 if number == EMPTY else 100))
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    folders = {"HIPSLAKE_SPECS": str(specs.parent), "HIPSLAKE_WAREHOUSE": str(tmp_path / "warehouse")}
    with (
        running_postgres(programs) as database,
        statsd_socket(metrics_allow_list="hipslake.catalog,append") as statsd,
        standalone(
            tmp_path, **folders, **statsd.variables, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database
        ) as airflow,
    ):
        airflow.run(f"airflow dags reserialize && airflow dags unpause --yes {DAG}")
        first, last = (FIRST + timedelta(days=day) for day in (0, nights - 1))
        create = (
            f"airflow backfill create --dag-id {DAG} --from-date {first:%Y-%m-%d} --to-date {last:%Y-%m-%d} "
            """--max-active-runs 4 --dag-run-conf '{"wait_minutes": 0}'"""
        )
        airflow.run(create)
        states = states_at_the_end(database)
        scheduled = values(database, "select run_id from dag_run where run_type = 'scheduled'")
        notes = values(
            database,
            "select n.content from dag_run_note n join dag_run r on r.id = n.dag_run_id "
            "where r.run_type = 'backfill' order by r.data_interval_start",
        )
        assert airflow.listens_on() == {"127.0.0.1"}
        metrics = statsd.received()
    assert states == ["success"] * nights
    expected = [f"The night of {FIRST + timedelta(days=day):%Y-%m-%d}." for day in range(nights)]
    missing = f"{FIRST + timedelta(days=MISSING):%Y-%m-%d}"
    expected[MISSING] = f"Skipped, the night of {missing}: no file came, so nothing was added."
    assert notes == expected
    assert all(re.fullmatch(r"scheduled__night_\d{4}-\d\d-\d\d", run_id) for run_id in scheduled)
    survey.assert_holds_what_landed()
    increments = survey.catalog.increments
    landed = [(FIRST + timedelta(days=day)).isoformat() for day in range(nights) if day != MISSING]
    assert sorted(increment.key or "" for increment in increments) == landed
    assert survey.catalog.version == len(landed)
    rows = [int(told.removesuffix("|g")) for told in metrics["airflow.hipslake.catalog.stars.rows"]]
    assert sorted(rows)[-1] == survey.catalog.metadata.total_rows
    assert 0 < len(metrics[f"airflow.hipslake.step.{DAG}.append.duration"]) <= len(landed)  # none twice


@pytest.mark.slow
def test_a_backfill_and_triggers_beside_it_run_on_the_database_of_make_up(tmp_path: Path) -> None:
    if find_postgres() is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    nights = 4
    survey = Survey(tmp_path, more='schedule: "0 0 * * *"')
    specs = tmp_path / "specs" / "catalogs"
    specs.mkdir(parents=True)
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    for number in range(nights + 2):
        survey.land(number, night_rows(number, rows=100))
    folders = {"HIPSLAKE_SPECS": str(specs.parent), "HIPSLAKE_WAREHOUSE": str(tmp_path / "warehouse")}
    with standalone(tmp_path, on_postgres=True, **folders) as airflow:
        # Ready is ready: the first runs of all come at once, and no first try of a task is lost.
        first, last = (FIRST + timedelta(days=day) for day in (0, nights - 1))
        more = [FIRST + timedelta(days=nights + number) for number in range(2)]
        windows = [f'{{"wait_minutes": 0, "window_start": "{night:%Y-%m-%dT00:00:00Z}"}}' for night in more]
        lines = [f"airflow dags trigger {DAG} --conf '{window}' & pids+=($!)" for window in windows]
        airflow.run(
            f"airflow dags unpause --yes {DAG}; pids=(); {'; '.join(lines)}; "
            f"airflow backfill create --dag-id {DAG} --from-date {first:%Y-%m-%d} --to-date {last:%Y-%m-%d} "
            """--max-active-runs 4 --dag-run-conf '{"wait_minutes": 0}'; """
            'for pid in "${pids[@]}"; do wait "$pid"; done'
        )
        database = airflow.run('printf %s "$AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"').splitlines()[-1]
        assert database.startswith("postgresql")
        assert states_at_the_end(database, "run_type <> 'scheduled'") == ["success"] * (nights + 2)
        tries = values(database, "select max(try_number) from task_instance where start_date is not null")
        assert tries == [1]
    landed = {(FIRST + timedelta(days=day)).isoformat() for day in range(nights)}
    assert landed <= {increment.key for increment in survey.catalog.increments}
    with pytest.raises(Exception, match="refused"):  # `down` stops the database too
        values(database, "select 1")


def values(database: str, statement: str) -> list[Any]:
    """The first column of what a database answers."""
    engine = create_engine(database)
    try:
        with engine.connect() as connection:
            return list(connection.execute(text(statement)).scalars())
    finally:
        engine.dispose()


def states_at_the_end(database: str, which: str = "run_id like 'backfill%'") -> list[str]:
    """The states of some runs, by default the backfill's, when all have ended."""
    asked = text(f"select state from dag_run where {which}")
    engine = create_engine(database)

    def states() -> list[str]:
        with engine.connect() as connection:
            return list(connection.execute(asked).scalars())

    patient_until(lambda: {*states()} <= {"success", "failed"}, seconds=600)
    found = states()
    engine.dispose()
    return found


def patient_until(condition: Callable[[], bool], *, seconds: float) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.5)
