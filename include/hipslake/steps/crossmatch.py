"""Cross-match: two catalogs become a third. The outcome is verified and published like any other run's.

The work is in `hipslake.spark.crossmatch`; here is what it is told and what it says. It leaves in the run
folder what the histogram, plan and write steps of an ingest leave, so that the ordinary steps follow it.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.catalog.catalog import Catalog
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.specs.base import Frozen
from hipslake.specs.crossmatch import CrossmatchSpec
from hipslake.sphere.regions import parse_region
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.write import DEFAULT_TARGET_BYTES, WriteRequest

FROZEN = "crossmatch/frozen.json"
"""What the run has frozen of its two catalogs, in the run folder."""
COUNTS = "crossmatch/counts"
"""The folder of what tasks have counted, in the run folder."""


class FrozenSide(Frozen):
    """A version of a catalog."""

    uri: str
    version: int


class FrozenCrossmatch(Frozen):
    """The match of a run, and the versions that it reads."""

    spec: CrossmatchSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    region: str | None = None  # where left rows are matched; None: everywhere
    shift_arcsec: float  # how far rows of both sides together may move until the epoch of the match

    def open(self) -> Crossmatch:
        """Open both catalogs."""
        sides = [Catalog.open(side.uri, side.version) for side in (self.left, self.right)]
        left, right = ((side.storage, side.metadata) for side in sides)
        return Crossmatch.of(
            left,
            right,
            self.spec.options,
            columns=(self.spec.left.columns, self.spec.right.columns),
            motions=(self.spec.left.motion, self.spec.right.motion),
            shift_arcsec=self.shift_arcsec,
            region=None if self.region is None else parse_region(self.region),
            filters=(self.spec.left.filters, self.spec.right.filters),
        )


class CrossmatchRequest(Request):
    """Match the catalogs of a run, and write the leaves of the outcome."""

    step: ClassVar[str] = "crossmatch"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PARTITIONS, RunFolder.report_path(WriteRequest.step))

    task_rows: int | None = Field(default=None, ge=1)  # left rows of a task; None: as many as memory allows
    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one task writes


class CrossmatchReport(Report):
    """Rows in and out: the rows of the outcome."""

    step: str = CrossmatchRequest.step
    left_rows: int = 0  # of the leaves that were opened
    leaves: int = 0
    tasks: int = 0  # that matched
