"""Cross-match: the request and the report of the step, and the match that a run has frozen."""

from __future__ import annotations

from typing import ClassVar

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.specs.base import Frozen
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.sphere.regions import parse_region
from hipslake.steps.join.request import FrozenSide, JoinReport, JoinRequest


class FrozenCrossmatch(Frozen):
    """The match of a run, and the versions that it reads."""

    spec: CrossmatchSpec  # with the overrides of the params
    left: FrozenSide
    right: FrozenSide
    region: str | None = None  # where left rows are matched; None: everywhere
    shift_arcsec: float  # how far rows of both sides together may move until the epoch of the match

    def open(self) -> Crossmatch:
        """Open both catalogs."""
        sides = [CatalogReader.open(side.uri, side.version) for side in (self.left, self.right)]
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


class CrossmatchRequest(JoinRequest):
    """Match the catalogs of a run, and write the leaves of the outcome."""

    step: ClassVar[str] = "crossmatch"


class CrossmatchReport(JoinReport):
    """Rows in and out: the rows of the outcome."""

    step: str = CrossmatchRequest.step
