"""The cross-match step: `hipslake.steps.join.run`, for the match that the run has frozen."""

from __future__ import annotations

from hipslake.engine.model import Engine
from hipslake.steps.join.request import CrossmatchReport, CrossmatchRequest
from hipslake.steps.join.run import join


def run(request: CrossmatchRequest, engine: Engine) -> CrossmatchReport:
    """Match, and write the leaves of the outcome into the write folder of the run; errors as of `join`."""
    return CrossmatchReport(**join(request, engine).model_dump())
