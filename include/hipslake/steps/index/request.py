"""Index: where the values of the spec's index columns lie, of what a run wrote or of the newest version."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.catalog.metadata import Index
from hipslake.specs.base import Frozen
from hipslake.steps.report import CatalogReport, Request
from hipslake.steps.run import RunFolder

FILE_ENTRIES = 1 << 19
TASK_ENTRIES = 4 << 20
"""Entries of an index file, and of a task that writes some, about."""

INDEX_ATTEMPTS = "index/attempts"
"""The folder of the attempts at published versions, in the run folder; each is named by its write id."""


class BuiltIndices(Frozen):
    """What the step leaves for the steps that publish."""

    indices: tuple[Index, ...] = ()


class BuildIndexRequest(Request):
    """Index what the run wrote; or bring the indices of the newest version up to date, and commit them."""

    step: ClassVar[str] = "index"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.INDICES,)

    published: bool = False
    full: bool = False  # build all files anew, also those that hold no entry which has changed
    file_rows: int = Field(default=FILE_ENTRIES, ge=1)  # entries of an index file, about
    task_rows: int = Field(default=TASK_ENTRIES, ge=1)  # entries of a task that writes files, about

    def fingerprint(self) -> str:
        """Return the digest of the request; for a published version, what it reads is the newest one."""
        return self._digest_in_run() if self.published else super().fingerprint()


class BuildIndexReport(CatalogReport):
    """Rows in: the rows that were indexed, summed over the indices. Rows out: the same."""

    step: str = BuildIndexRequest.step
    columns: tuple[str, ...] = ()
    entries: int = 0
    total_rows: int = 0
    files_kept: int = 0  # of the earlier index, as no entry in them has changed
    full_because: dict[str, str] = Field(default_factory=dict)  # per column whose index was built whole: why
