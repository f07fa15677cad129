"""A step that runs as a Spark job: request in, submit, report out."""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from hipslake_airflow.hooks.library import build_library_archive, job_path
from hipslake_airflow.hooks.spark import check_master, client_environment, launch_conf
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.links.page import CatalogsPageLink
from hipslake_airflow.links.spark import SparkLink, spark_page
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder
from hipslake_airflow.operators.telling import TellingOperator
from hipslake_airflow.outcome import failure_to_raise

if TYPE_CHECKING:
    from hipslake.steps.report import Report, Request


class SparkStepOperator(InRunFolder, TellingOperator, SparkSubmitOperator):
    """Submit a step's job and read its report, also when the job failed.

    A finished report with the same fingerprint is taken over without starting Spark. What the job says is not
    retryable ends the task at once; a job that died without a report is retried.

    Only `run_uri` is templated. The application, its archives and its configuration never come from params.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `resolve.output["run_uri"]`. Templated, and no other than the run's own.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    part : str
        The folder in the run folder, of a run within the run. Not templated.
    conn_id : str
        The Spark connection, in JSON form: `{"conn_type": "spark", "host": "local[*,4]"}`.
    spark_above_bytes : int
        What has fewer bytes is done in the task's own process, which is quicker than starting Spark.
    """

    job: ClassVar[str]  # name of the entry point in spark_jobs/
    module: ClassVar[str]  # the library's, whose `run(request, engine)` is the step
    template_fields: Sequence[str] = ("run_uri",)
    ui_color = "#f7e3c8"
    operator_extra_links = (CatalogsPageLink(), SparkLink())
    spark_page = ""  # where Spark shows the job

    def __init__(
        self,
        *,
        run_uri: Any = "",
        warehouse: str = WAREHOUSE,
        part: str = "",
        conn_id: str = "spark_default",
        spark_above_bytes: int = 0,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("durable", False)  # what a job did is in its report; nothing reconnects to it
        super().__init__(
            application=job_path(self.job), conn_id=conn_id, name=f"hipslake-{self.job}", **kwargs
        )
        self.run_uri = run_uri
        self.warehouse = warehouse
        self.part = part
        self.spark_above_bytes = spark_above_bytes

    @abstractmethod
    def request(self) -> Request:
        """Return what the step is told."""

    @abstractmethod
    def report_type(self) -> type[Report]:
        """Return the model of the step's report."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the step in Spark, or take over what a finished attempt left."""
        use_storage_connection()
        return self.tell(lambda: self.outcome(context))

    def outcome(self, context: Context) -> Report:
        """Return the report of a step that went well; raise what a failed one says."""
        from hipslake.steps.report import finished_report

        request = self.request()
        finished = finished_report(request, self.report_type())
        if finished is not None:
            self.log.info("Step %s is done already with the same fingerprint; reusing it.", request.step)
            return finished
        if self.spark_above_bytes and self.bytes_to_handle() < self.spark_above_bytes:
            return self.without_spark()
        report = self._submitted(request, context)
        if report.error is not None:
            self.log.error("The job says:\n%s", report.error.trace or report.error.message)
            raise failure_to_raise(report.error)
        return report

    def bytes_to_handle(self) -> int:
        """Return how much the step has to do; only asked where the task's own process may do it."""
        return self.request().folder.inputs().total_bytes

    def without_spark(self) -> Report:
        """Perform the step in this process."""
        from hipslake.engine.this_process import ThisProcess
        from hipslake.steps.report import perform

        step, engine = import_module(self.module), ThisProcess()
        return perform(lambda request: step.run(request, engine), self.request(), self.report_type())

    def on_kill(self) -> None:
        """Stop the job, if one was submitted."""
        if self._hook is not None:
            super().on_kill()

    def _submitted(self, request: Request, context: Context) -> Report:
        """Write the request, run the job, and return its report, whatever the job's exit code was."""
        from hipslake.steps.run import RunFolder, parse

        folder, report_path = request.folder, RunFolder.report_path(request.step)
        request_uri = folder.write(RunFolder.request_path(request.step), request)
        for path in (report_path, RunFolder.job_path(request.step)):
            if folder.storage.is_file(path):
                folder.storage.delete(path)  # of an earlier attempt; it must not stand for this one
        self.application_args = [f"--request={request_uri}", f"--report={folder.uri_of(report_path)}"]
        failure: Exception | None = None
        with tempfile.TemporaryDirectory(prefix="hipslake-") as temporary:
            self.py_files = str(build_library_archive(Path(temporary)))
            self._show_job(context, "")
            try:
                super().execute(context)
            except AirflowFailException:
                raise
            except (AirflowException, RuntimeError) as error:  # the latter where YARN tells of the job's end
                failure = error
        self._show_job(context, folder.application(request.step))
        if folder.storage.is_file(report_path):
            report_type = self.report_type()
            return parse(report_type, folder.storage.read(report_path), where=folder.uri_of(report_path))
        raise AirflowException(
            f"The job {self.job} ended without a report: its process or a worker died. Look at the end of "
            "its log above; common causes are too little memory, a lost executor and a full disk"
        ) from failure

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
        if not hook._is_yarn and not hook._is_kubernetes and hook._connection["deploy_mode"] != "cluster":
            hook._conf = {**launch_conf(master), **(self.conf or {})}
            hook._env_vars = {**client_environment(), **(self.env_vars or {})}
        return hook
