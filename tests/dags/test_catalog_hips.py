"""The DAG of HiPS: its form, and whole runs of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipslake.steps.hips.request import HipsRequest

from tests.dags.dag_runs import Load, check_form
from tests.steps import in_process
from tests.steps.hips.hips_reader import check_limits, check_progress, read_hips

DAG_ID = "catalog_hips__stars"


@pytest.fixture
def root(tmp_path: Path, stars: Path) -> Path:
    """The catalog `stars`."""
    in_process.ingest(in_process.start(tmp_path / "warehouse", stars))
    return tmp_path / "warehouse" / "catalogs" / "stars"


def test_every_catalog_has_one_with_a_form_that_explains_itself(load: Load, stars: Path) -> None:
    dag = load()[DAG_ID]
    assert [task.task_id for task in dag.tasks] == ["hips"]
    assert dag.max_active_runs == 1
    assert "exports/hips/stars" in dag.params.get_param("output").description
    assert "hipslist" in dag.doc_md
    check_form(dag.params)


def test_the_form_has_every_option_with_its_default_and_its_bounds(load: Load, stars: Path) -> None:
    params = load()[DAG_ID].params
    request = HipsRequest(run_uri="/r", warehouse="/w", catalog="stars")
    own = {"run_uri", "warehouse", "catalog", "task_bytes", "created"}
    assert {name: params[name] for name in params} == request.model_dump(exclude=own)
    told = HipsRequest.model_json_schema()["properties"]
    for name in ("tile_rows", "allsky_rows", "deepest_order", "coverage_order", "keep_versions"):
        schema = params.get_param(name).schema
        assert schema["minimum"] == told[name]["minimum"]
        assert told[name].get("maximum") in (None, schema["maximum"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 0),
        ("order_by", 3),
        ("descending", "yes"),
        ("columns", "id"),
        ("columns", [""]),
        ("filters", "x" * 10_001),
        ("tile_rows", 0),
        ("tile_rows", 1.5),
        ("allsky_rows", 10**6),
        ("deepest_order", 2),
        ("deepest_order", 30),
        ("coverage_order", -1),
        ("service_url", "ftp://example.org"),
        ("service_url", "https://example.org\n"),
        ("service_url", "https://me:secret@example.org"),
        ("creator_did", "stars"),
        ("creator_did", "ivo://survey.org/x\nhips_status = public"),
        ("keep_versions", 0),
        ("public", None),
    ],
)
def test_params_out_of_bounds_are_refused(load: Load, stars: Path, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        load()[DAG_ID].params.get_param(name).resolve(value)


def executed(dag: Any, **params: Any) -> dict[str, Any]:
    run = SimpleNamespace(dag_id=DAG_ID, run_id="by hand")
    given = {name: dag.params[name] for name in dag.params} | params
    found: dict[str, Any] = dag.get_task("hips").execute({"params": given, "dag_run": run})
    return found


def test_the_task_makes_what_its_form_says(load: Load, root: Path, tmp_path: Path) -> None:
    summary = executed(
        load()[DAG_ID],
        version="1",  # as the form's list gives it
        order_by="mag",
        descending=True,
        columns=["id", "mag"],
        filters="mag > 8",
        region="cone 80 30 20deg",
        tile_rows=50,
        allsky_rows=10,
        deepest_order=6,
        coverage_order=7,
        output=str(tmp_path / "served"),
        service_url="https://example.org/x",
        creator_did="ivo://survey.org/stars",
        public=True,
    )
    hips = read_hips(tmp_path / "served" / "current")
    assert summary["rows_out"] == len(hips.rows) > 900
    assert summary["output"] == str((tmp_path / "served" / "current").resolve())
    check_limits(hips, 10, 50, 6)
    check_progress(hips, "mag", descending=True)
    assert [field.name for field in hips.fields] == ["ra", "dec", "id", "mag"]
    assert hips.moc.max_order == 7
    assert hips.properties["creator_did"] == "ivo://survey.org/stars"
    assert hips.properties["hips_status"] == "public master clonableOnce"
    assert "https://example.org/x/v1-" in (tmp_path / "served" / "hipslist").read_text()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"order_by": "magg"}, "SchemaMismatchError: .*did you mean 'mag'"),
        ({"region": "cone 1 2 3"}, "RegionError"),
        ({"output": "../catalogs"}, "SpecError: .*lies in the warehouse"),
        ({"version": 9}, "VersionNotFoundError"),
    ],
)
def test_what_makes_no_sense_fails_at_once(
    load: Load, root: Path, params: dict[str, Any], message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=message):
        executed(load()[DAG_ID], **params)


def asked_by_spec(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n{text}\n")


def test_a_spec_that_asks_for_one_has_it_follow_the_versions(load: Load, stars: Path, root: Path) -> None:
    asked_by_spec(
        stars, "hips: {order_by: mag, columns: [id, mag], tile_rows: 40, allsky_rows: 7, public: true}"
    )
    dag = load()[DAG_ID]
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["catalog/stars"]
    assert "after each new version" in dag.doc_md
    executed(dag)
    hips = read_hips(root.parents[1] / "exports" / "hips" / "stars" / "current")
    check_limits(hips, 7, 40, 12)
    check_progress(hips, "mag")
    assert [field.name for field in hips.fields] == ["ra", "dec", "id", "mag"]
    assert hips.properties["hips_status"] == "public master clonableOnce"
    assert executed(dag)["unchanged"]


def test_without_hips_in_the_spec_it_is_made_by_hand(load: Load, stars: Path) -> None:
    dag = load()[DAG_ID]
    assert not dag.timetable.asset_condition
    assert "by hand only" in dag.doc_md


@pytest.mark.parametrize(
    ("schedule", "runs"), [("manual", "by hand only"), ("0 6 * * *", "by the schedule `0 6 * * *`")]
)
def test_a_spec_may_say_when(load: Load, stars: Path, schedule: str, runs: str) -> None:
    asked_by_spec(stars, f'hips: {{schedule: "{schedule}"}}')
    dag = load()[DAG_ID]
    assert not dag.timetable.asset_condition
    assert runs in dag.doc_md


@pytest.mark.system
def test_a_run_with_the_defaults_publishes_the_newest_version(airflow: Path, load: Load, root: Path) -> None:
    run = load()[DAG_ID].test()
    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {"hips": "success"}
    hips = read_hips(root.parents[1] / "exports" / "hips" / "stars" / "current")
    assert len(hips.rows) == 3000
