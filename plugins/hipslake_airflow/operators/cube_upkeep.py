"""What is done to a cube that stands: partitions and datasets go, it is copied, cleaned up and weighed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, Context

from hipslake_airflow.assets import cube_asset
from hipslake_airflow.operators.step import FirstStepOperator

if TYPE_CHECKING:
    from hipslake.steps.cube import CubeReport
    from hipslake.steps.cube_copy import CopyCubeReport
    from hipslake.steps.cube_removal import RemovalReport
    from hipslake.steps.cube_upkeep import CleanUpCubeReport, CubeStatsReport

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

    def announce(self, context: Context, report: CubeReport) -> None:
        """Log what was done; say in the asset event which version there is, if one was made."""
        self.log.info("%s", report.text)
        if report.version is not None:
            extra: dict[str, Any] = {
                "rows": report.rows_out,
                "version": report.version,
                "uri": report.cube_uri,
            }
            context["outlet_events"][self.alias].add(cube_asset(report.cube), extra=extra)


class RemoveCubePartitionsOperator(CubeVersionOperator):
    """Remove the partitions of a cube that meet some conditions, as one version.

    Reads the params `cube`, `conditions`, `datasets` and `dry_run`.
    """

    def perform(self, context: Context) -> RemovalReport:
        from hipslake.steps import cube_removal
        from hipslake.steps.report import perform

        asked = {"conditions": ""} | self.asked(context, "conditions", "datasets", "dry_run")
        request = cube_removal.RemovePartitionsRequest.model_validate(asked)
        report = perform(cube_removal.remove, request, cube_removal.RemovalReport)
        self.announce(context, report)
        return report


class DeleteCubeOperator(CubeVersionOperator):
    """Delete some datasets of a cube, as one version; or all of the cube.

    Reads the params `cube`, `datasets`, `confirm` and `dry_run`.
    """

    def perform(self, context: Context) -> RemovalReport:
        from hipslake.steps import cube_removal
        from hipslake.steps.report import perform

        asked = {"confirm": ""} | self.asked(context, "datasets", "confirm", "dry_run")
        request = cube_removal.DeleteCubeRequest.model_validate(asked)
        report = perform(cube_removal.delete, request, cube_removal.RemovalReport)
        self.announce(context, report)
        return report


class CopyCubeOperator(CubeVersionOperator):
    """Copy the newest version of a cube to another place, as one version there.

    Reads the params `cube`, `target`, `datasets` and `overwrite`.
    """

    def perform(self, context: Context) -> CopyCubeReport:
        from hipslake.steps import cube_copy
        from hipslake.steps.report import perform

        asked = self.asked(context, "target", "datasets", "overwrite")
        request = cube_copy.CopyCubeRequest.model_validate(asked)
        report = perform(cube_copy.run, request, cube_copy.CopyCubeReport)
        self.announce(context, report)
        return report


class CleanUpCubeOperator(CubeFormOperator):
    """Take old versions of a cube away, and every file that no version needs any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.

    Parameters
    ----------
    cube : str
        The cube's name.
    """

    def __init__(self, *, cube: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cube = cube

    def perform(self, context: Context) -> CleanUpCubeReport:
        from hipslake.steps import cube_upkeep
        from hipslake.steps.report import perform

        params: Mapping[str, Any] = context["params"]
        warehouse, run_uri = self.place(context)
        request = cube_upkeep.CleanUpCubeRequest(
            run_uri=run_uri,
            warehouse=warehouse,
            cube=self.cube,
            keep_versions=int(params["keep_versions"]),
            keep_days=float(params["keep_days"]),
            dry_run=bool(params["dry_run"]) and context["dag_run"].run_type != "scheduled",
        )
        report = perform(cube_upkeep.clean_up, request, cube_upkeep.CleanUpCubeReport)
        self.log.info("The cleanup:\n%s", report.text)
        return report


class CubeStatsOperator(CubeFormOperator):
    """Say what the datasets of a cube weigh. Reads the params `cube` and `version`."""

    def perform(self, context: Context) -> CubeStatsReport:
        from hipslake.steps import cube_upkeep
        from hipslake.steps.report import perform

        request = cube_upkeep.CubeStatsRequest.model_validate(self.asked(context, "version"))
        report = perform(cube_upkeep.weigh, request, cube_upkeep.CubeStatsReport)
        self.log.info("%s", report.text)
        return report
