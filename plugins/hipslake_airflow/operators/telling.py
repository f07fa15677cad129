"""What all operators of steps share: what a step did is told to Airflow, in the ways that Airflow has."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink

from hipslake_airflow import metrics
from hipslake_airflow.links.page import CatalogsPageLink
from hipslake_airflow.outcome import report_of

if TYPE_CHECKING:
    from hipslake.steps.report import Report


class TellingOperator(BaseOperator):
    """Push the summary of a step's report; send its metrics; tell its lineage to whoever asks for it.

    A mixin: its subclasses name it before the operator that runs the step.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (CatalogsPageLink(),)
    _report: Report | None = None

    def tell(self, step: Callable[[], Report]) -> dict[str, Any]:
        """Run a step and return the summary of its report; errors that cannot pass end the task at once."""
        self._report = report = report_of(step)
        summary = report.summary()
        self.log.info("Step %s: %s", report.step, summary)
        if metrics.are_sent():
            self._send_metrics(report)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the step read and what it committed; asked for by Airflow's OpenLineage provider."""
        from hipslake_airflow.lineage import OperatorLineage, lineage_of

        return OperatorLineage() if self._report is None else lineage_of(self._report, self._run_folder)

    @property
    def _run_folder(self) -> str:
        """The run folder, where the step was told of one."""
        return getattr(self, "run_uri", "") or ""

    def _send_metrics(self, report: Report) -> None:
        from hipslake.steps.standing import standing_after

        try:
            metrics.send_step(report, self.dag_id)
            standing = standing_after(report, self._run_folder)
            if standing is not None:
                metrics.send_standing(standing)
        except Exception as error:  # what the step did stands, whether it is told or not
            self.log.warning("The metrics of step %s are lost: %s", report.step, error)
