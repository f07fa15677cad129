"""The steps of catalogs that are adopted."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.catalog import PublishingOperator
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import ResolveOperator


class ResolveAdoptOperator(ResolveOperator):
    """Freeze the spec, the param `force`, and the state of the catalog of others; no leaf is opened.

    Parameters and what it pushes are those of `ResolveOperator`.
    """

    step = "resolve:adopt"

    def request_fields(self, context: Context) -> dict[str, Any]:
        return {"force": bool(context["params"].get("force", False))}


class AdoptCatalogOperator(PublishingOperator, SparkStepOperator):
    """Commit a version that has the leaves of others for its own, and emit its asset event.

    Margins and indices that the spec asks for are built beside them; in Spark, unless little is to be read.
    Skips the task if the newest version was made of this state of the catalog, with the same spec.
    """

    step = "adopt"

    def prepare(self, context: Context) -> None:
        from hipslake.steps.frozen_run import FrozenInputs

        version = FrozenInputs.of(self.request(context).folder).unchanged_version
        if version is not None:
            raise AirflowSkipException(
                f"Version {version} was made of this state of the catalog of others, with this spec and "
                "library version; there is nothing to do. Set force to build a new version all the same."
            )
