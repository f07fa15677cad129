"""Compact: leaves that have gathered many files get one sorted file each; the content stays as it is."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.steps.report import CatalogReport, Request


class CompactRequest(Request):
    """Compact the newest version of a run's catalog."""

    step: ClassVar[str] = "compact"
    depends_on: ClassVar[str] = "run"  # what there is to do follows from the newest version

    min_files: int = Field(default=2, ge=2)  # leaves with fewer files stay as they are
    task_bytes: int = Field(default=128 << 20, ge=1)  # of leaf files that one task reads
    merges: int = Field(default=30, ge=1)  # tries, while others change the same leaves; as for an append


class CompactReport(CatalogReport):
    """Rows in and out: the rows of the leaves that were compacted, summed over the column groups."""

    step: str = CompactRequest.step
    total_rows: int = 0  # of the version
    leaves: int = 0  # that were compacted
    removed_files: int = 0
