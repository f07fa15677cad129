"""The steps that make a version of a cube, and of the catalog that its joined rows become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.cubes import CubePublishingOperator
from hipslake_airflow.operators.derived import BuildHatsViewOperator
from hipslake_airflow.operators.run_folder import MATERIALISED
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import SpecOperator, StepOperator

if TYPE_CHECKING:
    from hipslake.specs.cube_spec import CubeSpec
    from hipslake.steps.cube.build_request import BuildCubeReport, BuildCubeRequest
    from hipslake.steps.cube.materialise import MaterialiseReport
    from hipslake.steps.cube.resolve_cube import ResolveCubeReport


class ResolveCubeOperator(SpecOperator):
    """Freeze the spec, the params and the version of every source into the run folder.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `mode`, `datasets`,
    `overwrite`, `force`. Parameters are those of `SpecOperator`.
    """

    def perform(self, context: Context) -> ResolveCubeReport:
        from hipslake.cube.store.spec_changes import BuildMode
        from hipslake.specs.yaml_file import load_cube_spec
        from hipslake.steps.cube import resolve_cube
        from hipslake.steps.report import perform

        _use_connections(load_cube_spec(self.spec_file))
        params: Mapping[str, Any] = context["params"]
        request = resolve_cube.ResolveCubeRequest(
            **self.told(context),
            mode=BuildMode(params.get("mode") or BuildMode.ALIGN),
            datasets=tuple(params.get("datasets") or ()),
            overwrite=bool(params.get("overwrite", False)),
            force=bool(params.get("force", False)),
        )
        report = perform(resolve_cube.run, request, resolve_cube.ResolveCubeReport)
        self.push_run(context)
        for folder in report.swept:
            self.log.info("Removed %s of the cube, left behind by a write that died.", folder)
        return report


class BuildCubeOperator(CubePublishingOperator, SparkStepOperator):
    """Make the version of a cube that the run has frozen; in Spark, if there are many bytes to read.

    The event's extra says `rows` (cells of the seed), `version` and `uri`. Skips the task if there is nothing
    to do; where a version has the files of the one before it, no event is emitted.
    """

    job = "build_cube"
    module = "hipslake.steps.cube.build_cube"

    def request(self) -> BuildCubeRequest:
        from hipslake.steps.cube.build_request import BuildCubeRequest

        return BuildCubeRequest(run_uri=self.run_uri)

    def report_type(self) -> type[BuildCubeReport]:
        from hipslake.steps.cube.build_request import BuildCubeReport

        return BuildCubeReport

    def bytes_to_handle(self) -> int:
        return self.request().frozen().total_bytes

    def outcome(self, context: Context) -> BuildCubeReport:
        report: BuildCubeReport = super().outcome(context)  # type: ignore[assignment]
        self.log.info("%s\nAlignment table: %s", report.text, report.alignment_uri or "none yet")
        if report.changed:
            self.announce(context, report)
        return report

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        use_storage_connection()
        frozen = self.request().frozen()
        if frozen.nothing:
            raise AirflowSkipException(frozen.nothing)
        _use_connections(frozen.spec)
        return super().execute(context)


class MaterialiseOperator(StepOperator):
    """Start the run of the catalog that the joined rows become; skipped if the catalog has them.

    Pushes `run_uri` of that run, which the steps of an ingest take; empty, if there are no joined rows yet.
    """

    def perform(self, context: Context) -> MaterialiseReport:
        from hipslake.steps.cube import materialise
        from hipslake.steps.cube.build_request import BuildCubeRequest
        from hipslake.steps.report import perform

        cube = BuildCubeRequest(run_uri=self.run_uri).frozen()
        request = materialise.MaterialiseRequest(
            run_uri=f"{self.run_uri}/{MATERIALISED}",
            dag_id=cube.dag_id,
            run_id=cube.run_id,
            warehouse=cube.warehouse,
            spec_file=cube.spec_file,
            cube_run_uri=self.run_uri,
            force=cube.force,
        )
        report = perform(materialise.run, request, materialise.MaterialiseReport)
        there = report.cube_version is not None
        context["ti"].xcom_push(key="run_uri", value=request.run_uri if there else "")
        return report

    def execute(self, context: Context) -> dict[str, Any]:
        summary = super().execute(context)
        if summary["cube_version"] is None:
            raise AirflowSkipException("The cube keeps no joined rows yet.")
        if summary["unchanged_version"] is not None:
            raise AirflowSkipException(
                f"Version {summary['unchanged_version']} of {summary['catalog']} has these rows already."
            )
        return summary


class JoinedViewOperator(BuildHatsViewOperator):
    """Show the newest version of the catalog of joined rows to other readers, once there is one."""

    def execute(self, context: Context) -> dict[str, Any]:
        from hipslake.steps.run import RunFolder

        use_storage_connection()
        if not RunFolder(self.run_uri).storage.is_file(RunFolder.RUN):
            raise AirflowSkipException("There is no catalog of joined rows yet.")
        return super().execute(context)


def _use_connections(spec: CubeSpec) -> None:
    for dataset in spec.datasets.values():
        if dataset.table is not None:
            use_iceberg_connection(dataset.iceberg)
