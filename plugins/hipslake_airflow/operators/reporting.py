"""What all operators of steps share: how a request is built, and how a report is passed on to Airflow."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hipslake_airflow import metrics
from hipslake_airflow.dags_test import is_dags_test, keep_outcome, told_at_the_end
from hipslake_airflow.hooks.storage import use_storage_connection

if TYPE_CHECKING:
    from hipslake.steps.report import Report, Request


class ReportingMixin(BaseOperator):
    """Perform a step; push the summary of its report, send its metrics, and give its lineage.

    Its subclasses name it before the operator that runs the step, and override whatever differs from step to
    step. They import the library in methods, not at module level: DAG files import nothing heavy.
    """

    step: ClassVar[str]
    """The name of the step in `hipslake.steps.registry`."""
    _report: Report | None = None

    @abstractmethod
    def run_fields(self, context: Context) -> dict[str, Any]:
        """Return the fields of the request that say which run it is of."""

    def request_fields(self, context: Context) -> dict[str, Any]:
        """Return the other fields of the request, from params and from parameters of the operator."""
        return {}

    def request(self, context: Context) -> Request:
        """Return the request of the step."""
        from hipslake.steps.registry import STEPS

        fields = self.run_fields(context) | self.request_fields(context)
        return STEPS[self.step].request_model.model_validate(fields)

    def prepare(self, context: Context) -> None:
        """Make connections known; raise `AirflowSkipException` if there is nothing to do."""

    @abstractmethod
    def perform(self, context: Context) -> Report:
        """Run the step; return its report."""

    def finish(self, context: Context, report: Any) -> None:
        """Push what later tasks need, and emit asset events."""

    def skip_reason(self, report: Any) -> str | None:
        """Return why the task is skipped after all, None if it is not."""
        return None

    def execute(self, context: Context) -> Any:
        """Perform the step and return the summary of its report; errors that cannot pass end the task."""
        return self.pass_on(context, lambda: self.perform(context))

    def pass_on(self, context: Context, step: Callable[[], Report]) -> dict[str, Any]:
        """Do all that `execute` does, of a step that is performed by a callable."""
        with told_at_the_end(self.task_id, context):
            use_storage_connection()
            self.prepare(context)
            summary = self.push_report(step)
            self.finish(context, self._report)
            reason = self.skip_reason(self._report)
            if reason is not None:
                raise AirflowSkipException(reason)
        return summary

    def push_report(self, step: Callable[[], Report]) -> dict[str, Any]:
        """Run a step, log and send what it reports, and return the summary of that."""
        self._report = report = report_of(step)
        summary = report.summary()
        self.log.info("Step %s: %s", report.step, summary)
        if text := getattr(report, "text", ""):
            self.log.info("%s", text)
        for path in getattr(report, "swept", ()):
            self.log.info("Removed %s, left behind by a run that died.", path)
        if metrics.are_sent():
            self._send_metrics(report)
        if is_dags_test(sys.argv):
            keep_outcome(self.task_id, self._run_folder, report)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the step read and what it committed; called by Airflow's OpenLineage provider."""
        from hipslake_airflow.lineage import OperatorLineage, lineage_of

        return OperatorLineage() if self._report is None else lineage_of(self._report, self._run_folder)

    @property
    def _run_folder(self) -> str:
        """The run folder, where the task was given one."""
        return getattr(self, "run_uri", "") or ""

    def _send_metrics(self, report: Report) -> None:
        try:
            metrics.send_step(report, self.dag_id)
            committed = report.committed(self._run_folder)
            if committed is not None:
                metrics.send_committed(committed)
        except Exception as error:  # the step has done its work, whether its metrics arrive or not
            self.log.warning("The metrics of step %s are lost: %s", report.step, error)


def report_of(step: Callable[[], Report]) -> Report:
    """Run a step and return its report; errors that cannot pass end the task at once."""
    from hipslake.errors import HipslakeError
    from hipslake.specs.base import first_mistake
    from pydantic import ValidationError

    try:
        return step()
    except ValidationError as error:  # of a request: a param that the form lets pass, and the step does not
        raise AirflowFailException(f"SpecError: {first_mistake(error, otherwise=error.title)}") from None
    except HipslakeError as error:
        if error.retryable:
            raise
        # The message says all there is to know; of a cause, Airflow would log message and trace beside it.
        raise AirflowFailException(f"{type(error).__name__}: {error}") from None
