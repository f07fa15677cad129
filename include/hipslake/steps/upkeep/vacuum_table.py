"""Vacuum of a table: old snapshots go, and what only they needed. One step, a run of its own."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar

from hipslake.specs.table_spec import IcebergSpec
from hipslake.steps.report import Phases, Report
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.steps.upkeep.retention import RetentionRequest
from hipslake.tables.catalogs import find_table, open_catalog
from hipslake.tables.vacuum import vacuum_table


class VacuumTableRequest(RetentionRequest):
    """Vacuum a table; its versions are the snapshots."""

    step: ClassVar[str] = "vacuum_table"

    iceberg: IcebergSpec = IcebergSpec()
    table: str  # namespace.table


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
    retention = request.retention()
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
