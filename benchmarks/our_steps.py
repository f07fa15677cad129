"""Steps of a run, one after the other, without Airflow: in this process, or by `spark-submit`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from hipslake.spark.settings import launch_settings
from hipslake.steps.report import Report, Request, perform
from hipslake.steps.run import RunFolder, parse

SESSION_PHASES = ("session", "wait")  # what a session took to start, and how long its step waited for it


def submit_command(*application: str, py_files: Path | None = None) -> list[str]:
    """The command line of `spark-submit` on the local cores, with the settings of the house."""
    master = os.environ.get("HIPSLAKE_SPARK_MASTER", "local[*,4]")
    command = ["spark-submit", "--master", master]
    for key, value in launch_settings(master).items():
        command += ["--conf", f"{key}={value}"]
    if py_files is not None:
        command += ["--py-files", str(py_files)]
    return [*command, *application]


class RunSteps:
    """One run, step by step; keeps what every step took."""

    def __init__(self, run: str, scratch: Path) -> None:
        self.run = run
        self.wall: dict[str, float] = {}  # step -> seconds, with everything that starting it costs
        self.spans: dict[str, tuple[float, float]] = {}  # step -> when it began and ended, monotonic clock
        self.reports: dict[str, Report] = {}
        self._scratch = scratch

    def here(self, step: Callable[[Any], Report], request: Request, report_type: type[Report]) -> None:
        """Perform a step in this process."""
        started = time.monotonic()
        self.reports[request.step] = perform(step, request, report_type)
        self._ended(request.step, started)

    def in_spark(self, job: str, request: Request, report_type: type[Report]) -> None:
        """Submit a step's job and read its report."""
        from hipslake_airflow.hooks.library import job_path

        started = time.monotonic()
        folder = RunFolder(self.run)
        request_uri = folder.write(RunFolder.request_path(request.step), request)
        report_path = RunFolder.report_path(request.step)
        arguments = [f"--request={request_uri}", f"--report={folder.uri_of(report_path)}"]
        command = submit_command(job_path(job), *arguments, py_files=self._library)
        finished = subprocess.run(command, check=False)
        if not folder.storage.exists(report_path):
            raise SystemExit(f"{job} ended with {finished.returncode} and left no report")
        report = parse(report_type, folder.storage.read(report_path), where=report_path)
        if report.error is not None:
            raise SystemExit(f"{job}: {report.error.kind}: {report.error.message}")
        self.reports[request.step] = report
        self._ended(request.step, started)

    def _ended(self, step: str, started: float) -> None:
        now = time.monotonic()
        self.wall[step], self.spans[step] = now - started, (started, now)

    @cached_property
    def _library(self) -> Path:
        from hipslake_airflow.hooks.library import build_library_archive

        return build_library_archive(self._scratch)
