"""Jobs whose driver runs on the cluster: who waits for them, who finds them again, and when they end.

`spark-submit` is a program of the test's, which notes that it was called and says the id of a driver.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from hipslake.errors import CorruptFileError, StorageError
from hipslake.steps.report import Report, failure_of
from hipslake.steps.run import RunFolder, SubmittedJob
from hipslake_airflow.hooks.spark_driver import RUNNER, driver_environment
from hipslake_airflow.operators.catalog import HistogramCatalogOperator
from hipslake_airflow.triggers.spark_driver import SparkDriverTrigger
from hipslake_cluster.processes import MARK

from tests.steps import in_process

STEP = "histogram"
SUBMIT = """\
#!{python}
import json, os, sys
with open("{calls}", "a") as calls:
    calls.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
print("INFO ClientEndpoint: Driver successfully submitted as driver-20261129000000-0001")
sys.exit({code})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    cluster = {
        "conn_type": "spark",
        "host": "spark://master",
        "port": 7077,
        "extra": {"deploy-mode": "cluster"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster))
    in_process.write_source(tmp_path / "landing")
    source = f"{tmp_path}/landing/*.parquet"
    spec = in_process.write_spec(tmp_path / "stars.yaml", source, more="spark_above_bytes: 0")
    folder = in_process.start(tmp_path / "warehouse", spec)
    in_process.freeze(folder)
    return folder


class Cluster:
    """Stands for the cluster that jobs are submitted to."""

    def __init__(self, place: Path) -> None:
        self._calls = place / "calls"
        self._program = place / "bin" / "spark-submit"
        self._program.parent.mkdir()
        self.answer(0)

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self._program.parent), os.environ["PATH"]])

    def answer(self, code: int) -> None:
        self._program.write_text(SUBMIT.format(python=sys.executable, calls=self._calls, code=code))
        self._program.chmod(0o755)

    @property
    def submitted(self) -> list[tuple[list[str], dict[str, str]]]:
        """Arguments and variables of all that was submitted."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [tuple(json.loads(line)) for line in lines]  # type: ignore[misc]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster(tmp_path)
    monkeypatch.setattr(
        "hipslake_airflow.hooks.spark_driver.client_environment",
        lambda: {"PATH": there.path, "PYSPARK_PYTHON": sys.executable},
    )
    return there


def executed(folder: RunFolder, context: Any = None) -> SparkDriverTrigger:
    """Execute the task until it waits; what waits for it."""
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute.__wrapped__(operator, context or {})  # type: ignore[attr-defined]
    assert deferred.value.method_name == "execute_complete"
    trigger = deferred.value.trigger
    assert isinstance(trigger, SparkDriverTrigger)
    path, arguments = trigger.serialize()
    assert path == f"{SparkDriverTrigger.__module__}.SparkDriverTrigger"
    return SparkDriverTrigger(**arguments)


def completed(folder: RunFolder, event: dict[str, Any]) -> Any:
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    return operator.execute_complete({}, event)


def event_of(trigger: SparkDriverTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("no event")

    return asyncio.run(asyncio.wait_for(first(), 60))


def last(folder: RunFolder) -> SubmittedJob:
    found = folder.submission(STEP)
    assert found is not None
    return found


def test_a_job_is_submitted_once_and_found_again_by_whoever_tries_its_task_again(
    folder: RunFolder, cluster: Cluster
) -> None:
    first = executed(folder)
    again = executed(folder)
    assert again.attempt == first.attempt == last(folder).attempt
    ((arguments, _),) = cluster.submitted
    jar, job, library, *given = arguments[arguments.index("cluster") + 1 :]
    assert jar.endswith(".jar")
    assert Path(jar).is_file()
    assert Path(job).name == "histogram_catalog.py"
    assert (Path(library) / "hipslake" / "spark" / "jobs.py").is_file()
    assert arguments[arguments.index("--class") + 1] == RUNNER
    assert given[2:] == [f"--attempt={first.attempt}"]
    assert given[0] == f"--request={folder.uri}/requests/{STEP}.json"


def test_the_report_of_the_job_is_that_of_the_task(folder: RunFolder, cluster: Cluster) -> None:
    trigger = executed(folder)
    in_process.count(folder)
    event = event_of(trigger)
    assert event == {"lost": "", "attempt": trigger.attempt}
    summary = completed(folder, event)
    assert (summary["step"], summary["rows_in"]) == (STEP, 3000)
    assert not last(folder).is_wanted
    # Whoever tries again takes over what is done, without the cluster.
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    assert operator.execute.__wrapped__(operator, {})["reused"] is True  # type: ignore[attr-defined]
    assert len(cluster.submitted) == 1


@pytest.mark.parametrize(
    ("error", "ends"), [(CorruptFileError("part-1: truncated"), True), (StorageError("no answer"), False)]
)
def test_what_the_job_says_of_its_failure_is_raised_and_the_next_attempt_submits_another_one(
    folder: RunFolder, cluster: Cluster, error: Exception, ends: bool
) -> None:
    trigger = executed(folder)
    folder.write(folder.report_path(STEP), Report(step=STEP, ok=False, error=failure_of(error)))
    event = event_of(trigger)
    assert event["lost"] == ""
    with pytest.raises(AirflowException, match=str(error)) as caught:
        completed(folder, event)
    assert isinstance(caught.value, AirflowFailException) is ends
    assert executed(folder).attempt != trigger.attempt
    assert len(cluster.submitted) == 2
    assert not Path(folder.uri, folder.report_path(STEP)).exists()


def test_a_job_that_died_is_told_and_submitted_again(folder: RunFolder, cluster: Cluster) -> None:
    trigger = executed(folder)
    with pytest.raises(AirflowException, match="without a report: it has said nothing") as caught:
        completed(folder, {"lost": "it has said nothing for 180 s", "attempt": trigger.attempt})
    assert not isinstance(caught.value, AirflowFailException)
    assert executed(folder).attempt != trigger.attempt
    assert len(cluster.submitted) == 2


def test_another_request_is_another_job(
    folder: RunFolder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = executed(folder)
    with monkeypatch.context() as changed:
        changed.setattr("hipslake.steps.report.Request.fingerprint", lambda _: "f" * 64)
        other = executed(folder)
    assert other.attempt != trigger.attempt
    assert "another" in event_of(trigger)["lost"]
    assert len(cluster.submitted) == 2


def test_a_task_that_died_while_it_submitted_leaves_nothing_that_is_waited_for(
    folder: RunFolder, cluster: Cluster
) -> None:
    folder.write(folder.submission_path(STEP), SubmittedJob(attempt="gone", fingerprint="f"))
    request = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri).request({})
    told = SubmittedJob(attempt="gone", fingerprint=request.fingerprint())
    folder.write(folder.submission_path(STEP), told)
    assert executed(folder).attempt != "gone"
    assert len(cluster.submitted) == 1


def test_what_the_cluster_refuses_is_raised_and_not_waited_for(folder: RunFolder, cluster: Cluster) -> None:
    cluster.answer(255)
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    with pytest.raises(AirflowException, match="Error code is: 255"):
        operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]
    assert not last(folder).is_wanted
    cluster.answer(0)
    executed(folder)
    assert len(cluster.submitted) == 2


def test_what_drivers_are_told_is_nothing_of_airflow_and_no_command_line_has_a_secret(
    folder: RunFolder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://airflow:secret@db/airflow")
    monkeypatch.setenv("HIPSLAKE_FERNET_KEY", "secret")
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "scheduler")
    monkeypatch.setenv("HIPSLAKE_SPARK_SECRET", "open-sesame")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    executed(folder)
    ((arguments, variables),) = cluster.submitted
    assert "open-sesame" not in " ".join(arguments)
    assert "spark.authenticate=true" in arguments
    assert variables["_SPARK_AUTH_SECRET"] == "open-sesame"
    assert variables["AWS_ACCESS_KEY_ID"] == "key"
    assert variables["SPARK_CONF_DIR"] == "/etc/spark"  # of `spark-submit`, and the same on all machines
    assert not [name for name in variables if name.startswith(("AIRFLOW", "SPARK_LOCAL"))]
    assert "HIPSLAKE_FERNET_KEY" not in variables


def test_a_driver_is_no_process_of_the_service_that_submits_it() -> None:
    """`make down` and a kill of the scheduler end all processes of theirs, by a variable that these have."""
    assert set(driver_environment({MARK: "scheduler", "HOME": "/"})) >= {"HOME"}
    assert MARK not in driver_environment({MARK: "scheduler", "HOME": "/"})


def test_a_spark_without_jars_is_refused(
    folder: RunFolder, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    with pytest.raises(AirflowFailException, match="SPARK_HOME has to be"):
        operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]
    assert not cluster.submitted
    assert not last(folder).is_accepted


def test_a_driver_is_told_no_secret_where_there_is_none() -> None:
    assert "_SPARK_AUTH_SECRET" not in driver_environment({"_SPARK_AUTH_SECRET": "of another", "HOME": "/"})


def test_jobs_of_other_masters_are_waited_for_by_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for told in ("client", None):
        extra = {} if told is None else {"deploy-mode": told}
        connection = {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        operator = HistogramCatalogOperator(task_id=STEP, run_uri="/nowhere")
        hook = operator._get_hook()
        assert isinstance(hook, SparkSubmitHook)
        assert hook._java_class is None


def waiting(folder: RunFolder, attempt: str = "a") -> SparkDriverTrigger:
    folder.write(
        folder.submission_path(STEP), SubmittedJob(attempt=attempt, fingerprint="f", is_accepted=True)
    )
    return SparkDriverTrigger(
        run_uri=folder.uri,
        step=STEP,
        attempt=attempt,
        start_seconds=60,
        deadline="2999-01-01T00:00:00+00:00",
    )


class Master(BaseHTTPRequestHandler):
    """Says what became of drivers."""

    drivers: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        ended = [{"id": name, "state": state} for name, state in self.drivers.items()]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"completeddrivers": ended}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Master, "drivers", {})
    with HTTPServer(("127.0.0.1", 0), Master) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_driver_that_has_ended_without_a_report_is_lost_at_once(
    folder: RunFolder, cluster: Cluster, master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.loads(os.environ["AIRFLOW_CONN_SPARK_DEFAULT"])
    told["extra"]["master-ui-url"] = f"{master}/"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(told))
    trigger = executed(folder)
    assert last(folder).driver == "driver-20261129000000-0001"
    Master.drivers["driver-20261129000000-0002"] = "FAILED"  # another one
    assert not trigger.look(None).is_awaited
    Master.drivers["driver-20261129000000-0001"] = "FAILED"
    assert trigger.look(None) == (
        {"lost": "the cluster says that its driver is FAILED", "attempt": trigger.attempt},
        True,
    )
    Master.drivers["driver-20261129000000-0001"] = "FINISHED"
    in_process.count(folder)
    assert trigger.look(None).event["lost"] == ""


@pytest.mark.parametrize("page", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_a_master_that_does_not_answer_takes_no_job_for_dead(folder: RunFolder, page: str) -> None:
    trigger = waiting(folder)
    told = SubmittedJob(attempt="a", fingerprint="f", is_accepted=True, driver="driver-1")
    folder.write(folder.submission_path(STEP), told)
    trigger.page = page
    assert not trigger.look(None).is_awaited


def test_a_page_of_a_master_is_an_address_of_the_web(
    folder: RunFolder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.loads(os.environ["AIRFLOW_CONN_SPARK_DEFAULT"])
    told["extra"]["master-ui-url"] = "file:///etc/passwd"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(told))
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    with pytest.raises(AirflowFailException, match="master-ui-url"):
        operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]
    assert not cluster.submitted


def test_the_wait_ends_with_the_time_of_the_task(folder: RunFolder) -> None:
    trigger = waiting(folder)
    trigger.deadline = "2020-01-01T00:00:00+00:00"
    event = event_of(trigger)
    assert "still at work" in event["lost"]
    with pytest.raises(AirflowException, match="still at work"):
        completed(folder, event)
    assert not last(folder).is_wanted


def test_how_long_a_job_may_take_to_begin_is_a_number(
    folder: RunFolder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_SPARK_START_SECONDS", "soon")
    operator = HistogramCatalogOperator(task_id=STEP, run_uri=folder.uri)
    with pytest.raises(AirflowFailException, match="HIPSLAKE_SPARK_START_SECONDS is 'soon'"):
        operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]
    assert not cluster.submitted
