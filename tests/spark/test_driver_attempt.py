"""The driver of a job on the cluster: it says that it is at work, and ends when nobody wants it any more."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import StorageError
from hipslake.spark import driver_attempt
from hipslake.spark.driver_attempt import UNWANTED, DriverAttempt
from hipslake.steps.registry import STEPS
from hipslake.steps.report import Report, execute_step
from hipslake.steps.run import RunFolder, StartedJob, SubmittedJob

from tests.steps import in_process

STEP = "histogram"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """The folder of a run whose inputs are frozen."""
    in_process.write_source(tmp_path / "landing")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = in_process.start(tmp_path / "warehouse", spec)
    in_process.freeze(folder)
    return folder


def waiting(folder: RunFolder, attempt: str = "a") -> None:
    """Say that an attempt was submitted, and is wanted."""
    told = SubmittedJob(attempt=attempt, fingerprint="f", is_accepted=True)
    folder.write(folder.submission_path(STEP), told)


WORK = """\
    import time
    from hipslake.spark import driver_attempt
    from hipslake.steps.run import RunFolder
    driver_attempt.BEAT_SECONDS = 0.05
    attempt = driver_attempt.DriverAttempt(RunFolder({uri!r}), "histogram", {attempt!r})
    with attempt.at_work():
        attempt.started("app-1")
        print("begun", flush=True)
        time.sleep({seconds})
    print("over", flush=True)
"""


def at_work(folder: RunFolder, attempt: str, seconds: float) -> subprocess.Popen[str]:
    code = textwrap.dedent(WORK.format(uri=folder.uri, attempt=attempt, seconds=seconds))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_job_counts_up_while_it_works(folder: RunFolder) -> None:
    waiting(folder)
    with at_work(folder, "a", 1) as process:
        assert process.communicate(timeout=60)[0].split() == ["begun", "over"]
    told = folder.started_job(STEP)
    assert told is not None
    assert (told.application, told.attempt) == ("app-1", "a")
    assert 3 <= told.beats <= 25
    assert process.returncode == 0


def test_a_job_that_nobody_wants_does_not_begin(folder: RunFolder) -> None:
    waiting(folder, "b")
    with at_work(folder, "a", 60) as process:
        assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == UNWANTED
    assert folder.started_job(STEP) is None


def test_a_job_ends_when_it_is_stopped(folder: RunFolder) -> None:
    waiting(folder)
    with at_work(folder, "a", 60) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        folder.unwant(STEP, "a")
        assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == UNWANTED


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_job_that_nobody_waits_for_leaves_no_report(
    folder: RunFolder, fails: bool, is_wanted: bool
) -> None:
    """Its report would stand for that of the attempt that was submitted after it."""
    request = STEPS[STEP].request_model.model_validate({"run_uri": folder.uri})
    request_uri = folder.write(folder.request_path(STEP), request)
    waiting(folder, "a")

    def step(asked: Any) -> Report:
        if not is_wanted:
            waiting(folder, "b")
        if fails:
            raise StorageError("the JVM has gone")
        return Report(step=STEP, ok=True)

    code = execute_step(
        step,
        type(request),
        request_uri=request_uri,
        report_uri=folder.uri_of(folder.report_path(STEP)),
        is_wanted=lambda asked: DriverAttempt.of(asked, "a").is_wanted(),
    )
    assert code == (0 if is_wanted and not fails else 1)
    assert Path(folder.uri, folder.report_path(STEP)).exists() is is_wanted


def test_a_store_that_does_not_answer_ends_no_job(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(folder)
    monkeypatch.setattr(driver_attempt, "BEAT_SECONDS", 0.02)
    answers = [True]
    kept = RunFolder.submission

    def submission(self: RunFolder, step: str) -> SubmittedJob | None:
        answers.append(len(answers) % 2 == 0)
        if not answers[-2]:
            raise StorageError("no answer")
        return kept(self, step)

    monkeypatch.setattr(RunFolder, "submission", submission)
    with DriverAttempt(folder, STEP, "a").at_work():
        while len(answers) < 8:
            pass
    assert folder.read(folder.job_path(STEP), StartedJob).beats >= 3
