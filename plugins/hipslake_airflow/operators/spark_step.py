"""A step that runs as a Spark job: request in, submit, report out."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from hipslake_airflow.failures import failure_to_raise
from hipslake_airflow.hooks.library import LIBRARY, build_library_archive, job_path
from hipslake_airflow.hooks.spark import check_master, client_environment, launch_conf
from hipslake_airflow.hooks.spark_driver import (
    is_driver_on_cluster,
    master_page,
    prepare_driver,
    start_seconds,
    submit_driver,
)
from hipslake_airflow.links.spark import SparkLink, spark_page
from hipslake_airflow.operators.reporting import ReportingMixin
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder, StartsRun
from hipslake_airflow.triggers.spark_driver import SparkDriverTrigger

if TYPE_CHECKING:
    from hipslake.steps.registry import Step
    from hipslake.steps.report import Report, Request
    from hipslake.steps.run import RunFolder

_LONGEST_WAIT = timedelta(days=30)


class SparkStepOperator(InRunFolder, ReportingMixin, SparkSubmitOperator):
    """Submit a step's job and read its report, also when the job failed.

    A finished report with the same fingerprint is taken over without starting Spark. What the job says is not
    retryable ends the task at once; a job that died without a report is retried.

    Where a standalone cluster runs the driver (deploy mode `cluster`), the task is deferred once the job is
    submitted: no worker waits for it. What the run folder says of the job, and not this task, is what leads
    back to it, so that whoever tries the task again goes on waiting for the same job.

    Only `run_uri` is templated. The application, its archives and its configuration never come from params.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `pushed_run_uri()`. Templated, and no other than the run's own.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    part : str
        The folder in the run folder, of a run within the run. Not templated.
    conn_id : str
        The Spark connection, in JSON form: `{"conn_type": "spark", "host": "local[*,4]"}`.
    spark_above_bytes : int, optional
        What has fewer bytes is done in the task's own process, which is quicker than starting Spark; 0:
        nothing is. By default as the spec of an ingest, the deployment or the registry of steps says.
    """

    template_fields: Sequence[str] = ("run_uri",)
    ui_color = "#f7e3c8"
    operator_extra_links = (SparkLink(),)
    spark_page = ""  # where Spark shows the job
    in_standing_session = True
    """Whether the step can do with a JVM that other processes have used; one that Spark calls back cannot."""
    _attempt: tuple[RunFolder, str, str] | None = None
    """The run folder, the step and the attempt that was submitted here to a cluster that runs drivers."""
    _driver = ""  # its id there

    def __init__(
        self,
        *,
        run_uri: Any = "",
        warehouse: str = WAREHOUSE,
        part: str = "",
        conn_id: str = "spark_default",
        spark_above_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        from hipslake.steps.registry import STEPS

        step = STEPS[self.step]
        kwargs.setdefault("durable", False)  # what a job did is in its report; nothing reconnects to it
        super().__init__(
            application=job_path(step.job), conn_id=conn_id, name=f"hipslake-{step.job}", **kwargs
        )
        self.run_uri = run_uri
        self.warehouse = warehouse
        self.part = part
        self.spark_above_bytes = spark_above_bytes

    def perform(self, context: Context) -> Report:
        """Return the report of a step that went well; raise what a failed one says."""
        from hipslake.steps.registry import STEPS
        from hipslake.steps.report import finished_report

        request, step = self.request(context), STEPS[self.step]
        finished = finished_report(request, step.report_model)
        if finished is not None:
            self.log.info("Step %s is done already with the same fingerprint; reusing it.", request.step)
            return finished
        limit = step.size_for_spark(request) if self.spark_above_bytes is None else self.spark_above_bytes
        if limit and self.bytes_to_handle(request, limit) < limit:
            self.log.info("Fewer than %d bytes: done in this process, without Spark.", limit)
            return step.perform(request)
        done = self._done_in_session(request, step)
        if done is not None:
            return done
        if is_driver_on_cluster(SparkSubmitOperator._get_hook(self)):
            self._leave_to_cluster(request, context)
        return self._checked(self._submitted(request, step, context))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the report of a job that the cluster has run; called when the trigger has fired."""
        return self.pass_on(context, lambda: self._waited_for(context, event))

    def _checked(self, report: Report) -> Report:
        """Return a report that is of a step that went well; raise what another one says."""
        if report.error is not None:
            if not report.error.is_expected:
                self.log.error("The job says:\n%s", report.error.trace or report.error.message)
            raise failure_to_raise(report.error)
        return report

    def bytes_to_handle(self, request: Any, limit: int) -> int:
        """Return how much the step has to do, or any number from the limit on, if it is more than that."""
        from hipslake.steps.registry import STEPS

        return STEPS[self.step].bytes_to_handle(request)

    def on_kill(self) -> None:
        """Stop the job, if one was submitted, or the session that stands with what this step runs in it."""
        if "hipslake.spark.attached" in sys.modules:
            from hipslake.spark.attached import give_up

            give_up()
        if self._hook is not None:
            super().on_kill()
        if self._attempt is not None:
            folder, step, attempt = self._attempt
            folder.unwant(step, attempt)

    def submit_job(self, context: Context) -> str:
        """Submit a job whose driver runs on the cluster; called by the provider's operator."""
        assert self._hook is not None  # made by `execute` of the provider's operator
        self._driver = submit_driver(self._hook)
        return self._driver

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Return at once: a trigger waits for the job."""

    def _leave_to_cluster(self, request: Request, context: Context) -> NoReturn:
        """Submit a job whose driver runs on the cluster, unless it is there; wait in the triggerer."""
        from hipslake.steps.run import RunFolder, SubmittedJob

        folder, fingerprint = request.folder, request.fingerprint()
        may_wait, page = start_seconds(), master_page(BaseHook.get_connection(self._conn_id))
        there = folder.submission(request.step)
        if there is not None and there.is_accepted and there.is_wanted and there.fingerprint == fingerprint:
            self.log.info(
                "The job of step %s was submitted by another attempt; waiting for it.", request.step
            )
            attempt = there.attempt
        else:
            attempt = secrets.token_hex(8)
            self._attempt = folder, request.step, attempt
            submitted = SubmittedJob(attempt=attempt, fingerprint=fingerprint)
            folder.write(RunFolder.submission_path(request.step), submitted)
            try:
                self._submit(request, context, f"--attempt={attempt}")
            except AirflowException:
                folder.unwant(request.step, attempt)
                if not folder.storage.is_file(RunFolder.report_path(request.step)):
                    raise
                # It has ended with a report, before its submission had.
            else:
                accepted = submitted.model_copy(update={"is_accepted": True, "driver": self._driver})
                folder.write(RunFolder.submission_path(request.step), accepted)
        wait = self.execution_timeout or _LONGEST_WAIT
        self.defer(
            trigger=SparkDriverTrigger(
                run_uri=folder.uri,
                step=request.step,
                attempt=attempt,
                start_seconds=may_wait,
                page=page,
                deadline=(datetime.now(UTC) + wait).isoformat(),
            ),
            method_name="execute_complete",
        )

    def _waited_for(self, context: Context, event: dict[str, Any]) -> Report:
        """Return the report of a job that the cluster has run."""
        from hipslake.steps.registry import STEPS
        from hipslake.steps.report import Failure
        from hipslake.steps.run import RunFolder, parse

        if "failure" in event:
            raise failure_to_raise(Failure.model_validate(event["failure"]))
        request, step = self.request(context), STEPS[self.step]
        folder, report_path = request.folder, RunFolder.report_path(request.step)
        self._show_job(context, folder.application(request.step))
        folder.unwant(request.step, event["attempt"])  # whoever tries again submits another one
        if not folder.storage.is_file(report_path):
            raise AirflowException(
                f"The job {step.job} ended without a report: {event['lost']}. Its log is on the worker that "
                "ran its driver; common causes are too little memory, too few cores, a worker that died, and "
                "a library or Python that is not at the same path there"
            )
        return self._checked(
            parse(step.report_model, folder.storage.read(report_path), where=folder.uri_of(report_path))
        )

    def _done_in_session(self, request: Request, step: Step) -> Report | None:
        """Do the step in the Spark session that stands; None: there is none, or it was not to be had."""
        from hipslake.spark.attached import PLACE, LostSessionError, NoSessionError, attached_session

        place = os.environ.get(PLACE)
        if not place or not self.in_standing_session or self.conf or self.env_vars:
            return None
        hook = self._get_hook()
        if not _is_here(hook):
            return None
        from hipslake.spark.engine import SparkEngine

        master, name = str(hook._connection["master"]), f"{step.name} of {self._run_folder}"
        try:
            with attached_session(Path(place), master=master, name=name) as spark:
                self.log.info("Done in the Spark session that stands at %s.", place)
                return step.perform(request, SparkEngine(spark))
        except NoSessionError as error:
            self.log.info("Spark is started for this step: %s.", error)
            return None
        except LostSessionError as error:
            raise AirflowException(f"{error}; the step is tried again") from error

    def _submitted(self, request: Request, step: Step, context: Context) -> Report:
        """Write the request, run the job, and return its report, whatever the job's exit code was."""
        from hipslake.steps.run import RunFolder, parse

        folder, report_path = request.folder, RunFolder.report_path(request.step)
        failure: Exception | None = None
        with tempfile.TemporaryDirectory(prefix="hipslake-") as temporary:
            if not _is_here(SparkSubmitOperator._get_hook(self)):
                self.py_files = str(build_library_archive(Path(temporary)))
            try:
                self._submit(request, context)
            except AirflowFailException:
                raise
            except (AirflowException, RuntimeError) as error:  # the latter where YARN tells of the job's end
                failure = error
        self._show_job(context, folder.application(request.step))
        if folder.storage.is_file(report_path):
            data = folder.storage.read(report_path)
            return parse(step.report_model, data, where=folder.uri_of(report_path))
        raise AirflowException(
            f"The job {step.job} ended without a report: its process or a worker died. Look at the end of "
            "its log above; common causes are too little memory, a lost executor and a full disk"
        ) from failure

    def _submit(self, request: Request, context: Context, *more: str) -> None:
        """Write the request and submit the job, with more arguments; wait where no trigger does."""
        from hipslake.steps.run import RunFolder

        folder, report_path = request.folder, RunFolder.report_path(request.step)
        request_uri = folder.write(RunFolder.request_path(request.step), request)
        for path in (report_path, RunFolder.job_path(request.step)):
            if folder.storage.is_file(path):
                folder.storage.delete(path)  # of an earlier attempt; it must not stand for this one
        self.application_args = [f"--request={request_uri}", f"--report={folder.uri_of(report_path)}", *more]
        self._show_job(context, "")
        SparkSubmitOperator.execute(self, context)

    def _show_job(self, context: Context, application: str) -> None:
        """Let the task link to its job, also while it runs; Airflow itself pushes links when it has ended."""
        try:
            page = spark_page(BaseHook.get_connection(self._conn_id), application)
        except AirflowNotFoundException:
            return  # whoever submits says so
        if page != self.spark_page:
            self.spark_page = page
            context["ti"].xcom_push(key=SparkLink().xcom_key, value=page)

    def _get_hook(self) -> SparkSubmitHook:
        """Return the provider's hook, once the master is known to be the one that the connection names."""
        hook = super()._get_hook()
        master = check_master(self._conn_id, hook._connection["master"])
        if master == "local[*]" or (master.startswith("local[") and "," not in master):
            self.log.warning("Master %s never retries a failed task; local[*,4] does.", master)
        if is_driver_on_cluster(hook):
            prepare_driver(hook, self.application)
        elif not hook._is_yarn and not hook._is_kubernetes and hook._connection["deploy_mode"] != "cluster":
            hook._conf = {**launch_conf(master), **(self.conf or {})}
            hook._env_vars = {**client_environment(), **(self.env_vars or {})}
        if _is_here(hook):
            given = dict(hook._env_vars or {})
            found = [str(LIBRARY.parent), given.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")]
            hook._env_vars = {**given, "PYTHONPATH": os.pathsep.join(filter(None, found))}
        return hook


def _is_here(hook: SparkSubmitHook) -> bool:
    """Whether driver and tasks of a job are processes of this machine, which has the library."""
    connection = hook._connection
    return str(connection["master"]).startswith("local") and connection["deploy_mode"] != "cluster"


class SparkFormOperator(StartsRun, SparkStepOperator):
    """Perform the only step of a run; its request follows from the run's params.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    spark_above_bytes : int, optional
        From this many bytes of files on, Spark reads them; by default as the registry of steps says.
    """

    template_fields: Sequence[str] = ()
