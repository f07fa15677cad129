"""A run works where its DAG run says, and does what its first task wrote: nobody else has a say in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipslake.errors import StepError
from hipslake.steps.cube import materialise
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.run import RunFolder, run_uri
from hipslake_airflow.operators.run_folder import MATERIALISED, own_run_folder
from hipslake_airflow.operators.step import ResolveOperator

from tests.dags.dag_runs import Load, states
from tests.steps import in_process

STEPS = ["inputs", "histogram", "plan", "write", "verify", "publish", "view"]
KEY = "a key that only tasks know"


@pytest.fixture
def private(tmp_path: Path) -> RunFolder:
    """A run folder that an attacker has made: it reads what only workers may, and publishes elsewhere."""
    in_process.write_source(tmp_path / "private")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/private/*.parquet")
    return in_process.start(tmp_path / "taken", spec)


@pytest.mark.system
def test_an_xcom_that_was_changed_does_not_redirect_a_run(
    airflow: Path,
    load: Load,
    specs: Path,
    private: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first task pushes is replaced by the attacker's place, as an edit of the XCom does."""
    in_process.write_source(tmp_path / "landing")
    in_process.write_spec(specs / "stars.yaml", f"{tmp_path}/landing/*.parquet")

    def redirected(operator: ResolveOperator, context: Any, report: Any) -> None:
        context["ti"].xcom_push(key="run_uri", value=private.uri)

    monkeypatch.setattr(ResolveOperator, "finish", redirected)
    run = load()["catalog_ingest__stars"].test(run_conf={"wait_minutes": 0})
    assert states(run) == {
        "resolve": "success",
        "wait": "failed",
        **dict.fromkeys(STEPS, "upstream_failed"),
    }
    assert not (tmp_path / "taken" / "catalogs" / "stars" / "metadata.json").exists()
    assert not RunFolder(private.uri).storage.exists("reports/inputs.json")


@pytest.mark.system
def test_no_task_of_any_dag_takes_another_folder_than_its_runs(
    airflow: Path, load: Load, private: RunFolder
) -> None:
    """All DAGs of all specs that ship: whatever takes a run folder refuses another, before it is executed."""
    from airflow.sdk.exceptions import AirflowFailException

    seen = set()
    for dag in load().values():
        context: Any = {"dag_run": SimpleNamespace(dag_id=dag.dag_id, run_id="first")}
        for task in dag.tasks:
            if "run_uri" not in task.template_fields:
                continue
            own = run_uri(task.warehouse.replace("${HIPSLAKE_WAREHOUSE}", "/w"), dag.dag_id, "first")
            for other in (private.uri, f"{own}/../other", f"{own}x", 7, [own], "."):
                task.run_uri = other
                with pytest.raises(AirflowFailException, match="given another one"):
                    task.pre_execute(context)
            seen.add(type(task).__name__)
    assert {
        "SourceFilesSensor",
        "PublishCatalogOperator",
        "BuildHatsViewOperator",
        "IcebergSinkOperator",
    } <= seen
    assert {"BuildCubeOperator", "CompactTableOperator", "CrossmatchOperator"} <= seen


def test_the_folder_of_a_run_follows_from_the_dag_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", str(tmp_path))
    context: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="../../x")}
    own = own_run_folder("", "${HIPSLAKE_WAREHOUSE}", "", context)
    assert Path(own).resolve().is_relative_to(tmp_path / "_runs" / "d")
    assert own_run_folder(own, "${HIPSLAKE_WAREHOUSE}", "", context) == own
    assert own_run_folder("", "${HIPSLAKE_WAREHOUSE}", MATERIALISED, context) == f"{own}/{materialise.FOLDER}"


@pytest.fixture
def started(stars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of `stars`, resolved by a task that has the key."""
    monkeypatch.setenv("HIPSLAKE_RUN_KEY", KEY)
    return in_process.start(tmp_path / "warehouse", stars)


def changed(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"spec": document["spec"] | {"source": {"uri": "/etc/*", "format": "csv"}}}


@pytest.mark.parametrize(
    "forged",
    [
        changed,
        lambda document: {name: value for name, value in document.items() if name != "signature"},
        lambda document: document | {"signature": "0" * 64},
        lambda document: document | {"signature": 7},
    ],
)
def test_what_a_run_froze_cannot_be_changed_by_who_writes_in_its_folder(
    started: RunFolder, forged: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    assert FrozenRun.of(started).catalog == "stars"
    document = json.loads(started.storage.read("run.json"))
    started.storage.write("run.json", json.dumps(forged(document)).encode())
    with pytest.raises(StepError, match="signature is"):
        FrozenRun.of(started)


def test_a_run_of_another_place_or_key_is_refused(
    started: RunFolder, stars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = in_process.start(tmp_path / "warehouse", stars, "second")
    started.storage.write("run.json", other.storage.read("run.json"))
    with pytest.raises(StepError, match="signature is wrong"):
        FrozenRun.of(started)
    monkeypatch.delenv("HIPSLAKE_RUN_KEY")  # without a key, what it says of itself is compared all the same
    with pytest.raises(StepError, match="is of the run in"):
        FrozenRun.of(started)
    assert FrozenRun.of(other).run_id == "second"
    monkeypatch.setenv("HIPSLAKE_RUN_KEY", "another")
    with pytest.raises(StepError, match="signature is wrong"):
        FrozenRun.of(other)


def test_a_run_that_names_another_warehouse_is_refused(stars: Path, tmp_path: Path) -> None:
    run = in_process.start(tmp_path / "warehouse", stars)
    document = json.loads(run.storage.read("run.json"))
    run.storage.write("run.json", json.dumps(document | {"warehouse": f"{tmp_path}/taken"}).encode())
    with pytest.raises(StepError, match="names the warehouse"):
        FrozenRun.of(run)


def test_clearing_the_first_task_mends_what_was_changed(
    started: RunFolder, stars: Path, tmp_path: Path
) -> None:
    document = json.loads(started.storage.read("run.json"))
    started.storage.write("run.json", json.dumps(changed(document)).encode())
    again = in_process.start(tmp_path / "warehouse", stars)
    assert again.uri == started.uri
    assert FrozenRun.of(again).source.uri.endswith("landing/*.parquet")


def test_a_whole_run_is_signed_from_its_first_step_to_its_last(started: RunFolder) -> None:
    in_process.ingest(started)
    assert "signature" in json.loads(started.storage.read("run.json"))
    assert "signature" in json.loads(started.storage.read("files.json"))
    files = json.loads(started.storage.read("files.json"))
    files["files"][0]["uri"] = "/etc/passwd"
    started.storage.write("files.json", json.dumps(files).encode())
    with pytest.raises(StepError, match="signature is wrong"):
        FrozenInputs.of(started)
