"""Joins: catalogs become another one. The outcome is verified and published like any other run's.

A join leaves in the run folder what the histogram, plan and write steps of an ingest leave, so that the
ordinary steps follow it.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, MissingMargin, SmallSide
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES, CatalogRunRequest, WriteRequest
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder

FROZEN = RunFolder.JOIN
"""What the run has frozen of its catalogs, in the run folder."""
COUNTS = "join/counts"
"""The folder of what tasks have counted, in the run folder."""


class FrozenSide(Frozen):
    """A version of a catalog."""

    uri: str
    version: int
    margins: tuple[str, ...] = ()  # of a catalog of others: those that the spec gives
    write_id: str | None = None  # what it is known again by, where another may lie there by now


class ResolveJoinRequest(CatalogRunRequest):
    """Start a run of a join spec."""

    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES, FROZEN)

    full: bool = False  # join all rows anew, also those that the last version of the outcome has as they are


class ResolveJoinReport(Report):
    """What the run froze."""

    step: str = ResolveJoinRequest.step
    catalog: str = ""
    write_id: str = ""
    left_version: int = 0
    right_version: int = 0
    unchanged_version: int | None = None  # not None: there is nothing to do


class ResolveCrossmatchRequest(ResolveJoinRequest):
    """Start a run of a cross-match spec."""

    spec: CrossmatchSpec | None = None  # handed over by a program, in place of what `spec_file` says
    radius_arcsec: float | None = None  # overrides the spec's
    sigmas: float | None = None  # overrides that of the spec's radius, where errors say it
    region: str | None = None  # only left rows in it are matched
    missing_margin: MissingMargin | None = None  # overrides the spec's


class ResolvedRight(Frozen):
    """What the run froze of a further right side."""

    catalog: str
    version: int
    reach_arcsec: float  # the margin that the catalog has to have, at least
    builds_margin: bool  # as it has none, for this run
    without_margin: bool  # as it has none, rows match inside each of its leaves alone
    small_side: SmallSide | None = None  # of which all rows are held, so that no margin is needed
    small_side_because: str = ""  # what decides it: the sizes of both sides


class ResolveCrossmatchReport(ResolveJoinReport):
    """What the run froze."""

    reach_arcsec: float = 0.0  # the margin that the right catalog has to have, at least
    builds_margin: bool = False  # as it has none, for this run
    without_margin: bool = False  # as it has none, rows match inside each of its leaves alone
    small_side: SmallSide | None = None  # of which all rows are held, so that no margin is needed
    small_side_because: str = ""  # what decides it: the sizes of both sides
    further: tuple[ResolvedRight, ...] = ()


class ResolveEquijoinRequest(ResolveJoinRequest):
    """Start a run of an equi-join spec."""

    spec: EquijoinSpec | None = None  # handed over by a program, in place of what `spec_file` says


class ResolveEquijoinReport(ResolveJoinReport):
    """What the run froze."""


class JoinRequest(Request):
    """Join the catalogs of a run, and write the leaves of the outcome."""

    outputs: ClassVar[tuple[str, ...]] = (
        RunFolder.PARTITIONS,
        RunFolder.COVERAGE,
        RunFolder.report_path(WriteRequest.step),
    )

    task_rows: int | None = Field(default=None, ge=1)  # left rows of a task; None: as many as memory allows
    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one task writes


class JoinReport(Report):
    """Rows in and out: the rows of the outcome."""

    left_rows: int = 0  # of the leaves that were opened; right ones too where these say how tasks are cut
    leaves: int = 0
    tasks: int = 0  # that joined
    rows_joined: int = 0  # of the outcome, in this run; the others are as they were in the last version
    leaves_kept: int = 0  # files of the last version, or of those before it, that the new one names again
    leaves_written: int = 0
    base_version: int | None = None  # the last version, if the run went on from it
    full_because: str | None = None  # why all rows were joined, if they were


class CrossmatchRequest(JoinRequest):
    """Match the catalogs of a run, and write the leaves of the outcome."""

    step: ClassVar[str] = "crossmatch"


class CrossmatchReport(JoinReport):
    """Rows in and out: the rows of the outcome."""

    step: str = CrossmatchRequest.step
    rows_near_borders: int | None = None  # left rows that may lack partners; None: every pair was found
    held_rows: int | None = None  # of small sides, which every task holds; None: no side is small


class EquijoinRequest(JoinRequest):
    """Join the catalogs of a run, and write the leaves of the outcome."""

    step: ClassVar[str] = "equijoin"


class EquijoinReport(JoinReport):
    """Rows in and out: the rows of the outcome."""

    step: str = EquijoinRequest.step
