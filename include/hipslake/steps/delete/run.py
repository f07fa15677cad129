"""The delete step: rows of a published catalog go, as the form of a run has chosen them."""

from __future__ import annotations

import logging

from hipslake.catalog.committing import committed_before
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.attempt_places import DELETIONS
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.delete.deleting import delete_rows
from hipslake.steps.delete.request import DeleteOutcome, DeleteReport, DeleteRequest
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.keys_file import keys_of
from hipslake.steps.report import Phases
from hipslake.steps.rows_to_correct import DELETE, RowsToCorrect
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage

log = logging.getLogger(__name__)


def run(request: DeleteRequest) -> DeleteReport:
    """Delete rows of the newest version of a run's catalog.

    Run again, also after it was killed between the commit and its report, it finds the version that one of
    its attempts has committed.

    Raises
    ------
    SpecError, SchemaMismatchError, FilterError, RegionError, InputError, IndexMissingError
        As of `delete_rows`; the catalog is as it was.
    SourceNotFoundError, CorruptFileError
        The file of keys is not there, or cannot be read.
    ConflictError
        If others kept committing.
    """
    phases = Phases()
    folder, frozen = request.folder, FrozenRun.of(request.folder)
    state, catalog = FrozenState.of(frozen), Storage.at(frozen.catalog_uri)
    committed = committed_before(catalog, attempts_of(folder, DELETIONS, state))
    if committed is not None:
        outcome = _told(committed)
    else:
        choice = RowsToCorrect(
            DELETE, keys_of(request.keys, request.keys_file), request.filters, request.region, request.column
        )
        with phases("delete"):
            committed, outcome = delete_rows(
                catalog,
                choice,
                ThisProcess(),
                max_fraction=request.max_fraction,
                force=request.force,
                tries=request.merges,
                task_bytes=request.task_bytes,
                library_version=frozen.library_version,
                began=lambda write_id: note_attempt(folder, DELETIONS, write_id, state),
            )
    with phases("pointers"):
        point_at_newest(catalog)
    stands = outcome.version is not None
    return DeleteReport(
        catalog_uri=catalog.uri(),
        version=outcome.version,
        parent=committed.parent if stands else None,
        rows_in=outcome.total_rows,
        rows_out=outcome.total_rows,
        **outcome.model_dump(exclude={"version"}),
        seconds=phases.seconds,
    )


def _told(committed: CatalogMetadata) -> DeleteOutcome:
    """What an attempt has done that was killed after its commit, as far as its version tells."""
    deletion = next((each for each in committed.deletions or () if each.write_id == committed.write_id), None)
    return DeleteOutcome(
        version=committed.version,
        deleted=deletion.rows if deletion is not None else 0,
        total_rows=committed.total_rows,
    )
