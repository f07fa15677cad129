"""A Spark job that stops itself about its commit: `-m tests.system.stopping_job STEP RUN_URI VERSION`.

It does what `spark_jobs/` does, but its driver stops (SIGSTOP) twice: right before it creates the version,
and right before the change that comes next. The request must lie in the run folder.
"""

from __future__ import annotations

import signal
import sys
import threading

from hipslake.spark.jobs import run_job
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.versions.log_files import version_path

from tests.system.dying import Change, on_change


def stop_about_commit(root: str, version: int) -> None:
    """Have this process stop before and after it commits a version."""
    stops_left = 0

    def stop(change: Change) -> None:
        nonlocal stops_left
        if change.event == "os.link" and change.path.endswith(version_path(version)):
            stops_left = 2
        if stops_left:
            stops_left -= 1
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # not a step further, in this thread

    on_change(root, stop)


def main(step: str, run_uri: str, version: str) -> None:
    folder = RunFolder(run_uri)
    stop_about_commit(FrozenRun.of(folder).catalog_uri, int(version))
    request, report = RunFolder.request_path(step), RunFolder.report_path(step)
    sys.argv[1:] = [f"--request={folder.uri_of(request)}", f"--report={folder.uri_of(report)}"]
    run_job(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
