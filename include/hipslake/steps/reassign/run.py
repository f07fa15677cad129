"""The reassign step: rows of a published catalog get other objects, as the form of a run has chosen them."""

from __future__ import annotations

from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.keys_file import keys_of
from hipslake.steps.reassign.reassigning import (
    committed_reassignment,
    forget_changed_rows,
    reassign_rows,
)
from hipslake.steps.reassign.request import ReassignReport, ReassignRequest
from hipslake.steps.report import Phases
from hipslake.steps.rows_to_correct import REASSIGNMENT, RowsToCorrect
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage


def run(request: ReassignRequest) -> ReassignReport:
    """Reassign rows of the newest version of a run's catalog.

    Run again, also after it was killed between the commit and its report, it finds the version that one of
    its attempts has committed.

    Raises
    ------
    SpecError, SchemaMismatchError, FilterError, RegionError, InputError, VerificationError
        As of `reassign_rows`; the catalog is as it was.
    SourceNotFoundError, CorruptFileError
        The file of keys is not there, or cannot be read.
    ConflictError
        If others kept committing.
    """
    phases, frozen = Phases(), FrozenRun.of(request.folder)
    catalog = Storage.at(frozen.catalog_uri)
    done = committed_reassignment(frozen)
    if done is None:
        keys = keys_of(request.keys, request.keys_file)
        choice = RowsToCorrect(REASSIGNMENT, keys, request.filters, request.region)
        with phases("reassign"):
            done = reassign_rows(
                frozen,
                choice,
                to=request.to,
                column=request.column,
                max_fraction=request.max_fraction,
                force=request.force,
                tries=request.merges,
            )
    forget_changed_rows(frozen)
    committed, outcome = done
    with phases("pointers"):
        point_at_newest(catalog)
    return ReassignReport(
        catalog_uri=catalog.uri(),
        parent=committed.parent if outcome.version is not None else None,
        rows_in=outcome.total_rows,
        rows_out=outcome.total_rows,
        **outcome.model_dump(),
        seconds=phases.seconds,
    )
