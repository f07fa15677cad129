"""Drain: files that have come since the last run go into a table. The request, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hipslake.specs.base import Frozen
from hipslake.specs.environment import expand
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import FrozenSink

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin

COMPACTION = "compact"
"""In the run folder of a stream: that of the compaction which follows the drain."""


class DrainRequest(Request):
    """Sink all that has come since the last run."""

    step: ClassVar[str] = "drain"
    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # more may have come

    def frozen(self) -> FrozenSink:
        """Return what the run froze at its start."""
        return self.folder.read(RunFolder.RUN, FrozenSink)


class SunkBatch(Frozen):
    """A batch of a stream that a run has sunk, or found sunk."""

    number: int
    snapshot_id: int | None = None
    skipped: bool = False  # an earlier run had committed it, and died before that was noted
    rows: int = 0  # that are in the table now
    files_added: int = 0


class DrainReport(Report):
    """Rows in: of the files that came. Rows out: those that the table has now. Rejected: those whose place
    another row of the same key took. Files and bytes: those that were added.
    """

    step: str = DrainRequest.step
    table: str = ""  # namespace.table
    location: str = ""
    checkpoint: str = ""  # its id
    snapshot_id: int | None = None  # the last one; None: nothing came
    batches: int = 0  # that were committed
    found: int = 0  # batches that an earlier run had committed
    source_files: int = 0
    source_bytes: int = 0
    created: bool = False  # the table
    columns_added: str = ""
    files_removed: int = 0
    delete_files: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    missing_deletes: int = 0
    outdated: int = 0
    rows_rewritten: int = 0
    last: tuple[SunkBatch, ...] = ()  # the last batches
    passed_over: tuple[str, ...] = ()  # the first of what matches the URI and is not read
    passed_over_count: int = 0
    text: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the newest snapshot of the table, if the run has sunk anything."""
        from hipslake.steps.committed import table_version

        if self.snapshot_id is None:
            return None
        frozen = DrainRequest(run_uri=run_uri).frozen()
        return table_version(frozen.spec.place, frozen.warehouse, frozen.spec.table)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the folder that the files came into."""
        from hipslake.steps.committed import Origin, folder_of_pattern

        source = DrainRequest(run_uri=run_uri).frozen().source
        folder = folder_of_pattern(expand(source.uri))
        return (Origin(kind="files", uri=folder, bytes=self.source_bytes, files=self.source_files),)
