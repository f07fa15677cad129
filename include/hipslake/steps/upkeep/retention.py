"""What the vacuum of a catalog and the cleanup of a cube have in common: what each is told, and tells.

Either is a run of its own in one step, so its request holds all that it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

from pydantic import AwareDatetime, Field

from hipslake.catalog.upkeep.catalog_vacuum import Removed, VacuumOutcome
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.report import Report, Request
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import resting_seconds


class RetentionRequest(Request):
    """Take old versions away."""

    reads_sources: ClassVar[bool] = False
    reusable: ClassVar[bool] = False  # what there is to do changes by the hour

    warehouse: str
    keep_versions: int
    keep_days: float
    dry_run: bool = True
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))  # ages are counted up to then

    def fingerprint(self) -> str:
        """Return the digest of the request; there is nothing else."""
        return self.digest()

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
        return report.model_copy(update={"text": _told(report)})


def _told(report: RetentionReport) -> str:
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
