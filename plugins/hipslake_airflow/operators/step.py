"""A step that runs in the task's own process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder, place_of_run
from hipslake_airflow.operators.telling import TellingOperator

if TYPE_CHECKING:
    from hipslake.steps.report import Report


class StepOperator(InRunFolder, TellingOperator):
    """Perform one step of a run and push the summary of its report.

    Subclasses import the library in `perform`, not at module level: DAG files import nothing heavy.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `resolve.output["run_uri"]`. Templated, and no other than the run's own.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    part : str
        The folder in the run folder, of a run within the run. Not templated.
    """

    template_fields: Sequence[str] = ("run_uri",)
    ui_color = "#dbe7f5"

    def __init__(
        self, *, run_uri: Any = "", warehouse: str = WAREHOUSE, part: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.warehouse = warehouse
        self.part = part

    @abstractmethod
    def perform(self, context: Context) -> Report:
        """Run the step; return its report."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Perform the step; errors that cannot pass end the task at once."""
        use_storage_connection()
        return self.tell(lambda: self.perform(context))


class FirstStepOperator(StepOperator):
    """Perform the first step of a run, which makes the run folder: its place follows from the DAG run.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()

    def place(self, context: Context) -> tuple[str, str]:
        """Return the root of the warehouse and the run folder, as URIs."""
        return place_of_run(self.warehouse, context)


class SpecOperator(FirstStepOperator):
    """Perform the first step of a run that a spec asks for.

    Parameters
    ----------
    spec_file : str
        Path of the spec. Not templated.
    """

    def __init__(self, *, spec_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file

    def told(self, context: Context) -> dict[str, Any]:
        """What the request of every such step holds: where, for which run, and by which spec."""
        warehouse, run_uri = self.place(context)
        run = context["dag_run"]
        return {
            "run_uri": run_uri,
            "dag_id": run.dag_id,
            "run_id": run.run_id,
            "warehouse": warehouse,
            "spec_file": self.spec_file,
        }

    def push_run(self, context: Context) -> None:
        """Push `run_uri`, which every later step takes."""
        _, run_uri = self.place(context)
        context["ti"].xcom_push(key="run_uri", value=run_uri)
        self.log.info("Run folder: %s", run_uri)
