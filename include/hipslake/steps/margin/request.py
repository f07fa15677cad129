"""Margin: the rows within a distance outside of every leaf, as files of their own.

`margin/partitions.parquet` in the run folder lists the files that a run made for the version that it is about
to publish. `margin/attempts/` holds a folder for every attempt at adding margins to a published version.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.engine.model import MAX_BLOCK_BYTES
from hipslake.specs.margin_spec import Distances
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES
from hipslake.steps.report import CatalogReport, Request

MARGIN_FILES = "margin/partitions.parquet"
"""The files of a run's margins, in the run folder."""


class MarginRequest(Request):
    """Make the margins of what a run wrote; or, where distances are given, those of a published version."""

    step: ClassVar[str] = "margin"
    reusable: ClassVar[bool] = False  # writing the leaves again deletes the margins

    arcsec: Distances = ()  # none: those of the spec, for the version that the run is about to publish
    task_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # that a task reads or gathers
    block_bytes: int = Field(default=16 << 20, ge=1, le=MAX_BLOCK_BYTES)  # a block of the exchange
    merges: int = Field(default=10, ge=1)  # how often it starts over after others have changed the catalog

    def fingerprint(self) -> str:
        """Return the digest of the request; margins of a published version do not depend on the sources."""
        return self._digest_in_run() if self.arcsec else super().fingerprint()


class MarginReport(CatalogReport):
    """Rows in and out: the rows of the primary column group, which stay what they are."""

    step: str = MarginRequest.step
    margin_rows: dict[str, int] = Field(default_factory=dict)  # margin -> rows in its files
    files_kept: int = 0  # of earlier versions, named again
    base_version: int | None = None  # whose margins the run went on from
    full_because: str | None = None  # of a join: why margins were made whole, if they were
