"""What the steps of all joins have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import SpecOperator

if TYPE_CHECKING:
    from hipslake.steps.join.resolve_join import ResolveJoinReport


class ResolveJoinOperator(SpecOperator):
    """Freeze the spec, the params, the versions of both catalogs and the write id of a run.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `threshold`, `force`,
    and those that the kind of join knows besides. Parameters are those of `SpecOperator`.
    """

    @abstractmethod
    def resolve(self, told: Mapping[str, Any], params: Mapping[str, Any]) -> ResolveJoinReport:
        """Perform the step, told what every `ResolveJoinRequest` has; `params` are those of the form."""

    def perform(self, context: Context) -> ResolveJoinReport:
        from hipslake.errors import CatalogNotFoundError

        params: Mapping[str, Any] = context["params"]
        told = self.told(context) | {
            "threshold": params.get("threshold") or None,
            "force": bool(params.get("force", False)),
        }
        try:
            report = self.resolve(told, params)
        except CatalogNotFoundError as error:
            if not context.get("triggering_asset_events"):
                raise
            raise AirflowSkipException(f"{error}. Its first version starts the join.") from error
        self.push_run(context)
        return report


class JoinOperator(SparkStepOperator):
    """Join two catalogs and write the leaves of the outcome; in Spark, unless they are small.

    Skips the task if the newest version was made of the same versions of both, with the same spec.
    """

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        use_storage_connection()
        version = self.request().folder.inputs().unchanged_version
        if version is not None:
            raise AirflowSkipException(
                f"Version {version} was made of these versions of both catalogs, with this spec and library "
                "version; there is nothing to do. Set force to build a new version all the same."
            )
        return super().execute(context)
