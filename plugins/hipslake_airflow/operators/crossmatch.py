"""The steps of a cross-match that other pipelines do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hipslake_airflow.operators.joining import JoinOperator, ResolveJoinOperator

if TYPE_CHECKING:
    from hipslake.steps.join.crossmatch_request import CrossmatchReport, CrossmatchRequest
    from hipslake.steps.join.resolve_crossmatch import ResolveCrossmatchReport


class ResolveCrossmatchOperator(ResolveJoinOperator):
    """Freeze the run of a cross-match; knows the params `radius_arcsec` and `region` besides."""

    def resolve(self, told: Mapping[str, Any], params: Mapping[str, Any]) -> ResolveCrossmatchReport:
        from hipslake.steps.join import resolve_crossmatch
        from hipslake.steps.report import perform

        radius = params.get("radius_arcsec")
        request = resolve_crossmatch.ResolveCrossmatchRequest(
            **told,
            radius_arcsec=None if radius is None else float(radius),
            region=params.get("region") or None,
        )
        return perform(resolve_crossmatch.run, request, resolve_crossmatch.ResolveCrossmatchReport)


class CrossmatchOperator(JoinOperator):
    """Match two catalogs."""

    job = "crossmatch_catalogs"
    module = "hipslake.steps.join.run"

    def request(self) -> CrossmatchRequest:
        from hipslake.steps.join.crossmatch_request import CrossmatchRequest

        return CrossmatchRequest(run_uri=self.run_uri)

    def report_type(self) -> type[CrossmatchReport]:
        from hipslake.steps.join.crossmatch_request import CrossmatchReport

        return CrossmatchReport
