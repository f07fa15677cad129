"""Append: the rows of a run become one increment of the newest version, merged and committed by one job.

`append/` in the run folder holds what the attempts at it leave: the ordinal that the run has claimed, and for
every attempt a folder named by its write id, which exists before anything can be committed under that id
(`hipslake.steps.attempts`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.engine.model import MAX_BLOCK_BYTES
from hipslake.specs.base import Frozen
from hipslake.steps.attempt_places import APPENDS
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES, IngestedReport
from hipslake.steps.report import Request
from hipslake.steps.run import RunFolder

ORDINAL = "append/ordinal.json"
"""The ordinal that the run has claimed, in the run folder."""


def attempt_path(write_id: str, name: str) -> str:
    """A file of an attempt in the run folder."""
    return f"{APPENDS}/{write_id}/{name}"


class ClaimedOrdinal(Frozen):
    """The ordinal of a run's increment."""

    ordinal: int


class AppendRequest(Request):
    """Add the rows of a counted run to its catalog, as an increment or in the place of an earlier one."""

    step: ClassVar[str] = "append"
    reads: ClassVar[tuple[str, ...]] = (
        RunFolder.RUN,
        RunFolder.FILES,
        RunFolder.report_path("histogram"),
        RunFolder.SCHEMA,
        RunFolder.SPLITS,
        RunFolder.HISTOGRAM,
        RunFolder.PER_ORDER,
    )

    target_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # what one reduce task gathers
    block_bytes: int = Field(default=16 << 20, ge=1, le=MAX_BLOCK_BYTES)  # a block of the exchange
    # Tries, while others change the same leaves. Many: one whose merge takes longer than those of the others
    # loses to most of them, and has to outlast them.
    merges: int = Field(default=30, ge=1)


class AppendReport(IngestedReport):
    """Rows in: every row of the run's files. Rows out: those of the increment, the same in each group.

    In mode upsert some of the latter may be superseded by newer ones from the beginning. The last five fields
    are of that mode, and compare with the catalog as it is without the increment.
    """

    step: str = AppendRequest.step
    ordinal: int = 0
    key: str | None = None
    total_rows: int = 0  # of the version
    replaced_rows: int = 0  # of the increment that had the key before
    removed_files: int = 0  # leaf files that the version before had; `files` says how many came
    merges: int = 0  # how often the rows were merged until the commit stood
    inserted: int = 0  # keys that have a row now, and had none
    updated: int = 0  # keys that have another row now
    deleted: int = 0  # keys that have no row any more
    outdated: int = 0  # records that are older than others of their key
    missing_deletes: int = 0  # records that delete what is not there
