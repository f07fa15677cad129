"""The steps of joins that other pipelines do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import ResolveOperator

if TYPE_CHECKING:
    from hipslake.steps.report import Report


class ResolveJoinOperator(ResolveOperator):
    """Freeze the spec, the params, the versions of all catalogs and the write id of a run.

    Reads the params `threshold`, `full` and `force`, all optional. Parameters and what it pushes are those of
    `ResolveOperator`.
    """

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        return {
            "threshold": params.get("threshold") or None,
            "full": bool(params.get("full", False)),
            "force": bool(params.get("force", False)),
        }

    def perform(self, context: Context) -> Report:
        from hipslake.errors import CatalogNotFoundError

        try:
            return super().perform(context)
        except CatalogNotFoundError as error:
            if not context.get("triggering_asset_events"):
                raise
            raise AirflowSkipException(f"{error}. Its first version starts the join.") from error


class ResolveCrossmatchOperator(ResolveJoinOperator):
    """Freeze the run of a cross-match.

    Reads the params `radius_arcsec`, `sigmas`, `region` and `missing_margin` besides.
    """

    step = "resolve:crossmatch"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        radius, sigmas = params.get("radius_arcsec"), params.get("sigmas")
        return super().request_fields(context) | {
            "radius_arcsec": None if radius is None else float(radius),
            "sigmas": None if sigmas is None else float(sigmas),
            "region": params.get("region") or None,
            "missing_margin": params.get("missing_margin") or None,
        }


class ResolveEquijoinOperator(ResolveJoinOperator):
    """Freeze the run of an equi-join."""

    step = "resolve:equijoin"


class JoinOperator(SparkStepOperator):
    """Join catalogs and write the leaves of the outcome; in Spark, unless they are small.

    Skips the task if the newest version was made of the same versions of them, with the same spec.
    """

    def prepare(self, context: Context) -> None:
        from hipslake.steps.frozen_run import FrozenInputs

        version = FrozenInputs.of(self.request(context).folder).unchanged_version
        if version is not None:
            raise AirflowSkipException(
                f"Version {version} was made of these versions of its catalogs, with this spec and library "
                "version; there is nothing to do. Set force to build a new version all the same."
            )


class CrossmatchOperator(JoinOperator):
    """Match a catalog with one or more others."""

    step = "crossmatch"


class EquiJoinOperator(JoinOperator):
    """Join two catalogs on a key."""

    step = "equijoin"
