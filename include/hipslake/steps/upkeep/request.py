"""Requests and reports of the steps on what is published: verify, repair, view, rollback, vacuum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import AwareDatetime, Field

from hipslake.catalog.checks.findings import Problem
from hipslake.catalog.upkeep.catalog_vacuum import Removed, VacuumOutcome
from hipslake.specs.table_place import PlacedTable
from hipslake.specs.vacuum_spec import MAX_KEEP_DAYS, MIN_ORPHAN_DAYS, Retention
from hipslake.steps.ingest.request import DRAFTED_FROM, CatalogRunRequest, ResolveReport
from hipslake.steps.report import CatalogReport, Report, Request
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import resting_seconds

if TYPE_CHECKING:
    from hipslake.steps.committed import Origin


class ResolvePublishedReport(ResolveReport):
    """What the run froze, and what earlier runs had left behind."""


class RetentionRequest(Request):
    """Take old versions away."""

    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # what there is to do changes by the hour

    warehouse: str
    keep_versions: int
    keep_days: float
    dry_run: bool = True
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))  # ages are counted up to then

    def retention(self) -> Retention:
        """Return what is kept; raises `SpecError` if that makes no sense."""
        return Retention.of(self.keep_versions, self.keep_days)

    @property
    def runs_before(self) -> datetime:
        """Runs that began later may still wait for their next step."""
        return self.created - max(timedelta(days=self.keep_days), timedelta(seconds=resting_seconds()))

    def remove_runs(self, folders: Sequence[str]) -> None:
        """Delete run folders, named relative to the warehouse, unless the run is a dry one."""
        if not self.dry_run:
            for folder in folders:
                Storage.at(self.warehouse).delete_tree(folder)


class RetentionReport(Report):
    """Files and bytes: what was deleted; in a dry run, what would have been."""

    dry_run: bool = True
    kept: tuple[int, ...] = ()
    vacuumed: tuple[int, ...] = ()  # numbers of the versions
    removed: tuple[Removed, ...] = ()
    run_folders: tuple[str, ...] = ()  # relative to the warehouse
    postponed: str = ""  # why files of vacuumed versions are left for the next time
    text: str = ""

    @classmethod
    def of(
        cls, outcome: VacuumOutcome, run_folders: Sequence[str], seconds: Mapping[str, float], **place: str
    ) -> Self:
        """Return the report of what was done; `place` is the field that says to what."""
        report = cls.model_validate(
            {
                **{name: getattr(outcome, name) for name in ("files", "bytes", *VacuumOutcome.model_fields)},
                "run_folders": tuple(run_folders),
                "seconds": dict(seconds),
                **place,
            }
        )
        return report.model_copy(update={"text": _text(report)})


def _text(report: RetentionReport) -> str:
    """The report in words."""
    numbers = {name: ", ".join(map(str, getattr(report, name))) or "none" for name in ("vacuumed", "kept")}
    lines = [
        f"{'Would vacuum' if report.dry_run else 'Vacuumed'} versions: {numbers['vacuumed']}. "
        f"Kept: {numbers['kept']}.",
        f"{'Would delete' if report.dry_run else 'Deleted'} {report.files} files of {report.bytes} bytes, "
        f"and {len(report.run_folders)} run folders.",
    ]
    lines += [
        f"  {each.path}: {each.files} files, {each.bytes} bytes"
        + (", all of it" if each.whole else ", the rest is needed")
        for each in report.removed
    ]
    lines += [f"  {folder}" for folder in report.run_folders]
    if report.postponed:
        lines.append(f"Files of vacuumed versions are left for the next time: {report.postponed}.")
    return "\n".join(lines)


class VacuumRequest(RetentionRequest):
    """Vacuum a catalog."""

    step: ClassVar[str] = "vacuum"

    catalog: str


class VacuumReport(RetentionReport):
    """What a vacuum did; in a dry run, what it would have done."""

    step: str = VacuumRequest.step
    catalog_uri: str = ""


class VacuumTableRequest(RetentionRequest, PlacedTable):
    """Vacuum a table; its versions are the snapshots."""

    step: ClassVar[str] = "vacuum_table"

    table: str  # namespace.table
    orphan_days: float | None = Field(default=None, ge=MIN_ORPHAN_DAYS, le=MAX_KEEP_DAYS)


class VacuumTableReport(Report):
    """Files and bytes: what was deleted; in a dry run, what would have been."""

    step: str = VacuumTableRequest.step
    dry_run: bool = True
    table: str = ""
    kept: tuple[int, ...] = ()  # ids of the snapshots
    expired: tuple[int, ...] = ()
    swept: tuple[str, ...] = ()  # what dead writes had left, relative to the table's location
    orphans: tuple[str, ...] = ()  # the first of the files that were never committed
    orphan_files: int = 0
    orphan_bytes: int = 0
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders
    text: str = ""


class ResolvePublishedRequest(CatalogRunRequest):
    """Start a run on what a catalog has published, whatever makes it."""

    spec_file: str = ""  # it is none of a file: the newest version says its spec
    catalog: str


class RollbackRequest(Request):
    """Bring an older version back."""

    step: ClassVar[str] = "rollback"
    depends_on: ClassVar[str] = "run"

    version: int = Field(description="the version to bring back")


class RollbackReport(CatalogReport):
    """Rows in and out: the rows of the version."""

    step: str = RollbackRequest.step
    restored: int | None = None

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the version that was brought back."""
        from hipslake.steps.committed import Origin

        return (Origin(kind="catalog", uri=self.catalog_uri, version=str(self.restored)),)


class VerifyRequest(Request):
    """Verify what the run wrote; or, where a catalog is given, a published version of it."""

    step: ClassVar[str] = "verify"
    reads: ClassVar[tuple[str, ...]] = DRAFTED_FROM
    reusable: ClassVar[bool] = False  # files can be damaged after they were verified

    catalog_uri: str | None = None
    version: int | None = None  # None: the newest
    all_versions: bool = False  # of the published catalog, and its log

    def fingerprint(self) -> str:
        """Return the run's fingerprint, or, for a published version, that of the request itself."""
        return super().fingerprint() if self.catalog_uri is None else self.digest()


class VerifyReport(Report):
    """Rows in: the rows that the metadata promises. Rows out: the rows found."""

    step: str = VerifyRequest.step
    version: int | None = None  # None: a run that is not published yet
    versions: tuple[int, ...] = ()  # all that were looked at
    catalog_uri: str = ""


class RepairRequest(Request):
    """Mend what can be derived of a catalog."""

    step: ClassVar[str] = "repair"
    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # what there is to do changes by the hour

    warehouse: str
    catalog: str
    dry_run: bool = True


class RepairReport(Report):
    """What a repair did; files: how many it wrote anew, or would."""

    step: str = RepairRequest.step
    dry_run: bool = True
    mended: tuple[Problem, ...] = ()
    left: tuple[Problem, ...] = ()
    problems_left: int = 0
    catalog_uri: str = ""
    text: str = ""


class HatsViewRequest(Request):
    """Show the newest version of a run's catalog to readers that go by folders."""

    step: ClassVar[str] = "view"
    reusable: ClassVar[bool] = False  # another run may have published since
    depends_on: ClassVar[str] = "request"
    reads: ClassVar[tuple[str, ...]] = (RunFolder.RUN,)


class HatsViewReport(Report):
    """The version that such readers now open; None: none has a tree."""

    step: str = HatsViewRequest.step
    version: int | None = None
    catalog_uri: str = ""
    linked: int = 0  # files of older writes that got a name in the tree
    copied: int = 0  # those of them that had to be copied
