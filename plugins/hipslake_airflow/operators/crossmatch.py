"""The steps of a cross-match that other pipelines do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.crossmatch import CrossmatchReport, CrossmatchRequest
    from hipslake.steps.report import Report
    from hipslake.steps.resolve_crossmatch import ResolveCrossmatchReport


class ResolveCrossmatchOperator(StepOperator):
    """Freeze the spec, the params, the versions of both catalogs and the write id of a run.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `radius_arcsec`,
    `threshold`, `region`, `force`. Skips the run if the newest version was made of just this.

    Parameters
    ----------
    spec_file : str
        Path of the cross-match spec. Not templated.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, spec_file: str, warehouse: str = "${HIPSLAKE_WAREHOUSE}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse

    def perform(self, context: Context) -> ResolveCrossmatchReport:
        from hipslake.specs.environment import expand
        from hipslake.steps import resolve_crossmatch
        from hipslake.steps.report import perform
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        radius = params.get("radius_arcsec")
        request = resolve_crossmatch.ResolveCrossmatchRequest(
            run_uri=run_uri(warehouse, run.dag_id, run.run_id),
            dag_id=run.dag_id,
            run_id=run.run_id,
            warehouse=warehouse,
            spec_file=self.spec_file,
            radius_arcsec=None if radius is None else float(radius),
            threshold=params.get("threshold") or None,
            region=params.get("region") or None,
            force=bool(params.get("force", False)),
        )
        report = perform(resolve_crossmatch.run, request, resolve_crossmatch.ResolveCrossmatchReport)
        context["ti"].xcom_push(key="run_uri", value=request.run_uri)
        self.log.info("Run folder: %s", request.run_uri)
        return report


class CrossmatchOperator(SparkStepOperator):
    """Match two catalogs and write the leaves of the outcome; in Spark, unless they are small.

    Skips the task if the newest version was made of the same versions of both, with the same spec.
    """

    job = "crossmatch_catalogs"

    def request(self) -> CrossmatchRequest:
        from hipslake.steps.crossmatch import CrossmatchRequest

        return CrossmatchRequest(run_uri=self.run_uri)

    def report_type(self) -> type[CrossmatchReport]:
        from hipslake.steps.crossmatch import CrossmatchReport

        return CrossmatchReport

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import crossmatch
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: crossmatch.run(asked, engine), self.request(), self.report_type())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        version = self.request().folder.inputs().unchanged_version
        if version is not None:
            raise AirflowSkipException(
                f"Version {version} was made of these versions of both catalogs, with this spec and library "
                "version; there is nothing to do. Set force to build a new version all the same."
            )
        return super().execute(context)
