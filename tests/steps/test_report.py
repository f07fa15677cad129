"""Reports: always left, reused only with the same fingerprint, and never with rows lost."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError, StorageError, VerificationError
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.report import Report, Request, execute_step, finished_report, job_arguments, perform
from hipslake.steps.report import log as report_log
from hipslake.steps.run import RunFolder

from tests.steps.in_process import freeze, start


class CountRequest(Request):
    step: ClassVar[str] = "count"
    outputs: ClassVar[tuple[str, ...]] = ("counted.txt",)
    knob: int = 1


class CountReport(Report):
    step: str = "count"
    rows: int = 0


@pytest.fixture
def folder(warehouse: Path, spec_file: Path) -> RunFolder:
    folder = start(warehouse, spec_file)
    freeze(folder)
    return folder


def count(request: CountRequest) -> CountReport:
    request.folder.storage.write("counted.txt", b"3")
    return CountReport(rows=3, rows_in=3, rows_out=2, rows_rejected=1)


def submitted(request: CountRequest) -> dict[str, str]:
    """What a job is told: where its request lies, and where its report goes."""
    folder = request.folder
    return {
        "request_uri": folder.write("requests/count.json", request),
        "report_uri": folder.uri_of(RunFolder.report_path("count")),
    }


def fail(error: Exception):  # type: ignore[no-untyped-def]
    def step(request: CountRequest) -> CountReport:
        raise error

    return step


def never(request: CountRequest) -> CountReport:
    raise AssertionError("the step ran again")


def test_a_finished_step_is_reused_and_says_so(folder: RunFolder) -> None:
    request = CountRequest(run_uri=folder.uri)
    perform(count, request, CountReport)
    again = perform(never, request, CountReport)
    assert (again.rows, again.reused) == (3, True)


@pytest.mark.parametrize("change", ["knob", "files", "write id", "output", "report"])
def test_a_finished_step_is_not_reused_after_a_change(folder: RunFolder, change: str) -> None:
    perform(count, CountRequest(run_uri=folder.uri), CountReport)
    request = CountRequest(run_uri=folder.uri, knob=2 if change == "knob" else 1)
    if change == "files":
        inputs = FrozenInputs.of(folder)
        folder.write(RunFolder.FILES, inputs.model_copy(update={"fingerprint": "another"}))
    elif change == "write id":
        folder.write(
            RunFolder.RUN, FrozenRun.of(folder).model_copy(update={"write_id": "20261121T0330-0000"})
        )
    elif change == "output":
        folder.storage.delete("counted.txt")
    elif change == "report":
        folder.storage.write(RunFolder.report_path("count"), b'{"step": "count", "of": "another version"}')
    assert finished_report(request, CountReport) is None


def test_a_changed_source_file_changes_the_fingerprint_of_every_step(
    folder: RunFolder, tmp_path: Path
) -> None:
    perform(count, CountRequest(run_uri=folder.uri), CountReport)
    part = tmp_path / "landing" / "part-0.parquet"
    pq.write_table(pq.read_table(part).slice(1), part)
    freeze(folder)
    assert finished_report(CountRequest(run_uri=folder.uri), CountReport) is None


def test_what_a_job_logs_of_an_error_that_is_expected_does_not_say_it_once_more(
    folder: RunFolder,
) -> None:
    """The task's log, which has that of the job in it, ends with the message. Of a bug all is told."""
    uris = submitted(CountRequest(run_uri=folder.uri))
    logged = io.StringIO()  # written by plain `logging`, whatever Airflow has made of the handlers of others
    handler = logging.StreamHandler(logged)
    for error, expected in [
        (InputError("part-1.parquet: no such column"), True),
        (StorageError("the store does not answer"), False),
        (KeyError("part-1.parquet"), False),
    ]:
        logged.seek(0)
        logged.truncate()
        report_log.addHandler(handler)
        try:
            assert execute_step(fail(error), CountRequest, **uris) == 1
        finally:
            report_log.removeHandler(handler)
        report = folder.read(RunFolder.report_path("count"), Report)
        assert report.error is not None
        assert (report.error.is_expected, report.error.message) == (expected, str(error))
        text = logged.getvalue()
        assert "Step count failed" in text
        assert (str(error) in text, "Traceback" in text) == (not expected, not expected)
        assert (uris["report_uri"] in text) == expected


def test_lost_rows_fail_the_step(folder: RunFolder) -> None:
    def lossy(request: CountRequest) -> CountReport:
        return CountReport(rows_in=3, rows_out=2)

    with pytest.raises(VerificationError, match="3 rows went in, but 2 came out and 0 were rejected"):
        perform(lossy, CountRequest(run_uri=folder.uri), CountReport)
    assert finished_report(CountRequest(run_uri=folder.uri), CountReport) is None


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (InputError("bad"), False),
        (StorageError("gone"), True),
        (MemoryError("out of"), True),
        (TypeError("bug"), False),
    ],
)
def test_a_failing_job_leaves_a_report_that_says_whether_to_retry(
    folder: RunFolder, error: Exception, retryable: bool
) -> None:
    assert execute_step(fail(error), CountRequest, **submitted(CountRequest(run_uri=folder.uri))) == 1
    report = folder.read(RunFolder.report_path("count"), CountReport)
    assert report.error is not None
    assert (report.ok, report.error.kind, report.error.message, report.error.retryable) == (
        False,
        type(error).__name__,
        str(error),
        retryable,
    )
    assert "Traceback" in report.error.trace


def test_a_job_with_a_request_of_another_step_leaves_a_report(folder: RunFolder) -> None:
    folder.storage.write("requests/count.json", json.dumps({"run_uri": folder.uri, "nob": 1}).encode())
    code = execute_step(
        never,
        CountRequest,
        request_uri=folder.uri_of("requests/count.json"),
        report_uri=folder.uri_of(RunFolder.report_path("count")),
    )
    report = folder.read(RunFolder.report_path("count"), CountReport)
    assert code == 1
    assert report.error is not None
    assert "nob" in report.error.message


def test_the_operator_takes_over_what_a_job_reported(folder: RunFolder) -> None:
    request = CountRequest(run_uri=folder.uri)
    execute_step(count, CountRequest, **submitted(request))
    finished = finished_report(request, CountReport)
    assert finished is not None
    assert finished.rows == 3


def test_a_job_does_nothing_where_another_attempt_has_finished(folder: RunFolder) -> None:
    request = CountRequest(run_uri=folder.uri)
    uris = submitted(request)
    perform(count, request, CountReport)
    assert execute_step(never, CountRequest, **uris) == 0


def test_a_job_that_fails_late_does_not_speak_for_an_attempt_that_finished(folder: RunFolder) -> None:
    request = CountRequest(run_uri=folder.uri)
    uris = submitted(request)

    def overtaken(request: CountRequest) -> CountReport:
        perform(count, request, CountReport)
        raise StorageError("my files are gone")

    assert execute_step(overtaken, CountRequest, **uris) == 1
    assert finished_report(request, CountReport) is not None


def test_the_summary_holds_single_values_only(folder: RunFolder) -> None:
    report = CountReport(rows=3, seconds={"read": 1.5, "sort": 0.25})
    assert report.summary() == {
        "step": "count",
        "reused": False,
        "rows": 3,
        "rows_in": 0,
        "rows_out": 0,
        "rows_rejected": 0,
        "rows_superseded": 0,
        "delete_records": 0,
        "bytes": 0,
        "files": 0,
        "seconds": 1.75,
    }


def test_job_arguments() -> None:
    assert job_arguments(["--request=s3://a/q.json", "--report=s3://a/p.json"]) == (
        "s3://a/q.json",
        "s3://a/p.json",
        "",
    )
    assert job_arguments(["--request=a", "--report=b", "--attempt=c"]).attempt == "c"
