"""Vacuum a catalog: delete old versions, the files that only they need, and what dead runs left behind."""

from __future__ import annotations

from hipslake.catalog.upkeep.catalog_vacuum import vacuum_catalog
from hipslake.steps.report import Phases
from hipslake.steps.run import catalog_uri
from hipslake.steps.upkeep.old_runs import old_runs
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.steps.upkeep.request import VacuumReport, VacuumRequest
from hipslake.storage.folder import Storage


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
    phases, retention = Phases(), request.retention()
    catalog = Storage.at(catalog_uri(request.warehouse, request.catalog))
    if not request.dry_run:
        with phases("pointers"):
            point_at_newest(catalog, hats_view=True)
    with phases("vacuum"):
        outcome = vacuum_catalog(catalog, retention, now=request.created, dry_run=request.dry_run)
    with phases("runs"):
        folders = old_runs(request.warehouse, request.catalog, request.runs_before)
        request.remove_runs(folders)
    return VacuumReport.of(outcome, folders, phases.seconds, catalog_uri=catalog.uri())
