"""The steps of an equi-join that other pipelines do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.equijoin import EquijoinReport, EquijoinRequest
    from hipslake.steps.report import Report
    from hipslake.steps.resolve_equijoin import ResolveEquijoinReport


class ResolveEquijoinOperator(StepOperator):
    """Freeze the spec, the params, the versions of both catalogs and the write id of a run.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `threshold`, `force`.

    Parameters
    ----------
    spec_file : str
        Path of the spec. Not templated.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, spec_file: str, warehouse: str = "${HIPSLAKE_WAREHOUSE}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse

    def perform(self, context: Context) -> ResolveEquijoinReport:
        from hipslake.specs.environment import expand
        from hipslake.steps import resolve_equijoin
        from hipslake.steps.report import perform
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        request = resolve_equijoin.ResolveEquijoinRequest(
            run_uri=run_uri(warehouse, run.dag_id, run.run_id),
            dag_id=run.dag_id,
            run_id=run.run_id,
            warehouse=warehouse,
            spec_file=self.spec_file,
            threshold=params.get("threshold") or None,
            force=bool(params.get("force", False)),
        )
        report = perform(resolve_equijoin.run, request, resolve_equijoin.ResolveEquijoinReport)
        context["ti"].xcom_push(key="run_uri", value=request.run_uri)
        self.log.info("Run folder: %s", request.run_uri)
        return report


class EquiJoinOperator(SparkStepOperator):
    """Join two catalogs on a key and write the leaves of the outcome; in Spark, unless they are small.

    Skips the task if the newest version was made of the same versions of both, with the same spec.
    """

    job = "equijoin_catalogs"

    def request(self) -> EquijoinRequest:
        from hipslake.steps.equijoin import EquijoinRequest

        return EquijoinRequest(run_uri=self.run_uri)

    def report_type(self) -> type[EquijoinReport]:
        from hipslake.steps.equijoin import EquijoinReport

        return EquijoinReport

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import equijoin
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: equijoin.run(asked, engine), self.request(), self.report_type())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        version = self.request().folder.inputs().unchanged_version
        if version is not None:
            raise AirflowSkipException(
                f"Version {version} was made of these versions of both catalogs, with this spec and library "
                "version; there is nothing to do. Set force to build a new version all the same."
            )
        return super().execute(context)
