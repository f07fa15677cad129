"""The index step: every value of a column to the file of its range, sorted, in bounded memory.

An index goes on from that of the version before where most of it stays; else it is built whole, in two passes
over the column: one finds where files begin, the other sends every entry to its file. Bounds are pairs of
value and `_healpix_29`, so that a value which stands everywhere fills several files, not the memory of one
task.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.committing import commit_next, committed_before, newest_version
from hipslake.catalog.hats.view_files import write_hats_index
from hipslake.catalog.index import leaves_digest
from hipslake.catalog.index_cuts import entry_hashes, ranks_of
from hipslake.catalog.indexed_leaves import leaves_apart, listed_leaves
from hipslake.catalog.metadata import CatalogMetadata, Index, IndexFile
from hipslake.catalog.partitions import total_of
from hipslake.engine.model import Engine
from hipslake.errors import CatalogNotFoundError, VerificationError
from hipslake.joins.key_codes import plain_keys
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.index.following import (
    CannotFollowError,
    FollowedFiles,
    described_file,
    followed_files,
)
from hipslake.steps.index.index_files import KEY, IndexOrder
from hipslake.steps.index.request import INDEX_ATTEMPTS, BuildIndexReport, BuildIndexRequest, BuiltIndices
from hipslake.steps.index.tasks import CANDIDATES, WRITTEN, CandidateTask, IndexTask, distinct
from hipslake.steps.ingest.draft import draft_leaves
from hipslake.steps.ingest.request import WriteReport, WriteRequest
from hipslake.steps.published import version_gone_on_from
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import from_ipc
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)

_TASKS_PER_CORE = 4
_ANEW = "it was asked for"


class BuiltIndex(NamedTuple):
    """An index, and how it was built.

    Attributes
    ----------
    described : Index
    kept : int
        Its files that an earlier one has.
    full_because : str or None
        Why it was built whole, if it was.
    """

    described: Index
    kept: int
    full_because: str | None


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
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    folder.write(RunFolder.INDICES, BuiltIndices())  # of no earlier attempt
    draft = draft_leaves(folder)  # margins may be made at the same time
    with phases("index"), Heartbeat(catalog, frozen.write_id), ExitStack() as held:
        base = version_gone_on_from(held, catalog, draft.base_version)
        built = _built(request, catalog, draft, base, engine, frozen.write_id)
    folder.write(RunFolder.INDICES, BuiltIndices(indices=tuple(each.described for each in built)))
    return _report(draft, built, catalog, phases)


def _of_published(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Index the newest version, and commit it with its indices as the next one."""
    phases, folder = Phases(), request.folder
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    state = FrozenState.of(frozen)
    built: tuple[BuiltIndex, ...] = ()
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
                built = _built(request, catalog.mounting(base.mounts), base, base, engine, write.id)
            with phases("commit"):
                delete_temporary_files(catalog, write.id, 0, recursive=True)
                # Rows that others change meanwhile it does not know, and says so: it fits all the same.
                committed = commit_next(
                    catalog,
                    write.heartbeat,
                    lambda: _with_indices(newest_version(catalog), built, write.id),
                )
    with phases("pointers"):
        point_at_newest(catalog)
    folder.write(RunFolder.INDICES, BuiltIndices(indices=committed.indices))
    told = built or tuple(BuiltIndex(index, 0, None) for index in committed.indices)
    report = _report(committed, told, catalog, phases)
    return report.model_copy(update={"version": committed.version})


def _with_indices(
    newest: CatalogMetadata | None, built: tuple[BuiltIndex, ...], write_id: str
) -> CatalogMetadata:
    assert newest is not None  # versions do not go away
    indices = tuple(each.described for each in built)
    columns = {index.column for index in indices}
    others = [index for index in newest.indices if index.column not in columns]
    return newest.followed_by(write_id, indices=(*others, *indices))


def _report(
    metadata: CatalogMetadata, built: tuple[BuiltIndex, ...], catalog: Storage, phases: Phases
) -> BuildIndexReport:
    indices = tuple(each.described for each in built)
    rows = metadata.total_rows * len(indices)
    return BuildIndexReport(
        rows_in=rows,
        rows_out=rows,
        bytes=sum(index.bytes for index in indices),
        files=sum(len(index.files) for index in indices),
        columns=tuple(index.column for index in indices),
        entries=sum(index.rows for index in indices),
        files_kept=sum(each.kept for each in built),
        full_because={each.described.column: each.full_because for each in built if each.full_because},
        catalog_uri=catalog.uri(),
        total_rows=metadata.total_rows,
        seconds=phases.seconds,
    )


def _built(
    request: BuildIndexRequest,
    catalog: Storage,
    metadata: CatalogMetadata,
    base: CatalogMetadata | None,
    engine: Engine,
    write_id: str,
) -> tuple[BuiltIndex, ...]:
    spec, found = FrozenRun.of(request.folder).spec, []
    for column in spec.index:
        order = IndexOrder(
            catalog,
            metadata,
            column,
            write_id,
            file_entries=request.file_rows,
            task_entries=request.task_rows,
            unchanged=spec.unchanged,
        )
        last = base.index_of(column) if base is not None and not request.full else None
        why = _ANEW if request.full else "all leaves were written anew" if base is None else None
        found.append(build_index(order, engine, base=last, full_because=why))
    return tuple(found)


def build_index(
    order: IndexOrder, engine: Engine, *, base: Index | None = None, full_because: str | None = None
) -> BuiltIndex:
    """Index a column of a version.

    Parameters
    ----------
    order : IndexOrder
    engine : Engine
    base : Index, optional
        That of an earlier version, to go on from.
    full_because : str, optional
        Why there is none to go on from.

    Raises
    ------
    VerificationError
        The entries count more rows than there are.
    """
    order.storage.delete_tree(order.root)
    try:
        if full_because is not None:
            raise CannotFollowError(full_because)
        followed = followed_files(order, base, engine)
    except CannotFollowError as error:
        full_because = str(error)
        log.info("The index of %s is built whole: %s.", order.column, full_because)
        order.storage.delete_tree(order.root)
        followed = _whole(order, engine)
    kept = [file for file in followed.files if not file.path.startswith(f"{order.write_id}/")]
    files = tuple(in_threads(order.storage, order.placed, followed.files))
    described = _described(order, FollowedFiles(files, followed.values), base)
    return BuiltIndex(described, len(kept), full_because)


def _whole(order: IndexOrder, engine: Engine) -> FollowedFiles:
    """All files of an index, of all leaves."""
    storage, metadata, column = order.storage, order.metadata, order.column
    parts = tuple(ColumnFiles.of(storage, metadata, column).cut(_TASKS_PER_CORE * engine.cores))
    taken = engine.run(CandidateTask(parts, order), tasks=len(parts), result=CANDIDATES)
    task = IndexTask(parts, order, _begins(order, taken["entries"].to_pylist()), engine.counter())
    with engine.progress("index", rows=metadata.total_rows, done=task.done):
        found = engine.exchange(
            sources=len(parts),
            mapper=task.route,
            targets=task.targets,
            reducer=task.write,
            result=WRITTEN,
        )
    told = sorted(
        (json.loads(text) for text in found["file"].to_pylist()),
        key=lambda file: (file["first"], file["pixel"]),
    )
    return FollowedFiles(tuple(map(described_file, told)), sum(fields["values"] for fields in told))


def _begins(order: IndexOrder, found: list[bytes]) -> pa.Table:
    """Key and `_healpix_29` at which each file but the first begins, ascending."""
    schema = pa.schema([(KEY, order.schema.field(0).type), (HEALPIX_COLUMN, pa.int64())])
    candidates = distinct(pa.concat_tables([schema.empty_table(), *map(from_ipc, found)]))
    hashes = entry_hashes(plain_keys(candidates[KEY]), candidates[HEALPIX_COLUMN].to_numpy())
    return candidates.filter(pa.array(order.rule.begins(ranks_of(hashes))))


def _described(order: IndexOrder, made: FollowedFiles, base: Index | None) -> Index:
    metadata, column = order.metadata, order.column
    if made.values > metadata.total_rows:
        raise VerificationError(
            f"index of {column!r}: its entries count {made.values} rows, but there are "
            f"{metadata.total_rows}; nothing is published. Run Catalog.verify()"
        )
    index = Index(
        column=column,
        rows=sum(file.rows for file in made.files),
        bytes=sum(file.bytes for file in made.files),
        files=made.files,
        writes=metadata.increment_writes,
        leaves=leaves_digest(metadata.groups[0]),
        built_of=listed_leaves(
            order.storage,
            metadata,
            column,
            order.write_id,
            file_entries=order.file_entries,
            values=made.values,
        ),
    )
    log.info("Indexed %d rows by %s: %d entries, %d files.", made.values, column, index.rows, len(made.files))
    if metadata.layout is not Layout.HATS or not _lies_in(order.root, made.files):
        return index
    others = write_hats_index(order.storage, metadata, index, order.write_id, older=base)
    return index.model_copy(update={"others": others})


def _lies_in(root: str, files: tuple[IndexFile, ...]) -> bool:
    """Whether there are files, all in a folder."""
    return bool(files) and all(file.path.startswith(f"{root}/") for file in files)


def bytes_to_index(request: BuildIndexRequest) -> int:
    """Return how many bytes of leaf files there are to index; that decides whether Spark runs the step."""
    if not request.published:
        return request.folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).bytes
    run = FrozenRun.of(request.folder)
    catalog = Storage.at(run.catalog_uri)
    newest = newest_version(catalog)
    if newest is None:
        return 0
    return max((_bytes_changed(catalog, newest, column, request) for column in run.spec.index), default=0)


def _bytes_changed(catalog: Storage, newest: CatalogMetadata, column: str, request: BuildIndexRequest) -> int:
    """Bytes of the leaf files that came or went since a column was indexed; of all, if it is to be anew."""
    index = newest.index_of(column)
    if request.full or index is None or index.built_of is None:
        return newest.total_bytes
    changed = sum(total_of(files, "bytes") for files in leaves_apart(catalog, newest, index.built_of))
    return min(changed, newest.total_bytes)
