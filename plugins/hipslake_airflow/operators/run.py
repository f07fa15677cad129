"""How a run that makes a catalog begins: what it is to do, and of which files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.step import SpecOperator, StepOperator
from hipslake_airflow.operators.window import wait_of, window_of

if TYPE_CHECKING:
    from hipslake.steps.ingest.inputs import InputsReport
    from hipslake.steps.ingest.resolve import ResolveReport


class ResolveRunOperator(SpecOperator):
    """Freeze the spec, the params, the window and the write id of a run into its `run.json`.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `threshold`, `layout`,
    `force`, `wait_minutes`, `window_start`, `window_end`. Parameters are those of `SpecOperator`.
    """

    def perform(self, context: Context) -> ResolveReport:
        from hipslake.steps.ingest import resolve
        from hipslake.steps.report import perform

        params: Mapping[str, Any] = context["params"]
        request = resolve.ResolveRequest(
            **self.told(context),
            threshold=params.get("threshold") or None,
            layout=params.get("layout") or None,
            force=bool(params.get("force", False)),
            wait_minutes=wait_of(params),
            window=window_of(context),
        )
        report = perform(resolve.run, request, resolve.ResolveReport)
        self.push_run(context)
        for folder in report.swept:
            self.log.info("Removed %s, left behind by a run that died.", folder)
        return report


class FreezeInputsOperator(StepOperator):
    """List the source files, and skip the run if nothing changed since the newest version."""

    def perform(self, context: Context) -> InputsReport:
        from hipslake.steps.ingest import inputs
        from hipslake.steps.report import perform

        request = inputs.InputsRequest(run_uri=self.run_uri)
        return perform(inputs.run, request, inputs.InputsReport)

    def execute(self, context: Context) -> dict[str, Any]:
        summary = super().execute(context)
        if summary["empty"]:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException("The interval has no files, and the spec says on_empty: skip.")
        version = summary["unchanged_version"]
        if version is not None:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException(
                f"Version {version} was made of exactly these files, with this spec and library version; "
                "there is nothing to do. Set force to build a new version all the same."
            )
        return summary
