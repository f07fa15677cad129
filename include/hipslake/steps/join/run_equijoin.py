"""The equi-join step: `hipslake.steps.join.run`, for the join that the run has frozen."""

from __future__ import annotations

from hipslake.engine.model import Engine
from hipslake.steps.join.request import EquijoinReport, EquijoinRequest
from hipslake.steps.join.run import join


def run(request: EquijoinRequest, engine: Engine) -> EquijoinReport:
    """Join, and write the leaves of the outcome into the write folder of the run; errors as of `join`."""
    return EquijoinReport(**join(request, engine).model_dump())
