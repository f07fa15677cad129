"""What is done to a cube that a form names: partitions and datasets go, it is copied and weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import AssetAlias, Context

from hipslake_airflow.assets import cube_asset
from hipslake_airflow.operators.step import FirstStepOperator

if TYPE_CHECKING:
    from hipslake.steps.cube.cube_copy import CopyCubeReport
    from hipslake.steps.cube.cube_removal import RemovalReport
    from hipslake.steps.cube.cube_report import CubeReport
    from hipslake.steps.cube.cube_upkeep import CubeStatsReport
    from hipslake.steps.report import Request

RequestT = TypeVar("RequestT", bound="Request")
ReportT = TypeVar("ReportT", bound="CubeReport")

CUBES = "cubes"
"""The alias of the assets of all cubes: which of them a task is about is known when its form is filled in."""


class CubeFormOperator(FirstStepOperator):
    """A step of a run of its own, about the cube that the param `cube` names."""

    def asked(self, context: Context, *names: str) -> dict[str, Any]:
        """What the request of the step holds: the place of the run, and some params that say anything."""
        params: Mapping[str, Any] = context["params"]
        warehouse, run_uri = self.place(context)
        given = {name: params[name] for name in ("cube", *names) if params.get(name) not in (None, "", [])}
        return {"warehouse": warehouse, "run_uri": run_uri, **given}


class CubeVersionOperator(CubeFormOperator):
    """A step that makes a version of a cube, and then emits the cube's asset event."""

    def __init__(self, **kwargs: Any) -> None:
        self.alias = AssetAlias(CUBES)
        super().__init__(outlets=[self.alias, *kwargs.pop("outlets", [])], **kwargs)

    def make_version(
        self,
        step: Callable[[RequestT], ReportT],
        request: RequestT,
        report_type: type[ReportT],
        context: Context,
    ) -> ReportT:
        """Perform the step; log what was done, and say in the asset event which version was made, if any."""
        from hipslake.steps.report import perform

        report = perform(step, request, report_type)
        self.log.info("%s", report.text)
        if report.version is not None:
            extra: dict[str, Any] = {
                "rows": report.rows_out,
                "version": report.version,
                "uri": report.cube_uri,
            }
            context["outlet_events"][self.alias].add(cube_asset(report.cube), extra=extra)
        return report


class RemoveCubePartitionsOperator(CubeVersionOperator):
    """Remove the partitions of a cube that meet some conditions, as one version.

    Reads the params `cube`, `conditions`, `datasets` and `dry_run`.
    """

    def perform(self, context: Context) -> RemovalReport:
        from hipslake.steps.cube import cube_removal

        asked = {"conditions": ""} | self.asked(context, "conditions", "datasets", "dry_run")
        request = cube_removal.RemovePartitionsRequest.model_validate(asked)
        return self.make_version(cube_removal.remove, request, cube_removal.RemovalReport, context)


class DeleteCubeOperator(CubeVersionOperator):
    """Delete some datasets of a cube, as one version; or all of the cube.

    Reads the params `cube`, `datasets`, `confirm` and `dry_run`.
    """

    def perform(self, context: Context) -> RemovalReport:
        from hipslake.steps.cube import cube_removal

        asked = {"confirm": ""} | self.asked(context, "datasets", "confirm", "dry_run")
        request = cube_removal.DeleteCubeRequest.model_validate(asked)
        return self.make_version(cube_removal.delete, request, cube_removal.RemovalReport, context)


class CopyCubeOperator(CubeVersionOperator):
    """Copy the newest version of a cube to another place, as one version there.

    Reads the params `cube`, `target`, `datasets` and `overwrite`.
    """

    def perform(self, context: Context) -> CopyCubeReport:
        from hipslake.steps.cube import cube_copy

        asked = self.asked(context, "target", "datasets", "overwrite")
        request = cube_copy.CopyCubeRequest.model_validate(asked)
        return self.make_version(cube_copy.run, request, cube_copy.CopyCubeReport, context)


class CubeStatsOperator(CubeFormOperator):
    """Say what the datasets of a cube weigh. Reads the params `cube` and `version`."""

    def perform(self, context: Context) -> CubeStatsReport:
        from hipslake.steps.cube import cube_upkeep
        from hipslake.steps.report import perform

        request = cube_upkeep.CubeStatsRequest.model_validate(self.asked(context, "version"))
        report = perform(cube_upkeep.weigh, request, cube_upkeep.CubeStatsReport)
        self.log.info("%s", report.text)
        return report
