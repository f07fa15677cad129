"""Index: where the values of the spec's index columns lie, of what a run wrote or of the newest version."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.catalog.metadata import Index
from hipslake.specs.base import Frozen
from hipslake.steps.report import CatalogReport, Request
from hipslake.steps.run import RunFolder

INDEX_ATTEMPTS = "index/attempts"
"""The folder of the attempts at published versions, in the run folder; each is named by its write id."""


class BuiltIndices(Frozen):
    """What the step leaves for the steps that publish."""

    indices: tuple[Index, ...] = ()


class BuildIndexRequest(Request):
    """Build the indices of what the run wrote; or build those of the newest version anew, and commit them."""

    step: ClassVar[str] = "index"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.INDICES,)

    published: bool = False
    file_rows: int = Field(default=4 << 20, ge=1)  # entries of an index file, about

    def fingerprint(self) -> str:
        """Return the digest of the request; for a published version, what it reads is the newest one."""
        return self._digest_in_run() if self.published else super().fingerprint()


class BuildIndexReport(CatalogReport):
    """Rows in: the rows that were indexed, summed over the indices. Rows out: the same."""

    step: str = BuildIndexRequest.step
    columns: tuple[str, ...] = ()
    entries: int = 0
    total_rows: int = 0
