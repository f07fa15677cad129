"""Audit: rows on the branch of a table are held to its spec, and published. The request and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hipslake.specs.base import Frozen
from hipslake.steps.report import Report, Request
from hipslake.steps.sink.request import FrozenSink, SinkRequest, origins_of_orders

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin

AUDITED = "audit/audited.json"
"""In the run folder: what the newest attempt has looked at, and found."""


class AuditRequest(Request):
    """Audit the branch of a run's table; what passes becomes main."""

    step: ClassVar[str] = "audit"
    reusable: ClassVar[bool] = False  # others may have committed since
    depends_on: ClassVar[str] = "request"

    def frozen(self) -> FrozenSink:
        """Return what the run froze at its start."""
        return SinkRequest(run_uri=self.run_uri).frozen()


class AuditedCheck(Frozen):
    """One check, and what came of it."""

    check: str  # in words
    ok: bool
    found: str = ""  # in words: what breaks it, with some values


class Audited(Frozen):
    """What was found on a branch."""

    branch: str
    head: int  # the snapshot that was looked at
    base: int | None  # main's, which it was compared with
    sinks: tuple[str, ...]  # keys of what was sunk into it
    rows: int = 0  # of them, that are on the branch now
    checks: tuple[AuditedCheck, ...] = ()
    published: bool = False  # the audit was passed, and main is asked for


class AuditReport(Report):
    """Rows in and out: those of the sinks on the branch that are there now."""

    step: str = AuditRequest.step
    table: str = ""  # namespace.table
    location: str = ""
    branch: str = ""
    snapshot_id: int | None = None  # main's, which has the rows; None: nothing was on the branch
    sinks: tuple[str, ...] = ()
    sinks_count: int = 0
    checks: tuple[AuditedCheck, ...] = ()
    checks_passed: int = 0
    text: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the newest snapshot of the table, if anything was published."""
        from hipslake.steps.committed import table_version

        if self.snapshot_id is None:
            return None
        frozen = AuditRequest(run_uri=run_uri).frozen()
        return table_version(frozen.spec.place, frozen.warehouse, frozen.spec.table)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the catalog or the files that the run took rows from."""
        if self.snapshot_id is None:
            return ()
        return origins_of_orders(SinkRequest(run_uri=run_uri).orders().orders)
