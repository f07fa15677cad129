"""What operators share whose task publishes a version: the catalog's asset, and its event."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.assets import catalog_asset


class PublishingOperator(BaseOperator):
    """Emit the asset event of a catalog, whose extra says `rows`, `version` and `uri`.

    A mixin: its subclasses name it before the operator that runs the step.

    Parameters
    ----------
    catalog : str
        The catalog's name; its asset becomes an outlet of the task.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        asset = catalog_asset(catalog)
        super().__init__(outlets=[asset, *kwargs.pop("outlets", [])], **kwargs)
        self.asset = asset

    def announce(self, context: Context, *, rows: int, version: int | None, uri: str) -> None:
        """Say in the asset event what was published."""
        if version is None:
            raise AirflowFailException(f"{uri}: {self.task_id} left no version; report it as a bug")
        context["outlet_events"][self.asset].extra = {"rows": rows, "version": version, "uri": uri}
