"""Write: every row to its leaf file of every column group. Runs in Spark.

The work is in `hipslake.steps.ingest.write`; here is what it is told and what it says.

`write/partitions.parquet` in the run folder lists the files, one row each, in curve order per group:
group, order, npix, path (relative to the catalog root), rows, bytes, sha256.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.engine.model import MAX_BLOCK_BYTES
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder

DEFAULT_TARGET_BYTES = 128 << 20


class WriteRequest(Request):
    """Write the planned leaves of a run into its write folder."""

    step: ClassVar[str] = "write"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.PARTITIONS,)

    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one reduce task writes
    block_bytes: int = Field(default=16 << 20, ge=1, le=MAX_BLOCK_BYTES)  # a block of the exchange


class WriteReport(Report):
    """Rows in: every row of the files. Rows out: the rows of one column group, the same in each."""

    step: str = WriteRequest.step
    partitions: dict[str, int] = Field(default_factory=dict)  # column group -> leaf files
    group_bytes: dict[str, int] = Field(default_factory=dict)  # column group -> bytes on disk
    split_again: int = 0  # leaves that came out over a threshold in bytes and were split
    rejected: dict[str, int] = Field(default_factory=dict)  # reason -> rows
    rejects_path: str | None = None  # folder of the rejected rows, relative to the catalog root
    tasks: int = 0  # reduce tasks
