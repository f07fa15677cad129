"""Vacuum of a table: old snapshots go, and what only they needed. One step, a run of its own."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.specs.table import IcebergSpec
from hipslake.specs.vacuum import Retention
from hipslake.steps.old_runs import remove_old_runs_of_dag
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import now_utc
from hipslake.tables.catalogs import find_table, open_catalog
from hipslake.tables.vacuum import vacuum_table


class VacuumTableRequest(Request):
    """Vacuum a table."""

    step: ClassVar[str] = "vacuum_table"
    reads_sources: ClassVar[bool] = False
    reusable: ClassVar[bool] = False  # what there is to do changes by the hour

    warehouse: str
    iceberg: IcebergSpec = IcebergSpec()
    table: str  # namespace.table
    keep_versions: int  # snapshots
    keep_days: float
    dry_run: bool = True
    created: AwareDatetime = Field(default_factory=now_utc)  # ages are counted up to then

    def fingerprint(self) -> str:
        """Return the digest of the request; there is nothing else."""
        return self.digest()


class VacuumTableReport(Report):
    """Files and bytes: what was deleted; in a dry run, what would have been."""

    step: str = VacuumTableRequest.step
    dry_run: bool = True
    table: str = ""
    kept: tuple[int, ...] = ()  # ids of the snapshots
    expired: tuple[int, ...] = ()
    swept: tuple[str, ...] = ()  # what dead writes had left, relative to the table's location
    removed: tuple[str, ...] = ()  # old runs of the DAG, with their folders
    text: str = ""


def run(request: VacuumTableRequest) -> VacuumTableReport:
    """Vacuum the table, if there is one yet.

    Raises
    ------
    SpecError
        If the retention makes no sense.
    ConflictError
        If others kept committing first.
    StorageError
        If the Iceberg catalog or the store do not answer.
    """
    phases = Phases()
    retention = Retention.of(request.keep_versions, request.keep_days)
    with closing(open_catalog(request.iceberg, request.warehouse)) as catalog:
        if find_table(catalog, request.table) is None:
            text = f"There is no table {request.table} yet."
            return VacuumTableReport(dry_run=request.dry_run, table=request.table, text=text)
        with phases("vacuum"):
            outcome = vacuum_table(
                catalog, request.table, retention, now=request.created, dry_run=request.dry_run
            )
    with phases("runs"):
        removed = [] if request.dry_run else remove_old_runs_of_dag(request.run_uri)
    would = "Would drop" if request.dry_run else "Dropped"
    text = (
        f"{would} {len(outcome.expired)} snapshots of {request.table}, and {outcome.files} files of "
        f"{outcome.bytes} bytes. Kept: {len(outcome.kept)} snapshots."
    )
    return VacuumTableReport(
        files=outcome.files,
        bytes=outcome.bytes,
        dry_run=request.dry_run,
        table=request.table,
        kept=outcome.kept,
        expired=outcome.expired,
        swept=outcome.swept,
        removed=tuple(removed),
        text=text,
        seconds=phases.seconds,
    )
