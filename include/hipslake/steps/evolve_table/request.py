"""Evolve a table: its columns, types, partitions and sort order become what its spec and its rows ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import AwareDatetime, Field

from hipslake.steps.report import Report, Request
from hipslake.steps.run import Window, now_utc

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin


class EvolveTableRequest(Request):
    """Change a table, or say what would be changed."""

    step: ClassVar[str] = "evolve_table"
    reusable: ClassVar[bool] = False  # spec and table may have changed
    depends_on: ClassVar[str] = "request"

    warehouse: str
    spec_file: str
    window: Window = Window()  # whose files say the columns, where the URI names the interval
    dry_run: bool = True
    created: AwareDatetime = Field(default_factory=now_utc)


class EvolveTableReport(Report):
    """What was changed; in a dry run, what would be."""

    step: str = EvolveTableRequest.step
    dry_run: bool = True
    table: str = ""  # namespace.table
    changes: tuple[str, ...] = ()  # in words
    changes_count: int = 0
    location: str = ""
    snapshot_id: int | None = None  # the newest, whose files are read by the new columns
    rows_known: bool = True  # whether the columns of the source were looked at
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders
    text: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return nothing: the rows are what they were."""
        return None

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the table itself."""
        return ()
