"""The delete step: rows of a published catalog go, as the form of a run has chosen them."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from hipslake.catalog.committing import committed_before
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CorruptFileError, SourceNotFoundError, SpecError
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.delete.deleting import delete_rows
from hipslake.steps.delete.deletion_choice import DeletionChoice
from hipslake.steps.delete.request import DELETIONS, DeleteOutcome, DeleteReport, DeleteRequest
from hipslake.steps.report import Phases
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage

_MOST_BYTES = 256 << 20  # of a file of keys

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
    folder, frozen = request.folder, request.folder.run()
    state, catalog = FrozenState.of(frozen), Storage.at(frozen.catalog_uri)
    committed = committed_before(catalog, attempts_of(folder, DELETIONS, state))
    if committed is not None:
        outcome = _told(committed)
    else:
        choice = DeletionChoice(_keys(request), request.filters, request.region, request.column)
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


def _keys(request: DeleteRequest) -> Any:
    """The keys of the form, or those of its file."""
    if request.keys_file is None:
        return request.keys
    if request.keys is not None:
        raise SpecError("keys and keys_file: give one of them")
    return keys_in(request.keys_file)


def keys_in(uri: str) -> pa.Table:
    """The columns of a file of keys, which is Parquet or CSV.

    Raises
    ------
    SpecError
        The address is none of a file, or it is too large.
    SourceNotFoundError
        There is no such file.
    CorruptFileError
        It is neither Parquet nor CSV.
    """
    try:
        storage, name = Storage.of_file(uri)
        data = storage.read_plain(name, _MOST_BYTES)
    except ValueError as error:
        raise SpecError(f"keys_file: {error}") from None
    except FileNotFoundError:
        raise SourceNotFoundError(f"keys_file: {uri} does not exist") from None
    try:
        source = pa.BufferReader(data)
        return pq.read_table(source) if data[:4] == b"PAR1" else csv.read_csv(source)
    except (pa.ArrowException, OSError, ValueError):  # what they say may quote the file
        raise CorruptFileError(f"keys_file: {uri} is neither Parquet nor CSV with a line of names") from None
