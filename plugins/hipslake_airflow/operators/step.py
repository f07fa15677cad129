"""A step that runs in the task's own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.reporting import ReportingMixin
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder, StartsRun

if TYPE_CHECKING:
    from hipslake.steps.report import Report


class StepOperator(InRunFolder, ReportingMixin):
    """Perform one step of a run and push the summary of its report.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `pushed_run_uri()`. Templated, and no other than the run's own.
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

    def perform(self, context: Context) -> Report:
        """Run the step, or take over what a finished attempt left."""
        from hipslake.steps.registry import STEPS

        return STEPS[self.step].perform(self.request(context))


class FirstStepOperator(StartsRun, StepOperator):
    """Perform the first step of a run, which makes the run folder: its place follows from the DAG run.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()


class SpecOperator(FirstStepOperator):
    """Perform the first step of a run of a spec.

    Parameters
    ----------
    spec_file : str
        Path of the spec. Not templated.
    """

    def __init__(self, *, spec_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file


class FreezingOperator(FirstStepOperator):
    """Freeze what a run depends on into its folder; push `run_uri`, which every later step takes."""

    def run_fields(self, context: Context) -> dict[str, Any]:
        run = context["dag_run"]
        return super().run_fields(context) | {"dag_id": run.dag_id, "run_id": run.run_id}

    def finish(self, context: Context, report: Any) -> None:
        run_uri = self.run_fields(context)["run_uri"]
        context["ti"].xcom_push(key="run_uri", value=run_uri)
        self.log.info("Run folder: %s", run_uri)


class ResolveOperator(SpecOperator, FreezingOperator):
    """Freeze a spec, and what its run depends on, into the run's folder; push `run_uri`.

    Parameters are those of `SpecOperator`.
    """

    def run_fields(self, context: Context) -> dict[str, Any]:
        return super().run_fields(context) | {"spec_file": self.spec_file}
