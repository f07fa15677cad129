"""Old versions are taken away: those of a catalog, and those of a cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.step import FirstStepOperator

if TYPE_CHECKING:
    from hipslake.steps.cube.cube_upkeep import CleanUpCubeReport
    from hipslake.steps.upkeep.vacuum_catalog import VacuumReport


class RetentionOperator(FirstStepOperator):
    """Take old versions away, and every file that no version needs any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.
    """

    def asked(self, context: Context) -> dict[str, Any]:
        """What the request of the step holds besides the name of what is looked after."""
        params: Mapping[str, Any] = context["params"]
        warehouse, run_uri = self.place(context)
        return {
            "run_uri": run_uri,
            "warehouse": warehouse,
            "keep_versions": int(params["keep_versions"]),
            "keep_days": float(params["keep_days"]),
            "dry_run": bool(params["dry_run"]) and context["dag_run"].run_type != "scheduled",
        }


class VacuumCatalogOperator(RetentionOperator):
    """Take old versions of a catalog away, and every file that no version needs any more.

    Params and what they mean are those of `RetentionOperator`.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def perform(self, context: Context) -> VacuumReport:
        from hipslake.steps.report import perform
        from hipslake.steps.upkeep import vacuum_catalog

        request = vacuum_catalog.VacuumRequest(catalog=self.catalog, **self.asked(context))
        report = perform(vacuum_catalog.run, request, vacuum_catalog.VacuumReport)
        self.log.info("The vacuum:\n%s", report.text)
        return report


class CleanUpCubeOperator(RetentionOperator):
    """Take old versions of a cube away, and every file that no version needs any more.

    Params and what they mean are those of `RetentionOperator`.

    Parameters
    ----------
    cube : str
        The cube's name.
    """

    def __init__(self, *, cube: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cube = cube

    def perform(self, context: Context) -> CleanUpCubeReport:
        from hipslake.steps.cube import cube_upkeep
        from hipslake.steps.report import perform

        request = cube_upkeep.CleanUpCubeRequest(cube=self.cube, **self.asked(context))
        report = perform(cube_upkeep.clean_up, request, cube_upkeep.CleanUpCubeReport)
        self.log.info("The cleanup:\n%s", report.text)
        return report
