"""The equi-join step: `hipslake.spark.joining`, for the join that the run has frozen."""

from __future__ import annotations

from hipslake.engine.model import Engine
from hipslake.spark.joining import join
from hipslake.steps.equijoin import EquijoinReport, EquijoinRequest


def run(request: EquijoinRequest, engine: Engine) -> EquijoinReport:
    """Join, and write the leaves of the outcome into the write folder of the run; errors as of `join`."""
    return EquijoinReport(**join(request, engine).model_dump())
