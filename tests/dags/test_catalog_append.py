"""The DAGs of a catalog of mode append: nights by their data interval, empty ones, and compaction."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hipslake import Catalog

from tests.dags.dag_runs import Load, states
from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.upserts import Record, UpsertSurvey, table_of

STEPS = ["resolve", "wait", "inputs", "histogram", "append", "view"]
INGEST, COMPACT = "catalog_ingest__stars", "catalog_compact__stars"


@pytest.fixture
def survey(specs: Path, tmp_path: Path) -> Survey:
    """A survey whose spec lies where the DAG files look."""
    survey = Survey(tmp_path, more='append: add_file\nschedule: "0 0 * * *"')
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    survey.spec.unlink()
    return survey


def note(run: Any, dag: Any) -> str | None:
    """What the UI shows beside the state of a run, once the scheduler has told its listeners of its end."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from hipslake_airflow.run_notes import on_dag_run_success
    from sqlalchemy import select

    query = select(DagRun).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
    with create_session() as session:
        ended = session.scalars(query).one()
        ended.dag = dag
        on_dag_run_success(ended, "")
    with create_session() as session:
        found: str | None = session.scalars(query).one().note
        return found


def run_night(load: Load, number: int, **conf: Any) -> Any:
    """The run at the end of a night, as `airflow dags test` makes it for that date."""
    end = FIRST + timedelta(days=number + 1)
    return load()[INGEST].test(logical_date=end, run_conf={"wait_minutes": 0, **conf})


def test_an_append_has_tasks_and_params_of_its_own(load: Load, survey: Survey) -> None:
    dag = load()[INGEST]
    assert [task.task_id for task in dag.topological_sort()] == STEPS
    assert {"force", "wait_minutes", "window_start", "window_end"} == set(dag.params)
    assert dag.max_active_runs > 1


def test_only_catalogs_whose_leaves_gather_files_are_compacted(
    load: Load, survey: Survey, specs: Path
) -> None:
    assert COMPACT in load()
    text = (specs / "stars.yaml").read_text()
    (specs / "stars.yaml").write_text(text.replace("append: add_file", ""))
    assert COMPACT not in load()


def test_a_compaction_follows_its_catalog_or_the_schedule_of_the_spec(
    load: Load, survey: Survey, specs: Path
) -> None:
    dag = load()[COMPACT]
    assert "hipslake://catalogs/stars" in repr(dag.timetable.asset_condition)
    assert dag.params["min_files"] == 10
    with (specs / "stars.yaml").open("a") as file:
        file.write('compact: {min_files: 3, schedule: "0 4 * * *"}\n')
    dag = load()[COMPACT]
    assert dag.timetable.expression == "0 4 * * *"
    assert dag.params["min_files"] == 3


@pytest.mark.parametrize("value", [1, "many", 1e9, None])
def test_a_number_of_files_out_of_bounds_is_refused(load: Load, survey: Survey, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()[COMPACT].params.get_param("min_files").resolve(value)


@pytest.mark.system
def test_nights_land_by_their_interval_and_are_compacted(
    airflow: Path, load: Load, survey: Survey, tmp_path: Path
) -> None:
    for number in (0, 1, 2):
        survey.land(number, night_rows(number, rows=90))
        run = run_night(load, number)
        assert states(run) == dict.fromkeys(STEPS, "success")
        assert note(run, load()[INGEST]) is None
    catalog = Catalog.open(survey.root)
    keys = [increment.key for increment in catalog.increments]
    assert keys == [(FIRST + timedelta(days=number)).isoformat() for number in (0, 1, 2)]
    survey.assert_holds_what_landed()

    again = run_night(load, 1)
    assert states(again)["append"] == "skipped"
    assert states(again)["view"] == "success"
    assert note(again, load()[INGEST]) == "Skipped: there was nothing new to add."
    assert Catalog.open(survey.root).version == 3

    empty = run_night(load, 7)
    assert states(empty) == {
        **dict.fromkeys(STEPS, "skipped"),
        "resolve": "success",
        "view": "success",
    }
    assert str(empty.state) == "success"
    assert note(empty, load()[INGEST]) == "Skipped: no file came, so nothing was added."

    compacted = load()[COMPACT].test(run_conf={"min_files": 2})
    assert set(states(compacted).values()) == {"success"}
    [group] = Catalog.open(survey.root).metadata.groups
    assert group.files == group.leaves
    survey.assert_holds_what_landed()


@pytest.mark.system
def test_a_night_without_files_is_skipped_in_mode_upsert_too(
    airflow: Path, load: Load, specs: Path, tmp_path: Path
) -> None:
    survey = UpsertSurvey(tmp_path, more='schedule: "0 0 * * *"')
    (specs / "stars.yaml").write_text(survey.spec.read_text())
    survey.nights[0] = [Record("I", key, 0, 10.0 + key, 5.0, 1.0, 0) for key in range(5)]
    survey.land(0, table_of(survey.nights[0]))
    assert states(run_night(load, 0)) == dict.fromkeys(STEPS, "success")
    empty = run_night(load, 1)
    assert str(empty.state) == "success"
    assert states(empty)["wait"] == states(empty)["append"] == "skipped"
    survey.assert_holds_the_state()


@pytest.mark.system
def test_an_empty_night_fails_where_the_spec_says_so(
    airflow: Path, load: Load, survey: Survey, specs: Path
) -> None:
    with (specs / "stars.yaml").open("a") as file:
        file.write("on_empty: fail\n")
    run = run_night(load, 3)
    assert states(run)["wait"] == "failed"
    assert not (survey.root / "metadata.json").exists()
