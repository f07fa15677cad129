"""The steps of an equi-join that other pipelines do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hipslake_airflow.operators.joining import JoinOperator, ResolveJoinOperator

if TYPE_CHECKING:
    from hipslake.steps.join.equijoin_request import EquijoinReport, EquijoinRequest
    from hipslake.steps.join.resolve_equijoin import ResolveEquijoinReport


class ResolveEquijoinOperator(ResolveJoinOperator):
    """Freeze the run of an equi-join."""

    def resolve(self, told: Mapping[str, Any], params: Mapping[str, Any]) -> ResolveEquijoinReport:
        from hipslake.steps.join import resolve_equijoin
        from hipslake.steps.report import perform

        request = resolve_equijoin.ResolveEquijoinRequest(**told)
        return perform(resolve_equijoin.run, request, resolve_equijoin.ResolveEquijoinReport)


class EquiJoinOperator(JoinOperator):
    """Join two catalogs on a key."""

    job = "equijoin_catalogs"
    module = "hipslake.steps.join.run"

    def request(self) -> EquijoinRequest:
        from hipslake.steps.join.equijoin_request import EquijoinRequest

        return EquijoinRequest(run_uri=self.run_uri)

    def report_type(self) -> type[EquijoinReport]:
        from hipslake.steps.join.equijoin_request import EquijoinReport

        return EquijoinReport
