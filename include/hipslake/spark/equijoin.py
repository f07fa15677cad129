"""The equi-join step: tasks join where leaves of both catalogs meet, others write the outcome's leaves.

Nothing is shuffled: as in a cross-match, the outcome lies where the left rows lie.
"""

from __future__ import annotations

from hipslake.engine.model import Engine
from hipslake.spark import crossmatch
from hipslake.steps.equijoin import EquijoinReport, EquijoinRequest


def run(request: EquijoinRequest, engine: Engine) -> EquijoinReport:
    """Join, and write the leaves of the outcome into the write folder of the run.

    Raises
    ------
    EmptySourceError, PlanError, VerificationError
        As of `hipslake.spark.crossmatch.run`.
    """
    report = crossmatch.run(request, engine)
    return EquijoinReport(**report.model_dump(exclude={"step"}))
