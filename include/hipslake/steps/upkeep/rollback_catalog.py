"""Rollback: an older version of a run's catalog becomes the newest one again, by a commit of its own."""

from __future__ import annotations

from hipslake.catalog.upkeep.restored_version import roll_back
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import Phases
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.steps.upkeep.request import RollbackReport, RollbackRequest
from hipslake.storage.folder import Storage


def run(request: RollbackRequest) -> RollbackReport:
    """Commit the content of a version once more, and mend the pointers.

    Run again, also after it was killed between the commit and its report, it finds the version that its write
    id stands for.

    Raises
    ------
    VersionNotFoundError, SpecError
        If the version cannot be rolled back to; the catalog is as it was.
    ConflictError
        If others kept committing first.
    """
    phases = Phases()
    frozen = FrozenRun.of(request.folder)
    catalog = Storage.at(frozen.catalog_uri)
    with phases("commit"):
        metadata = roll_back(catalog, request.version, write_id=frozen.write_id)
    with phases("pointers"):
        point_at_newest(catalog)
    return RollbackReport(
        rows_in=metadata.total_rows,
        rows_out=metadata.total_rows,
        bytes=metadata.total_bytes,
        files=sum(group.files for group in metadata.groups),
        version=metadata.version,
        parent=metadata.parent,
        restored=metadata.restored,
        catalog_uri=catalog.uri(),
        seconds=phases.seconds,
    )
