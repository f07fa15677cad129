"""Vacuum a table: delete old snapshots, and the files that only they need. A run of one step."""

from __future__ import annotations

from contextlib import closing

from hipslake.specs.table_place import SunkFormat
from hipslake.steps.report import Phases
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.steps.upkeep.request import VacuumTableReport, VacuumTableRequest
from hipslake.tables.opening import open_table

_NAMED = 5  # orphans that a text names
_MOST_TOLD = 1000


def run(request: VacuumTableRequest) -> VacuumTableReport:
    """Vacuum the table, if there is one yet.

    Raises
    ------
    SpecError
        If the retention makes no sense.
    ConflictError
        If others kept committing first.
    StorageError
        If the catalog or the store do not answer.
    """
    phases = Phases()
    retention = request.retention()
    with closing(open_table(request.place, request.warehouse, request.table)) as table:
        if table.now() is None:
            text = f"There is no table {request.table} yet."
            return VacuumTableReport(dry_run=request.dry_run, table=request.table, text=text)
        with phases("vacuum"):
            outcome = table.vacuum(
                retention,
                now=request.created,
                dry_run=request.dry_run,
                orphan_days=request.orphan_days,
            )
    with phases("runs"):
        removed = [] if request.dry_run else remove_old_runs_of_dag(request.run_uri)
    versions = "versions" if request.format is SunkFormat.DELTA else "snapshots"
    would = "Would drop" if request.dry_run else "Dropped"
    text = (
        f"{would} {len(outcome.expired)} {versions} of {request.table}, and {outcome.files} files of "
        f"{outcome.bytes} bytes. Kept: {len(outcome.kept)} {versions}."
    )
    if request.orphan_days is not None:
        named = ", ".join(outcome.orphans[:_NAMED]) + (", ..." if len(outcome.orphans) > _NAMED else "")
        text = (
            f"{text} {'Would delete' if request.dry_run else 'Deleted'} {len(outcome.orphans)} files of "
            f"{outcome.orphan_bytes} bytes that were never committed and are older than "
            f"{request.orphan_days:g} days" + (f": {named}." if named else ".")
        )
    return VacuumTableReport(
        files=outcome.files,
        bytes=outcome.bytes,
        dry_run=request.dry_run,
        table=request.table,
        kept=outcome.kept,
        expired=outcome.expired,
        swept=outcome.swept,
        orphans=outcome.orphans[:_MOST_TOLD],
        orphan_files=len(outcome.orphans),
        orphan_bytes=outcome.orphan_bytes,
        removed=tuple(removed),
        text=text,
        seconds=phases.seconds,
    )
