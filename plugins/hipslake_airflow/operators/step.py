"""A step that runs in the task's own process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.hooks.storage import use_storage_connection

if TYPE_CHECKING:
    from hipslake.steps.report import Report


class StepOperator(BaseOperator):
    """Perform one step of a run and push the summary of its report.

    Subclasses import the library in `perform`, not at module level: DAG files import nothing heavy.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `resolve.output["run_uri"]`. Templated.
    """

    template_fields: Sequence[str] = ("run_uri",)
    ui_color = "#dbe7f5"

    def __init__(self, *, run_uri: Any = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri

    @abstractmethod
    def perform(self, context: Context) -> Report:
        """Run the step; return its report."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Perform the step; errors that cannot pass end the task at once."""
        from hipslake.errors import HipslakeError

        use_storage_connection()
        try:
            report = self.perform(context)
        except HipslakeError as error:
            if error.retryable:
                raise
            raise AirflowFailException(f"{type(error).__name__}: {error}") from error
        summary = report.summary()
        self.log.info("Step %s: %s", report.step, summary)
        return summary
