"""Joins: two catalogs become a third. The outcome is verified and published like any other run's.

The work is in `hipslake.steps.join.run`; here is what it is told and what it says. It leaves in the run
folder what the histogram, plan and write steps of an ingest leave, so that the ordinary steps follow it.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.steps.ingest.write_request import DEFAULT_TARGET_BYTES, WriteRequest
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder

FROZEN = RunFolder.JOIN
"""What the run has frozen of its two catalogs, in the run folder."""
COUNTS = "join/counts"
"""The folder of what tasks have counted, in the run folder."""


class FrozenSide(Frozen):
    """A version of a catalog."""

    uri: str
    version: int


class JoinRequest(Request):
    """Join the catalogs of a run, and write the leaves of the outcome."""

    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PARTITIONS, RunFolder.report_path(WriteRequest.step))

    task_rows: int | None = Field(default=None, ge=1)  # left rows of a task; None: as many as memory allows
    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one task writes


class JoinReport(Report):
    """Rows in and out: the rows of the outcome."""

    left_rows: int = 0  # of the leaves that were opened
    leaves: int = 0
    tasks: int = 0  # that joined
