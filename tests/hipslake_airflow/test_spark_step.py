"""A Spark step's operator: what it does with the report, on real processes in the place of spark-submit's."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import socket
import subprocess
import sys
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from hipslake.errors import CorruptFileError, StorageError
from hipslake.spark import attached
from hipslake.steps.registry import STEPS
from hipslake.steps.report import Report, failure_of
from hipslake.steps.run import RunFolder, StartedJob
from hipslake_airflow.hooks import library
from hipslake_airflow.hooks.library import JOBS, LIBRARY, build_library_archive
from hipslake_airflow.links.spark import spark_page
from hipslake_airflow.operators.catalog import (
    FreezeInputsOperator,
    HistogramCatalogOperator,
    WritePartitionsOperator,
)
from hipslake_airflow.operators.spark_step import _is_here

from tests.steps import in_process

SUBMIT = """\
#!{python}
import os, sys
report = [a for a in sys.argv if a.startswith("--report=")][0].removeprefix("--report=")
if "{application}":
    job = report.replace("/reports/", "/jobs/")
    os.makedirs(os.path.dirname(job), exist_ok=True)
    open(job, "w").write('{{"application": "{application}"}}')
if "{text}":
    open(report, "w").write(open("{text}").read())
sys.exit({code})
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    in_process.write_source(tmp_path / "landing")
    source = f"{tmp_path}/landing/*.parquet"
    spec = in_process.write_spec(tmp_path / "stars.yaml", source, more="spark_above_bytes: 0")
    folder = in_process.start(tmp_path / "warehouse", spec)
    in_process.freeze(folder)
    return folder


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a program named spark-submit on the path, which leaves a report (or none) and exits with a code."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2,4]"}')

    def put(report: Report | None, code: int, application: str = "") -> None:
        text = tmp_path / "report.json"
        if report is not None:
            text.write_text(report.model_dump_json())
        program = tmp_path / "bin" / "spark-submit"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            SUBMIT.format(
                python=sys.executable,
                text=text if report is not None else "",
                code=code,
                application=application,
            )
        )
        program.chmod(0o755)

    return put


def run(folder: RunFolder, tmp_path: Path) -> Any:
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    operator = HistogramCatalogOperator(task_id="histogram", run_uri=folder.uri, env_vars={"PATH": path})
    return operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]


class Pushed:
    """A task instance that keeps what is pushed."""

    def __init__(self) -> None:
        self.links: list[str] = []

    def xcom_push(self, key: str, value: str) -> None:
        assert key == "_link_SparkLink"
        self.links.append(value)


def shown(folder: RunFolder, tmp_path: Path) -> tuple[list[str], str]:
    """What a job that ends without a report links to: while it runs and when it has ended; and at last."""
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    operator = HistogramCatalogOperator(task_id="histogram", run_uri=folder.uri, env_vars={"PATH": path})
    pushed = Pushed()
    with pytest.raises(AirflowException, match="ended without a report"):
        operator.execute.__wrapped__(operator, {"ti": pushed})  # type: ignore[attr-defined]
    (link,) = [each for each in operator.operator_extra_links if each.name == "Spark"]
    return pushed.links, link.get_link(operator, ti_key=None)  # type: ignore[arg-type]


def failed(error: Exception) -> Report:
    return Report(step="histogram", ok=False, error=failure_of(error))


def test_bad_input_ends_the_task_at_once(folder: RunFolder, submit: Any, tmp_path: Path) -> None:
    submit(failed(CorruptFileError("part-1.parquet: truncated")), 1)
    with pytest.raises(AirflowFailException, match=r"CorruptFileError: part-1.parquet: truncated"):
        run(folder, tmp_path)


def test_the_log_of_an_error_that_is_expected_has_it_once(
    folder: RunFolder, submit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Airflow logs what is raised: without the causes, and nothing says it before."""
    for error, before in [(CorruptFileError("part-1.parquet: truncated"), 0), (ZeroDivisionError("oh"), 1)]:
        submit(failed(error), 1)
        with pytest.raises(AirflowException) as caught:
            run(folder, tmp_path)
        assert capsys.readouterr().out.count(str(error)) == before
        assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1


def test_the_error_of_a_step_in_the_tasks_process_is_raised_once(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", more="index: [mag]")
    folder = in_process.start(tmp_path / "warehouse", tmp_path / "stars.yaml", "second")
    operator = FreezeInputsOperator(task_id="inputs", run_uri=folder.uri)
    with pytest.raises(AirflowFailException, match="column 'mag' is double") as caught:
        operator.execute.__wrapped__(operator, {})  # type: ignore[attr-defined]
    told = "".join(traceback.format_exception(caught.value))
    assert (told.count("Traceback"), told.count("column 'mag' is double")) == (1, 1)
    assert "column 'mag'" not in capsys.readouterr().out


def test_what_may_pass_is_left_to_the_retries(folder: RunFolder, submit: Any, tmp_path: Path) -> None:
    submit(failed(StorageError("the store does not answer")), 1)
    with pytest.raises(AirflowException, match="does not answer") as caught:
        run(folder, tmp_path)
    assert not isinstance(caught.value, AirflowFailException)


def test_a_job_that_died_without_a_report_is_retried(folder: RunFolder, submit: Any, tmp_path: Path) -> None:
    submit(None, 137)
    with pytest.raises(AirflowException, match="ended without a report") as caught:
        run(folder, tmp_path)
    assert not isinstance(caught.value, AirflowFailException)


def test_the_report_of_an_earlier_attempt_does_not_stand_for_this_one(
    folder: RunFolder, submit: Any, tmp_path: Path
) -> None:
    folder.write(RunFolder.report_path("histogram"), failed(CorruptFileError("of yesterday")))
    submit(None, 1)
    with pytest.raises(AirflowException, match="without a report"):
        run(folder, tmp_path)


def test_a_finished_step_is_taken_over_without_spark(folder: RunFolder, submit: Any, tmp_path: Path) -> None:
    in_process.count(folder)
    submit(None, 1)
    assert run(folder, tmp_path)["reused"] is True


def test_the_library_travels_whole_and_always_as_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (build_library_archive(tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    names = set(zipfile.ZipFile(first).namelist())
    assert {"hipslake/__init__.py", "hipslake/steps/ingest/histogram.py", "hipslake/steps/report.py"} <= names


def test_what_travels_is_compiled_and_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that has changed since it was imported, one never imported, and where Python keeps nothing."""
    package = tmp_path / "include" / "hipslake"
    package.mkdir(parents=True)
    monkeypatch.setattr(library, "LIBRARY", package)
    (package / "__init__.py").write_text("")
    module = package / "module.py"

    def told(python: str = sys.executable) -> str:
        archive = build_library_archive(tmp_path)
        program = "import hipslake.module as m; print(m.NUMBER, m.__file__)"
        command = [python, "-P", "-c", program]
        done = subprocess.run(command, env={"PYTHONPATH": str(archive)}, capture_output=True, check=True)
        return done.stdout.decode().strip().replace(str(archive), "zip")

    module.write_text("NUMBER = 1\n")
    assert told() == "1 zip/hipslake/module.pyc"
    module.write_text("NUMBER = 22\n")
    assert told() == "22 zip/hipslake/module.pyc"
    compiled = library._compiled(module)
    assert compiled is not None
    monkeypatch.setattr(library, "_compiled", lambda _: b"\0\0" + compiled[2:])  # that of another Python
    assert told() == "22 zip/hipslake/module.py"
    monkeypatch.undo()
    monkeypatch.setattr(library, "LIBRARY", package)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module.write_text("NUMBER = 333\n")  # what is kept stays that of before
    assert told() == "333 zip/hipslake/module.py"
    for mode in (py_compile.PycInvalidationMode.UNCHECKED_HASH, py_compile.PycInvalidationMode.CHECKED_HASH):
        py_compile.compile(str(module), invalidation_mode=mode)
        assert told() == "333 zip/hipslake/module.pyc"
        module.write_text("NUMBER = 4444\n")
        assert told() == "4444 zip/hipslake/module.py"
        module.write_text("NUMBER = 333\n")
    [kept] = (package / "__pycache__").glob("module.*")
    kept.write_bytes(kept.read_bytes()[:10])
    assert told() == "333 zip/hipslake/module.py"
    shutil.rmtree(package / "__pycache__")
    assert told() == "333 zip/hipslake/module.py"


def test_few_bytes_are_written_without_spark(folder: RunFolder) -> None:
    in_process.count(folder)
    in_process.make_plan(folder)
    operator = WritePartitionsOperator(task_id="write", run_uri=folder.uri, spark_above_bytes=1 << 30)
    report = operator.perform({})
    assert (report.ok, report.rows_out) == (True, 3000)
    assert in_process.check(folder).ok


def test_without_a_session_that_stands_spark_is_started(
    folder: RunFolder, submit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(None, 0)
    monkeypatch.setenv("HIPSLAKE_SPARK_SESSION", str(tmp_path / "nobody"))
    operator = HistogramCatalogOperator(task_id="histogram", run_uri=folder.uri)
    request, step = operator.request({}), STEPS["histogram"]  # type: ignore[arg-type]
    assert operator._done_in_session(request, step) is None


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "local[2,4]"])
def test_the_library_travels_to_other_machines_alone(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    """On this one its folder is on the path of the driver, with all modules compiled."""
    host, _, port = master.partition(":7")
    told = {"conn_type": "spark", "host": host} | ({"port": int(f"7{port}")} if port else {})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(told))
    monkeypatch.setenv("PYTHONPATH", "/of/the/deployment")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/hadoop")
    operator = HistogramCatalogOperator(task_id="histogram", run_uri="")
    hook = operator._get_hook()
    given = (hook._env_vars or {}).get("PYTHONPATH", "")
    if master.startswith("local"):
        assert given == os.pathsep.join([str(LIBRARY.parent), "/of/the/deployment"])
    else:
        assert given == ""
    assert _is_here(hook) is master.startswith("local")


def test_a_task_that_is_told_to_end_gives_the_session_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session then ends with what it runs: Airflow would kill the task five seconds later only."""
    near, far = socket.socketpair()
    with near, far:
        monkeypatch.setattr(attached, "_held", [near])
        far.settimeout(5.0)
        HistogramCatalogOperator(task_id="histogram", run_uri="").on_kill()
        assert far.recv(1) == b""


IN_SESSION = """
import sys
from hipslake_airflow.operators.catalog import HistogramCatalogOperator
report = HistogramCatalogOperator(task_id="histogram", run_uri=sys.argv[1]).perform({})
print(report.rows_out, report.reused)
"""


@pytest.mark.spark
def test_a_step_is_done_in_the_session_that_stands(folder: RunFolder, tmp_path: Path) -> None:
    """As in a process of its own: with the same counts, and nothing submitted."""
    own = in_process.start(tmp_path / "other", tmp_path / "stars.yaml")
    in_process.freeze(own)
    in_process.count(own)
    paths = [str(LIBRARY.parent), str(JOBS.parents[1]), os.environ.get("PYTHONPATH", "")]
    given = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HIPSLAKE_SPARK_MASTER": "local[2,4]",
        "HIPSLAKE_SPARK_SESSION": str(tmp_path / "s" / "s"),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2,4]"}',
        "SPARK_HOME": str(tmp_path),  # nothing can be submitted
    }
    held = {name: value for name, value in given.items() if name != "SPARK_HOME"}
    command = [sys.executable, "-m", "hipslake.spark.standing_session", given["HIPSLAKE_SPARK_SESSION"]]
    with subprocess.Popen(command, env=held, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as keeper:
        try:
            while not Path(given["HIPSLAKE_SPARK_SESSION"]).exists():
                time.sleep(0.2)
                assert keeper.poll() is None
            done = subprocess.run(
                [sys.executable, "-c", IN_SESSION, folder.uri], env=given, capture_output=True, text=True
            )
        finally:
            keeper.terminate()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "3000 False"
    tables = [pq.read_table(f"{each.uri}/{RunFolder.HISTOGRAM}") for each in (folder, own)]
    assert tables[0].equals(tables[1])


def test_a_task_links_to_its_job_while_it_runs_and_when_it_died(
    folder: RunFolder, submit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(None, 137, "app-20261122120000-0001")
    assert shown(folder, tmp_path) == ([], "")  # nobody has said where Spark shows anything
    told = {"conn_type": "spark", "host": "spark://master", "port": 7077}
    for extra, running, ended in [
        (
            {"ui-url": "http://master:8081"},
            "http://master:8081",
            "http://master:8081/app/?appId=app-20261122120000-0001",
        ),
        (
            {"ui-url": "http://master:8081", "history-url": "https://history.example.org/spark/"},
            "https://history.example.org/spark",
            "https://history.example.org/spark/history/app-20261122120000-0001/",
        ),
    ]:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({**told, "extra": extra}))
        assert shown(folder, tmp_path) == ([running, ended], ended)


def test_a_job_of_an_earlier_attempt_is_not_linked_to(
    folder: RunFolder, submit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(RunFolder.job_path("histogram"), StartedJob(application="app-of-yesterday"))
    submit(None, 1)
    extra = {"history-url": "http://history:18080"}
    told = {"conn_type": "spark", "host": "local[2,4]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(told))
    assert shown(folder, tmp_path) == (["http://history:18080"], "http://history:18080")


@pytest.mark.parametrize(
    ("host", "there"),
    [
        ("yarn", "http://ui:8088/cluster/app/application_1_2"),
        ("spark://master", "http://ui:8088/app/?appId=application_1_2"),
        ("k8s://https://kubernetes:6443", "http://ui:8088"),
    ],
)
def test_each_cluster_shows_applications_at_an_address_of_its_own(host: str, there: str) -> None:
    connection = Connection(
        conn_id="spark", conn_type="spark", host=host, extra='{"ui-url": "http://ui:8088/"}'
    )
    assert spark_page(connection, "application_1_2") == there


@pytest.mark.parametrize("url", ["javascript:alert(1)", "history:18080", "//history", ["http://x"], 7])
def test_a_link_leads_nowhere_but_to_the_web(url: object) -> None:
    extra = json.dumps({"history-url": url})
    connection = Connection(conn_id="spark", conn_type="spark", host="yarn", extra=extra)
    with pytest.raises(AirflowFailException, match="history-url"):
        spark_page(connection)
