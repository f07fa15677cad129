"""Vacuum: old versions of a catalog go, what only they needed, and what dead runs have left.

A run of its own in one step, so its request holds all that it depends on.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.catalog.upkeep.leftovers import Removed
from hipslake.catalog.upkeep.vacuum import vacuum_catalog
from hipslake.specs.vacuum import Retention
from hipslake.steps.old_runs import old_runs
from hipslake.steps.pointers import point_at_newest
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import catalog_uri, now_utc
from hipslake.storage import Storage
from hipslake.versions.heartbeat import resting_seconds

log = logging.getLogger(__name__)


class VacuumRequest(Request):
    """Vacuum a catalog."""

    step: ClassVar[str] = "vacuum"
    reusable: ClassVar[bool] = False  # what there is to do changes by the hour

    warehouse: str
    catalog: str
    keep_versions: int
    keep_days: float
    dry_run: bool = True
    created: AwareDatetime = Field(default_factory=now_utc)  # ages are counted up to then

    def fingerprint(self) -> str:
        """Return the digest of the request; there is nothing else."""
        return self.digest()


class VacuumReport(Report):
    """Files and bytes: what was deleted; in a dry run, what would have been."""

    step: str = VacuumRequest.step
    dry_run: bool = True
    catalog_uri: str = ""
    kept: tuple[int, ...] = ()
    vacuumed: tuple[int, ...] = ()  # numbers of the versions
    removed: tuple[Removed, ...] = ()
    run_folders: tuple[str, ...] = ()  # relative to the warehouse
    postponed: str = ""  # why files of vacuumed versions are left for the next time
    text: str = ""


def run(request: VacuumRequest) -> VacuumReport:
    """Mend the pointers, and vacuum.

    Raises
    ------
    SpecError
        If the retention makes no sense.
    CatalogNotFoundError
        If nothing is published.
    CatalogFormatError
        If it is not known what a version needs, as it cannot be read; nothing is deleted.
    """
    phases = Phases()
    retention = Retention.of(request.keep_versions, request.keep_days)
    catalog = Storage.at(catalog_uri(request.warehouse, request.catalog))
    if not request.dry_run:
        with phases("pointers"):
            point_at_newest(catalog)
    with phases("vacuum"):
        outcome = vacuum_catalog(catalog, retention, now=request.created, dry_run=request.dry_run)
    with phases("runs"):
        folders = old_runs(request.warehouse, request.catalog, _runs_before(request.created, retention))
        if not request.dry_run:
            for folder in folders:
                Storage.at(request.warehouse).delete_tree(folder)
    report = VacuumReport(
        files=outcome.files,
        bytes=outcome.bytes,
        dry_run=request.dry_run,
        catalog_uri=catalog.uri(),
        kept=outcome.kept,
        vacuumed=outcome.vacuumed,
        removed=outcome.removed,
        run_folders=tuple(folders),
        postponed=outcome.postponed,
        seconds=phases.seconds,
    )
    return report.model_copy(update={"text": _told(report)})


def _runs_before(now: datetime, retention: Retention) -> datetime:
    """Runs that began later may still wait for their next step."""
    return now - max(timedelta(days=retention.keep_days), timedelta(seconds=resting_seconds()))


def _told(report: VacuumReport) -> str:
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
