"""Vacuum a table: delete old snapshots, and the files that only they need. A run of one step."""

from __future__ import annotations

from contextlib import closing

from hipslake.steps.report import Phases
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.steps.upkeep.request import VacuumTableReport, VacuumTableRequest
from hipslake.tables.opening import open_table


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
    with closing(open_table(request.iceberg, request.warehouse, request.table)) as table:
        if table.now() is None:
            text = f"There is no table {request.table} yet."
            return VacuumTableReport(dry_run=request.dry_run, table=request.table, text=text)
        with phases("vacuum"):
            outcome = table.vacuum(retention, now=request.created, dry_run=request.dry_run)
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
