"""What operators share whose task makes a version of a cube: the cube's asset, and its event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from hipslake_airflow.assets import cube_asset

if TYPE_CHECKING:
    from hipslake.steps.cube.cube_report import CubeReport


class CubePublishingOperator(BaseOperator):
    """Emit the asset event of a cube, whose extra says `rows`, `version` and `uri`.

    A mixin: its subclasses name it before the operator that runs the step.

    Parameters
    ----------
    cube : str
        The cube's name; its asset becomes an outlet of the task.
    """

    def __init__(self, *, cube: str, **kwargs: Any) -> None:
        asset = cube_asset(cube)
        super().__init__(outlets=[asset, *kwargs.pop("outlets", [])], **kwargs)
        self.cube = cube
        self.asset = asset

    def announce(self, context: Context, report: CubeReport) -> None:
        """Say in the asset event which version there is; nothing, if none was made."""
        if report.version is not None:
            context["outlet_events"][self.asset].extra = {
                "rows": report.rows_of_cube,
                "version": report.version,
                "uri": report.cube_uri,
            }
