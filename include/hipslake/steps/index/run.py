"""The index step: every value of a column to the file of its range, sorted; bounded memory, one pass or two.

A sample of the column gives the bounds of the ranges. Bounds are pairs of value and `_healpix_29`, so that a
value which stands everywhere fills several files, not the memory of one task.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.committing import commit_next, committed_before, newest_version
from hipslake.catalog.hats.view_files import write_hats_index
from hipslake.catalog.index import index_schema, leaves_digest
from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import CatalogMetadata, Index, IndexFile
from hipslake.engine.model import Engine
from hipslake.errors import CatalogNotFoundError, VerificationError
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.index.request import INDEX_ATTEMPTS, BuildIndexReport, BuildIndexRequest, BuiltIndices
from hipslake.steps.index.tasks import SAMPLE, WRITTEN, IndexTask, SampleTask
from hipslake.steps.ingest.draft import draft_leaves
from hipslake.steps.ingest.request import WriteReport, WriteRequest
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import from_ipc
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)

_TASKS_PER_CORE = 4
_SAMPLES = 200  # per file of the index, over all tasks


def run(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Build the indices that the run's spec asks for.

    Raises
    ------
    CatalogNotFoundError
        If the newest version is to be indexed, and there is none.
    VerificationError
        If the entries do not count the rows that the catalog has.
    """
    return _of_published(request, engine) if request.published else _of_run(request, engine)


def _of_run(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Index what the run wrote and is about to publish."""
    phases, folder = Phases(), request.folder
    frozen = folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    folder.write(RunFolder.INDICES, BuiltIndices())  # of no earlier attempt
    draft = draft_leaves(folder)  # margins may be made at the same time
    with phases("index"), Heartbeat(catalog, frozen.write_id):
        indices = _built(request, catalog, draft, engine, frozen.write_id)
    folder.write(RunFolder.INDICES, BuiltIndices(indices=indices))
    return _report(draft, indices, catalog, phases)


def _of_published(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Index the newest version, and commit it with its indices as the next one."""
    phases, folder = Phases(), request.folder
    frozen = folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    state = FrozenState.of(frozen)
    committed = committed_before(catalog, attempts_of(folder, INDEX_ATTEMPTS, state))
    if committed is None:
        with writing(catalog) as write:
            note_attempt(folder, INDEX_ATTEMPTS, write.id, state)
            base = newest_version(catalog, write.pin)
            if base is None:
                raise CatalogNotFoundError(
                    f"{catalog.uri()}: nothing is published here that could be indexed"
                )
            with phases("index"):
                indices = _built(request, catalog.mounting(base.mounts), base, engine, write.id)
            with phases("commit"):
                delete_temporary_files(catalog, write.id, 0, recursive=True)
                # Rows that others add meanwhile are not covered, and the index says so: it fits all the same.
                committed = commit_next(
                    catalog,
                    write.heartbeat,
                    lambda: _with_indices(newest_version(catalog), indices, write.id),
                )
    with phases("pointers"):
        point_at_newest(catalog)
    folder.write(RunFolder.INDICES, BuiltIndices(indices=committed.indices))
    report = _report(committed, committed.indices, catalog, phases)
    return report.model_copy(update={"version": committed.version})


def _with_indices(
    newest: CatalogMetadata | None, indices: tuple[Index, ...], write_id: str
) -> CatalogMetadata:
    assert newest is not None  # versions do not go away
    built = {index.column for index in indices}
    others = [index for index in newest.indices if index.column not in built]
    return newest.followed_by(write_id, indices=(*others, *indices))


def _report(
    metadata: CatalogMetadata, indices: tuple[Index, ...], catalog: Storage, phases: Phases
) -> BuildIndexReport:
    rows = metadata.total_rows * len(indices)
    return BuildIndexReport(
        rows_in=rows,
        rows_out=rows,
        bytes=sum(index.bytes for index in indices),
        files=sum(len(index.files) for index in indices),
        columns=tuple(index.column for index in indices),
        entries=sum(index.rows for index in indices),
        catalog_uri=catalog.uri(),
        total_rows=metadata.total_rows,
        seconds=phases.seconds,
    )


def _built(
    request: BuildIndexRequest, catalog: Storage, metadata: CatalogMetadata, engine: Engine, write_id: str
) -> tuple[Index, ...]:
    return tuple(
        build_index(catalog, metadata, column, engine, write_id=write_id, file_rows=request.file_rows)
        for column in request.folder.run().spec.index
    )


def build_index(
    storage: Storage,
    metadata: CatalogMetadata,
    column: str,
    engine: Engine,
    *,
    write_id: str,
    file_rows: int = 4 << 20,
) -> Index:
    """Index a column of a version.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Published, or about to be.
    column : str
        Integers or texts; nulls have no entries.
    engine : Engine
    write_id : str
        The write that the files belong to.
    file_rows : int
        Entries of a file, about.
    """
    storage.delete_tree(index_root(write_id, column))
    field = metadata.schema_of(metadata.group_with(column)).field(column)
    parts = tuple(ColumnFiles.of(storage, metadata, column).cut(_TASKS_PER_CORE * engine.cores))
    targets = -(-metadata.total_rows // file_rows)
    schema = index_schema(field)
    bounds = schema.empty_table().select([column, HEALPIX_COLUMN])
    if targets > 1:
        sample = SampleTask(parts, bounds.schema, -(-_SAMPLES * targets // max(1, len(parts))))
        taken = engine.run(sample, tasks=len(parts), result=SAMPLE)["rows"].to_pylist()
        bounds = _bounds(pa.concat_tables([bounds, *map(from_ipc, taken)]), targets)
    task = IndexTask(
        parts, schema, bounds, dict(metadata.groups[0].pixels), storage, write_id, engine.counter()
    )
    with engine.progress("index", rows=metadata.total_rows, done=task.done):
        found = engine.exchange(
            sources=len(parts),
            mapper=task.route,
            targets=bounds.num_rows + 1,
            reducer=task.write,
            result=WRITTEN,
        )
    written = sorted((json.loads(text) for text in found["file"].to_pylist()), key=lambda file: file["path"])
    return _described(storage, metadata, column, written, write_id)


def _described(
    storage: Storage, metadata: CatalogMetadata, column: str, written: list[dict[str, Any]], write_id: str
) -> Index:
    indexed = sum(file.pop("of_rows") for file in written)
    if indexed > metadata.total_rows:
        raise VerificationError(
            f"index of {column!r}: its entries count {indexed} rows, but there are {metadata.total_rows}; "
            "nothing is published. Run Catalog.verify()"
        )
    files = tuple(IndexFile.model_validate(file) for file in written)
    index = Index(
        column=column,
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        files=files,
        writes=metadata.increment_writes,
        leaves=leaves_digest(metadata.groups[0]),
    )
    log.info("Indexed %d rows by %s: %d entries, %d files.", indexed, column, index.rows, len(files))
    if metadata.layout is not Layout.HATS or not files:
        return index
    return index.model_copy(update={"others": write_hats_index(storage, metadata, index, write_id)})


def _bounds(sample: pa.Table, targets: int) -> pa.Table:
    """Where the files of an index begin, but for the first: distinct, ascending."""
    names = sample.column_names
    ordered = sample.sort_by([(name, "ascending") for name in names])
    chosen = np.unique(np.arange(1, targets) * ordered.num_rows // targets)
    taken = ordered.take(pa.array(chosen[chosen < ordered.num_rows], pa.int64()))
    return taken.group_by(names, use_threads=False).aggregate([]).combine_chunks()


def bytes_to_index(request: BuildIndexRequest) -> int:
    """Return how many bytes of leaf files there are to index; that decides whether Spark runs the step."""
    if not request.published:
        return request.folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).bytes
    newest = newest_version(Storage.at(request.folder.run().catalog_uri))
    return newest.total_bytes if newest else 0
