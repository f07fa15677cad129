"""The ingest DAGs: one per spec file, broken ones apart, and what a run does before and after Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipslake.steps.frozen_run import FrozenRun

from tests.airflow_home import PROJECT
from tests.dags.dag_runs import Load, check_form, states
from tests.receivers import alerted, statsd
from tests.steps import in_process

STEPS = ["resolve", "wait", "inputs", "histogram", "plan", "write", "verify", "publish", "view"]


def links(run: Any, dag: Any) -> dict[str, dict[str, str]]:
    """The links of each task that has any, as the UI's API gives them of the stored DAG."""
    from airflow.serialization.serialized_objects import DagSerialization

    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    found = {}
    for instance in run.get_task_instances():
        task = stored.get_task(instance.task_id)
        told = {name: task.get_extra_links(instance, name) for name in task.extra_links}
        found[instance.task_id] = {name: link for name, link in told.items() if link}
    return {task_id: told for task_id, told in found.items() if told}


def ingests(dags: dict[str, Any]) -> set[str]:
    """The ids of the DAGs that ingest."""
    return {dag_id for dag_id in dags if dag_id.startswith("catalog_ingest__")}


def test_the_specs_that_ship_give_one_dag_each(load: Load) -> None:
    dags = load()
    ids = {"catalog_ingest__gaia_dr3", "catalog_ingest__hipparcos", "catalog_ingest__hipparcos_hats"}
    assert ids <= set(dags)
    for dag_id in ids:
        expected = [*STEPS[:6], "margin", *STEPS[6:]] if dag_id.endswith("hipparcos_hats") else STEPS
        assert [task.task_id for task in dags[dag_id].topological_sort()] == expected
        assert dags[dag_id].doc_md
        assert dags[dag_id].max_active_runs == 1


def test_a_new_spec_file_is_a_new_dag(load: Load, stars: Path) -> None:
    assert ingests(load()) == {"catalog_ingest__stars"}


def test_broken_specs_are_told_at_once_and_take_no_other_dag_down(
    load: Load, told: Callable[[], str], stars: Path, specs: Path
) -> None:
    assert told() == ""
    (specs / "broken.yaml").write_text("name: broken\nsorce:\n  uri: x\n")
    (specs / "no yaml at all.yaml").write_text("{")
    (specs / "template.yaml").write_text("name: template\nsource: {uri: {{ landing }}, format: csv}\n")
    assert ingests(load()) == {"catalog_ingest__stars"}
    lines = told().splitlines()
    assert f"{specs}/broken.yaml:2: sorce: unknown key; did you mean 'source'?" in lines
    assert any(line.startswith(f"{specs}/no yaml at all.yaml:") for line in lines)
    assert any(line.startswith(f"{specs}/template.yaml:2: ") for line in lines)
    assert "stars" not in told().partition("spec files cannot be read:")[2]
    (specs / "broken.yaml").write_text(stars.read_text().replace("name: stars", "name: broken"))
    assert ingests(load()) == {"catalog_ingest__stars", "catalog_ingest__broken"}
    assert "broken.yaml" not in told()


IMPORTED = """\
import json, runpy, sys
runpy.run_path(sys.argv[1])
heavy = {"pyspark", "pyarrow", "numpy", "healpy", "pandas", "astropy", "matplotlib"}
print(json.dumps({
    "heavy": sorted(heavy & set(sys.modules)),
    "pipelines": sorted(name.rpartition(".")[2] for name in sys.modules if "_airflow.pipelines." in name),
}))
"""


def test_the_dag_file_imports_all_pipelines_and_nothing_heavy() -> None:
    from hipslake_airflow.all_dags import pipeline_names

    found = subprocess.run(
        [sys.executable, "-c", IMPORTED, str(PROJECT / "dags" / "survey_pipelines.py")],
        env={**os.environ, "PYTHONPATH": f"{PROJECT}/include:{PROJECT}/plugins"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout.splitlines()[-1]) == {"heavy": [], "pipelines": pipeline_names()}


def test_a_schedule_gives_data_intervals_and_none_gives_no_timetable(
    load: Load, specs: Path, tmp_path: Path
) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more='schedule: "30 3 * * *"')
    timetable = load()["catalog_ingest__stars"].timetable
    assert type(timetable).__name__ == "NightTimetable"
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet")
    assert type(load()["catalog_ingest__stars"].timetable).__name__ == "NullTimetable"


def test_a_deadline_of_the_spec_is_one_of_the_dag_where_somebody_can_be_told(
    load: Load, specs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_process.write_spec(specs / "stars.yaml", "x/*.parquet", more="deadline_minutes: 90")
    assert not load()["catalog_ingest__stars"].deadline
    monkeypatch.setenv("HIPSLAKE_ALERTS_CONN", "operators")
    dag = load()["catalog_ingest__stars"]
    [deadline] = dag.deadline
    assert deadline.interval == timedelta(minutes=90)
    assert all(task.on_failure_callback for task in dag.tasks)


@pytest.mark.parametrize(
    "params",
    [
        {"threshold": "many"},
        {"threshold": 20000},
        {"threshold": "1 rows; rm -rf /"},
        {"threshold": "{{ var.value.secret }}"},
        {"layout": "iceberg"},
        {"force": "yes"},
        {"wait_minutes": -1},
        {"wait_minutes": 1e9},
        {"window_start": "yesterday"},
    ],
)
def test_params_out_of_bounds_are_refused(load: Load, stars: Path, params: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    given = load()["catalog_ingest__stars"].params
    for key, value in params.items():
        with pytest.raises(ParamValidationError):
            given.get_param(key).resolve(value)


@pytest.mark.parametrize("text", ["20000 rows", "1M rows", "1_000_000 rows", "64 MiB", "200 kB", "1.5 GiB"])
def test_thresholds_that_a_spec_takes_are_taken_by_the_form(load: Load, stars: Path, text: str) -> None:
    from hipslake.specs.threshold import Threshold

    Threshold.parse(text)
    assert load()["catalog_ingest__stars"].params.get_param("threshold").resolve(text) == text


def test_every_param_has_help(load: Load, stars: Path) -> None:
    params = load()["catalog_ingest__stars"].params
    check_form(params)


@pytest.mark.system
class TestRuns:
    """Whole DAG runs, without Spark."""

    def test_the_task_of_a_dag_that_cannot_be_made_fails_with_the_reason_and_a_webhook_is_told(
        self,
        airflow: Path,
        load: Load,
        stars: Path,
        caplog: pytest.LogCaptureFixture,
        capsys: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fails(*_: object) -> None:
            raise KeyError("no such field")

        monkeypatch.setattr("hipslake_airflow.pipelines.catalog_ingest.ingest_params", fails)
        with alerted(monkeypatch) as webhook:
            run = load()["catalog_ingest__stars"].test()
        assert states(run) == {"make_dag": "failed"}
        [(path, posted)] = webhook.posted
        assert (path, list(posted)) == ("/hooks/s3cret/part", ["text"])
        failed = (
            f"catalog_ingest__stars: task make_dag of run {run.run_id} has failed: AirflowFailException: "
        )
        assert posted["text"].startswith(failed)
        assert "stars.yaml: no DAG can be made of it" in posted["text"]
        out = capsys.readouterr()
        assert "KeyError: 'no such field'" in out.out + out.err + caplog.text

    def test_a_missing_spark_connection_fails_at_once_and_publishes_nothing(
        self, airflow: Path, load: Load, stars: Path, tmp_path: Path, capsys: Any, caplog: Any
    ) -> None:
        stars.write_text(stars.read_text() + "spark_above_bytes: 1\n")
        run = load()["catalog_ingest__stars"].test()
        assert states(run)["inputs"] == "success"
        assert states(run)["histogram"] == "failed"
        assert states(run)["view"] == "upstream_failed"
        assert not (tmp_path / "warehouse/catalogs/stars/metadata.json").exists()
        out = capsys.readouterr()
        assert "There is no Spark connection 'spark_default'" in out.out + out.err + caplog.text

    def test_an_ingest_of_few_bytes_is_published_without_spark(
        self, airflow: Path, load: Load, stars: Path, tmp_path: Path
    ) -> None:
        """There is no Spark connection, and none is asked for."""
        run = load()["catalog_ingest__stars"].test()
        assert states(run) == dict.fromkeys(STEPS, "success")
        metadata = json.loads((tmp_path / "warehouse/catalogs/stars/metadata.json").read_text())
        assert (metadata["version"], metadata["total_rows"]) == (1, 3000)
        [folder] = (tmp_path / "warehouse/_runs/catalog_ingest__stars").glob("manual*")
        assert not (folder / "jobs").exists()

    def test_files_that_never_come_fail_saying_what_was_looked_for(
        self, airflow: Path, load: Load, specs: Path, tmp_path: Path, capsys: Any, caplog: Any
    ) -> None:
        in_process.write_spec(specs / "stars.yaml", f"{tmp_path}/nowhere/*.parquet")
        run = load()["catalog_ingest__stars"].test(run_conf={"wait_minutes": 0})
        assert states(run)["wait"] == "failed"
        out = capsys.readouterr()
        assert f"No file matched {tmp_path}/nowhere/*.parquet" in out.out + out.err + caplog.text

    def test_unchanged_input_skips_the_run_says_so_and_still_shows_the_version(
        self, airflow: Path, load: Load, stars: Path, tmp_path: Path
    ) -> None:
        from airflow.sdk.exceptions import AirflowSkipException
        from hipslake_airflow.operators.catalog import FreezeInputsOperator

        in_process.ingest(in_process.start(tmp_path / "warehouse", stars))
        root = tmp_path / "warehouse/catalogs/stars"
        pointer = root / "collection.properties"
        before = (root / "metadata.json").read_bytes(), pointer.read_bytes()
        pointer.unlink()
        run = load()["catalog_ingest__stars"].test()
        skipped = {"inputs", "histogram", "plan", "write", "verify", "publish"}
        assert states(run) == {
            **dict.fromkeys(STEPS, "success"),
            **dict.fromkeys(skipped, "skipped"),
        }
        assert str(run.state) == "success"
        assert ((root / "metadata.json").read_bytes(), pointer.read_bytes()) == before
        assert [path.name for path in (root / "_versions").glob("*.json")] == ["00000001.json"]
        pushed: dict[str, Any] = {}
        ti = SimpleNamespace(xcom_push=lambda key, value: pushed.__setitem__(key, value))
        [folder] = (tmp_path / "warehouse/_runs/catalog_ingest__stars").glob("manual*")
        again = FreezeInputsOperator(task_id="inputs", run_uri=str(folder))
        with pytest.raises(
            AirflowSkipException, match=r"made of exactly these files.* there is nothing to do"
        ):
            again.execute({"ti": ti})
        assert pushed["return_value"]["unchanged_version"] == 1

    def test_a_run_whose_spark_steps_are_done_is_published_with_its_asset_and_its_metrics(
        self, airflow: Path, load: Load, stars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every step takes over what an earlier attempt at the same run left, so no Spark is started."""
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        at = datetime(2026, 11, 20, tzinfo=UTC)
        run_id = DagRun.generate_run_id(run_type=DagRunType.MANUAL, logical_date=at, run_after=at)
        folder = in_process.start(tmp_path / "warehouse", stars, run_id)
        for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
            step(folder)
        write_id = FrozenRun.of(folder).write_id
        dag = load()["catalog_ingest__stars"]
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://sky.example.org/airflow/")
        with statsd(monkeypatch) as receiver:
            run = dag.test(logical_date=at, run_after=at)
            metrics = receiver.received()
        assert states(run) == dict.fromkeys(STEPS, "success")
        assert metrics["airflow.hipslake.catalog.stars.rows"] == ["3000|g"]
        assert metrics["airflow.hipslake.step.catalog_ingest__stars.publish.rows_out"] == ["3000|c"]
        assert "airflow.hipslake.step.catalog_ingest__stars.write.rows_out" not in metrics  # as it was done
        page = "/airflow/dags/catalog_ingest__stars/plugin/catalog"
        assert links(run, dag) == {step: {"Catalogs page": page} for step in STEPS}
        assert FrozenRun.of(folder).write_id == write_id
        with create_session() as session:
            query = select(AssetModel.uri, AssetEvent.extra).join(
                AssetModel, AssetModel.id == AssetEvent.asset_id
            )
            events = session.execute(query.where(AssetEvent.source_run_id == run.run_id)).all()
        assert [uri for uri, _ in events] == ["hipslake://catalogs/stars"]
        extra = events[0][1]
        assert (extra["rows"], extra["version"]) == (3000, 1)
        assert extra["uri"] == str(tmp_path / "warehouse" / "catalogs" / "stars")
