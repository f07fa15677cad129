"""The compact step: every leaf with many files becomes one sorted file, and all of it is one commit.

In it, the runs of key records of a catalog in mode upsert are merged too, where there are too many.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.committing import commit_where_it_fits, committed_before, newest_version
from hipslake.catalog.leaf_rows import sorted_rows
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.published_spec import published_spec
from hipslake.catalog.records.records_change import MergedRecords
from hipslake.catalog.records.run_merging import bytes_to_merge, merge_records
from hipslake.catalog.standing import Standing
from hipslake.engine.model import Counter, Engine
from hipslake.errors import ConflictError, VerificationError, VersionNotFoundError
from hipslake.planning.splits import assign_targets
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import starts
from hipslake.steps.attempt_places import COMPACTIONS
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.compact.request import CompactReport, CompactRequest
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.write_tasks import RESULT_SCHEMA, LeafWriter
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.versions.pins import give_up
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)


def run(request: CompactRequest, engine: Engine) -> CompactReport:
    """Compact the newest version of a catalog.

    Run again, also after it was killed between the commit and its report, it finds the version that one of
    its attempts has committed.

    Raises
    ------
    ConflictError
        If others kept changing the same leaves.
    """
    phases = Phases()
    frozen = FrozenRun.of(request.folder)
    catalog = Storage.at(frozen.catalog_uri)
    committed = committed_before(catalog, attempts_of(request.folder, COMPACTIONS, FrozenState.of(frozen)))
    report = CompactReport(catalog_uri=catalog.uri())
    tries = 0
    while committed is None:
        base = newest_version(catalog)
        work = files_to_compact(base, catalog, request.min_files) if base else {}
        if base is None or not (work or bytes_to_merge(base.key_records)):
            log.info("No leaf of %s has %d files.", catalog.uri(), request.min_files)
            return report
        if tries == request.merges:
            raise ConflictError(
                f"{catalog.uri()}: others changed the same leaves {tries} times; try again later"
            )
        if tries:
            wait_for_others(tries)
        tries += 1
        with suppress(VersionNotFoundError):  # overtaken, and vacuumed before it was pinned
            committed, report = _compact(request, engine, base, work, phases)
    with phases("pointers"):
        point_at_newest(catalog)
    return report.model_copy(
        update={
            "version": committed.version,
            "parent": committed.parent,
            "total_rows": committed.total_rows,
            "seconds": phases.seconds,
        }
    )


def _compact(
    request: CompactRequest, engine: Engine, base: CatalogMetadata, work: dict[str, pa.Table], phases: Phases
) -> tuple[CatalogMetadata | None, CompactReport]:
    """Write and commit; no version if others have changed the leaves meanwhile."""
    folder, storage = request.folder, request.folder.storage
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    tables = [table.append_column("group", pa.array([group] * len(table))) for group, table in work.items()]
    rows = sum(pc.sum(table["rows"]).as_py() for table in work.values())
    files = RESULT_SCHEMA.empty_table()
    with writing(catalog) as write:
        note_attempt(folder, COMPACTIONS, write.id, FrozenState.of(frozen))
        write.pin.hold(base.version)
        if tables:
            write_table(storage, f"{COMPACTIONS}/{write.id}/files.parquet", pa.concat_tables(tables))
            storage.write(f"{COMPACTIONS}/{write.id}/base.json", base.to_json())
            task = CompactTask(request.run_uri, write.id, request.task_bytes, engine.counter())
            with phases("merge"), engine.progress("compact", rows=rows, done=task.done):
                files = engine.run(task, tasks=task.tasks, result=RESULT_SCHEMA)
        with phases("key records"):
            records = merge_records(catalog, engine, base, write_id=write.id)
        changes = {}
        for group, removed in work.items():
            added = files.filter(pc.equal(files["group"], group)).select(PARTITION_SCHEMA.names)
            changes[group] = GroupChange(
                removed, added.cast(PARTITION_SCHEMA), PARTITION_SCHEMA.empty_table()
            )
            if pc.sum(added["rows"]).as_py() != pc.sum(removed["rows"]).as_py():
                raise VerificationError(
                    f"column group {group!r}: {pc.sum(removed['rows'])} rows went in and "
                    f"{pc.sum(added['rows'])} came out; nothing is published. Run Catalog.verify()"
                )
        with phases("commit"):
            committed = commit_where_it_fits(
                catalog, write, lambda: _draft(frozen, catalog, changes, records, write.id)
            )
    if committed is None:
        give_up(catalog, write.id)
    return committed, CompactReport(
        rows_in=rows,
        rows_out=rows,
        bytes=pc.sum(files["bytes"]).as_py() or 0,
        files=files.num_rows,
        removed_files=sum(table.num_rows for table in work.values()),
        leaves=sum(len(Standing.of(table).tree) for table in work.values()),
        catalog_uri=catalog.uri(),
    )


def _draft(
    frozen: FrozenRun,
    catalog: Storage,
    changes: dict[str, GroupChange],
    records: MergedRecords,
    write_id: str,
) -> CatalogMetadata:
    """The newest version with other files for the same rows and the same records."""
    newest = newest_version(catalog)
    assert newest is not None  # versions do not go away
    spec = published_spec(newest)
    groups = tuple(
        changed_group(
            group,
            changes[group.name],
            spec=spec,
            name=group.name,
            schema=group.to_arrow(),
            storage=catalog,
            write_id=write_id,
        )
        if group.name in changes
        else group
        for group in newest.groups
    )
    return newest.followed_by(
        write_id,
        library_version=frozen.library_version,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        key_records=records.applied(newest.key_records),
    )


@dataclass(frozen=True)
class CompactTask:
    """Merges the files of the leaves of each task.

    Attributes
    ----------
    run_uri, write_id : str
        The run, and the attempt in it whose leaves are merged.
    task_bytes : int
        Bytes of leaf files that one task reads, about.
    done : Counter
        Rows merged so far.
    """

    run_uri: str
    write_id: str
    task_bytes: int
    done: Counter

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(_load(self.run_uri, self.write_id, self.task_bytes).numbers[-1]) + 1

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Merge the leaves of a task; give the files that were written."""
        work = _load(self.run_uri, self.write_id, self.task_bytes)
        for group, schema in work.schemas.items():
            with LeafWriter(work.catalog, self.write_id, work.spec, group, schema) as writer:
                for (name, leaf), number in zip(work.leaves, work.numbers, strict=True):
                    if number == task and name == group:
                        standing = work.standing[group]
                        rows = sorted_rows(work.catalog, standing.files(leaf), schema, standing.tree[leaf])
                        writer.write(standing.tree[leaf], rows)
                        self.done.add(sum(batch.num_rows for batch in rows))
            yield pa.RecordBatch.from_pylist(writer.files, schema=RESULT_SCHEMA)


@dataclass(frozen=True)
class _Work:
    """The leaves of an attempt, and the task of each."""

    catalog: Storage
    spec: CatalogSpec
    schemas: dict[str, pa.Schema]
    standing: dict[str, Standing]
    leaves: list[tuple[str, int]]  # column group, and the place of the leaf in its tree
    numbers: list[int]


@lru_cache(maxsize=2)
def _load(run_uri: str, write_id: str, task_bytes: int) -> _Work:
    storage = RunFolder(run_uri).storage
    base = CatalogMetadata.from_json(storage.read(f"{COMPACTIONS}/{write_id}/base.json"))
    table = read_table(storage, f"{COMPACTIONS}/{write_id}/files.parquet")
    groups = pc.unique(table["group"]).to_pylist()
    standing = {group: Standing.of(table.filter(pc.equal(table["group"], group))) for group in groups}
    leaves = [(group, leaf) for group in groups for leaf in range(len(standing[group].tree))]
    sizes = [pc.sum(standing[group].files(leaf)["bytes"]).as_py() for group, leaf in leaves]
    return _Work(
        Storage.at(FrozenRun.of(RunFolder(run_uri)).catalog_uri),
        published_spec(base),
        {group: base.schema_of(group) for group in groups},
        standing,
        leaves,
        assign_targets(np.array(sizes), task_bytes).tolist(),
    )


def files_to_compact(base: CatalogMetadata, catalog: Storage, min_files: int) -> dict[str, pa.Table]:
    """Return the files of the leaves that have enough of them, per column group that has such leaves.

    Parameters
    ----------
    base : CatalogMetadata
        The version to look at.
    catalog : Storage
        At the catalog's root.
    min_files : int
    """
    found = {}
    for group in base.groups:
        if group.files - group.leaves < min_files - 1:
            continue
        table = group.table(catalog)
        start = starts(table["order"].to_numpy(), table["npix"].to_numpy())
        _, of_leaf, counts = np.unique(start, return_inverse=True, return_counts=True)
        crowded = table.filter(pa.array(counts[of_leaf] >= min_files))
        if crowded.num_rows:
            found[group.name] = crowded
    return found


def bytes_to_compact(request: CompactRequest) -> int:
    """Return how many bytes of files a compaction reads; that decides whether Spark runs the step."""
    catalog = Storage.at(FrozenRun.of(request.folder).catalog_uri)
    base = newest_version(catalog)
    if base is None:
        return 0
    work = files_to_compact(base, catalog, request.min_files)
    of_records = bytes_to_merge(base.key_records)
    return of_records + sum(pc.sum(table["bytes"]).as_py() for table in work.values())
