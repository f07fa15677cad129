"""The append step: merge a run's rows into the newest version, and commit; start over when others were first.

One job does both, since a merge is only right for the version that it was made with. If others commit while
it works, its change is applied to their version where nobody touched the same leaves; else it merges again.
Every merge writes into a folder of its own, so that nothing which might still be committed is written twice.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange
from hipslake.catalog.checks.co_partitions import co_partition_problems
from hipslake.catalog.co_partitioning import marks_after
from hipslake.catalog.committing import commit_next, committed_before, newest_version, wait_for_others
from hipslake.catalog.evolution import evolved_schema, source_schema, typed_columns
from hipslake.catalog.margin_change import MarginChange
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.partitions import COVERAGE_SCHEMA, PARTITION_SCHEMA, read_sidecar
from hipslake.catalog.schema import check_columns
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, VerificationError, VersionNotFoundError
from hipslake.planning.histogram import CELL_COLUMNS, Histogram
from hipslake.spark.append_state import (
    Attempt,
    regions_of_group,
    store_attempt,
)
from hipslake.spark.append_tasks import ADDED, BESIDE, REMOVED, RESULT_SCHEMA, AppendTask
from hipslake.spark.margin_update import MarginUpdate
from hipslake.spark.margin_work import MarginOrder
from hipslake.spark.scratch import blocks_in_write
from hipslake.sphere.tree import PixelTree
from hipslake.steps.append import ATTEMPTS, ORDINAL, AppendReport, AppendRequest, ClaimedOrdinal
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.draft import changed_groups, describe_increment, draft_increment, marks_of_run
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.margin_draft import changed_margins
from hipslake.steps.plan import rows_and_limit
from hipslake.steps.pointers import point_at_newest
from hipslake.steps.report import Phases
from hipslake.steps.run import FrozenRun, RunFolder, now_utc
from hipslake.steps.shared_files import check_not_shared
from hipslake.steps.tables import read_table
from hipslake.storage import Storage
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.ordinals import claim_ordinal
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import Pin

log = logging.getLogger(__name__)


def run(request: AppendRequest, engine: Engine) -> AppendReport:
    """Add a run's rows to its catalog.

    Run again, also after it was killed between the commit and its report, it finds the version that one of
    its attempts has committed, and only mends the pointers.

    Raises
    ------
    SpecError, SchemaMismatchError
        If the rows do not fit to the catalog.
    InputError
        If a file was added under another interval, or changed after it was listed.
    PlanError
        If a leaf is over its threshold and cannot be split.
    ConflictError
        If others kept changing the same leaves.
    CommitStateUnknownError
        If the store does not say whether the commit stands.
    """
    job = _Job(request, engine)
    committed = job.committed()
    if committed is None and job.has_nothing():
        log.info("No row has come, and nothing is published yet: there is nothing to do.")
        return AppendReport(catalog_uri=job.catalog.uri(), key=job.key)
    merges = 0
    while committed is None:
        if merges == request.merges:
            raise ConflictError(
                f"{job.frozen.catalog_uri}: others changed the same leaves {merges} times while this run "
                "merged its rows; try again later"
            )
        if merges:
            wait_for_others(merges)
        merges += 1
        committed = job.merge_and_commit()
    return job.conclude(committed, merges)


@dataclass(frozen=True)
class _Merged:
    """What a merge has made."""

    folder: RunFolder
    counted: HistogramReport
    base: CatalogMetadata | None  # the version that it was merged with
    attempt: Attempt
    schema: pa.Schema
    changes: dict[str, GroupChange]
    margins: dict[float, MarginChange]

    @cached_property
    def increment(self) -> Increment:
        """The same, whatever version it comes to; its sidecars are written when it is first asked for."""
        attempt = self.attempt
        return describe_increment(
            self.folder, self.counted, self.base, write_id=attempt.write_id, ordinal=attempt.ordinal
        )


class _Job:
    def __init__(self, request: AppendRequest, engine: Engine) -> None:
        self.request = request
        self.folder = request.folder
        self.frozen: FrozenRun = self.folder.run()
        self.inputs = self.folder.inputs()
        self.state = FrozenState.of(self.frozen, self.inputs)
        self.key = self.frozen.start.isoformat()
        self.catalog = Storage.at(self.frozen.catalog_uri)
        self.versions = VersionLog(self.catalog)
        self.engine = engine
        self.phases = Phases()
        self.changes: dict[str, GroupChange] = {}  # of the last merge
        self.counted = self.folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)

    def committed(self) -> CatalogMetadata | None:
        """The version that an earlier attempt has committed."""
        return committed_before(self.catalog, attempts_of(self.folder, ATTEMPTS, self.state))

    def has_nothing(self) -> bool:
        """Whether not even a schema is known for the first version."""
        return self.counted.rows_in == 0 and self.versions.newest() is None

    def merge_and_commit(self) -> CatalogMetadata | None:
        """Merge into the newest version and commit; None if others were first and touched the same leaves."""
        write_id = claim_write(self.catalog, now_utc())
        note_attempt(self.folder, ATTEMPTS, write_id, self.state)
        with (
            Heartbeat(self.catalog, write_id, rest=False) as heartbeat,
            Pin(self.catalog, write_id) as pin,
        ):
            merged = self._merge(newest_version(self.catalog, pin), write_id)
            self._check_marks(merged)
            with self.phases("commit"):
                delete_temporary_files(self.catalog, write_id, 0, recursive=True)  # of killed task attempts
                try:
                    return commit_next(self.catalog, heartbeat, lambda: self._draft(merged))
                except ConflictError as conflict:
                    log.info("Others have committed first: %s", conflict)
        self.catalog.delete_tree(write_id)
        return None

    def conclude(self, metadata: CatalogMetadata, merges: int) -> AppendReport:
        """Mend the pointers, and say what became of the run."""
        with self.phases("pointers"):
            newest = point_at_newest(self.catalog)
        # The folder that the run drew at its start was never written into.
        self.catalog.delete(self.catalog.join(self.frozen.write_id, HEARTBEAT))
        log.info(
            "Version %d of %s is published; the newest is %d.", metadata.version, metadata.catalog, newest
        )
        increment = metadata.increment(self.key)
        if increment is None:
            raise VerificationError(
                f"{self.catalog.uri()}: version {metadata.version} does not hold increment {self.key}"
            )
        return AppendReport(
            rows_in=increment.sources.rows,
            rows_out=increment.rows,
            rows_rejected=increment.rejects.rows,
            version=metadata.version,
            parent=metadata.parent,
            catalog_uri=self.catalog.uri(),
            ordinal=increment.ordinal,
            key=increment.key,
            total_rows=metadata.total_rows,
            replaced_rows=self._replaced_rows(metadata),
            files=sum(change.came.num_rows for change in self.changes.values()),
            removed_files=sum(change.removed.num_rows for change in self.changes.values()),
            bytes=sum(pc.sum(change.came["bytes"]).as_py() or 0 for change in self.changes.values()),
            merges=merges,
            seconds=self.phases.seconds,
        )

    def _replaced_rows(self, metadata: CatalogMetadata) -> int:
        with suppress(VersionNotFoundError):  # vacuumed meanwhile
            if metadata.parent is not None:
                before = CatalogMetadata.from_json(self.versions.read(metadata.parent)).increment(self.key)
                return before.rows if before else 0
        return 0

    def _merge(self, base: CatalogMetadata | None, write_id: str) -> _Merged:
        spec, storage = self.frozen.spec, self.folder.storage
        with self.phases("plan"):
            schema = self._schema(base)
            marks_after(base, marks_of_run(self.frozen, self.counted))  # says at once if objects are others
            if base is not None:
                check_not_shared(base, self.frozen, self.inputs, self.catalog)
            earlier = base.increment(self.key) if base else None
            attempt = Attempt(
                write_id=write_id,
                version=base.version if base else None,
                ordinal=earlier.ordinal if earlier else self._ordinal(base),
                replaces=(earlier.ordinal,) if earlier else (),
                replaced_write=earlier.write_id if earlier else None,
            )
            coverage = self._coverage(earlier)
            cells = Histogram.from_table(read_table(storage, RunFolder.HISTOGRAM, CELL_COLUMNS))
            regions, standing = {}, {}
            for group in check_columns(spec, schema):
                described = base.group(group) if base else None
                leaves = PixelTree(*described.leaf_pixels()) if described else PixelTree([], [])
                weight = self.counted.row_bytes.get(group)  # none where there are no rows
                weights, limit = rows_and_limit(spec, group, cells, weight) if weight else (cells.rows, 0)
                found = regions_of_group(spec, leaves, cells, weights, limit, coverage)
                regions[group] = found
                standing[group] = (
                    described.table_near(self.catalog, found.start, found.stop)
                    if described
                    else PARTITION_SCHEMA.empty_table()
                )
            store_attempt(storage, attempt, schema, regions, standing, coverage)
        self.changes = self._changes(attempt, earlier, list(regions))
        came = PixelTree(cells.order, cells.npix)
        margins = self._margins(base, attempt, schema, came, coverage)
        return _Merged(self.folder, self.counted, base, attempt, schema, self.changes, margins)

    def _margins(
        self,
        base: CatalogMetadata | None,
        attempt: Attempt,
        schema: pa.Schema,
        came: PixelTree,
        went: PixelTree,
    ) -> dict[float, MarginChange]:
        """Let the margins follow: those of the version, or, if there is none, those of the spec."""
        spec = self.frozen.spec
        margins = base.margins if base else ()
        radii = tuple(margin.radius_arcsec for margin in margins) if base else spec.margin.arcsec
        if not radii:
            return {}
        order = MarginOrder(
            write_id=attempt.write_id,
            spec=spec,
            radii=radii,
            ordinal=attempt.ordinal,
            replaces=attempt.replaces,
        )
        update = MarginUpdate(
            catalog=self.catalog,
            order=order,
            schema=check_columns(spec, schema)[order.group],
            group=base.group(order.group) if base else None,
            margins=margins,
            change=self.changes[order.group],
            came=came,
            went=went,
        )
        with self.phases("margins"):
            return update.run(
                self.engine, task_bytes=self.request.target_bytes, block_bytes=self.request.block_bytes
            )

    def _changes(
        self, attempt: Attempt, earlier: Increment | None, groups: list[str]
    ) -> dict[str, GroupChange]:
        """Run the tasks, and check that they took every row, and took out what they had to."""
        engine, counted = self.engine, self.counted
        weights = tuple(sorted((group, weight.memory) for group, weight in counted.row_bytes.items()))
        size = sum(memory for _, memory in weights) * counted.rows_out
        target_bytes = max(1, min(self.request.target_bytes, int(size / (2 * engine.cores)) + 1))
        task = AppendTask(
            self.folder.uri, attempt.write_id, target_bytes, weights, engine.cores, engine.counter()
        )
        rows = len(groups) * counted.rows_out
        with (
            self.phases("merge"),
            engine.progress("append", tasks=task.state.targets, rows=rows, done=task.merged),
            blocks_in_write(self.catalog, attempt.write_id, size) as scratch,
        ):
            files = engine.exchange(
                sources=task.sources,
                mapper=task.route,
                targets=task.state.targets,
                reducer=task.merge,
                result=RESULT_SCHEMA,
                block_bytes=self.request.block_bytes,
                scratch=scratch,
            )
        changes = {}
        for group in groups:
            mine = files.filter(pc.equal(files["group"], group))
            added, beside, removed = (
                mine.filter(pc.equal(mine["change"], change)) for change in (ADDED, BESIDE, REMOVED)
            )
            taken_out = pc.sum(removed["taken_out"]).as_py() or 0
            # A leaf that is split over several regions is told by each of them.
            once = removed.group_by(PARTITION_SCHEMA.names).aggregate([])
            change = GroupChange(
                removed=once.select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA),
                added=added.select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA),
                beside=beside.select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA),
            )
            _check_rows(group, change, counted.rows_out, taken_out, earlier.rows if earlier else 0)
            changes[group] = change
        return changes

    def _check_marks(self, merged: _Merged) -> None:
        """Hold the columns that are marked as co-partitioned against all rows, old and new.

        Where objects place the rows, `marks_after` has made sure that it was the same ones.
        """
        if not self.frozen.spec.co_partitioned:
            return
        draft = self._drafted(merged, merged.base, merged.schema)
        own = tuple(mark for mark in draft.co_partitioned if mark.objects is None)
        draft = draft.model_copy(update={"co_partitioned": own})
        with self.phases("co-partitioning"):
            problems = list(co_partition_problems(self.catalog, draft, self.engine, with_objects=False))
        if problems:
            raise VerificationError("; ".join(map(str, problems)) + "; nothing is published")

    def _draft(self, merged: _Merged) -> CatalogMetadata:
        """The version that comes after the newest one; `ConflictError` if the change does not fit to it."""
        base, schema = newest_version(self.catalog), merged.schema
        if base is not None and base.version != merged.attempt.version:
            self._check_key(base, merged.attempt)
            if self.frozen.spec.co_partitioned:
                raise ConflictError("co-partitioned columns were held against the rows of another version")
            schema = self._schema(base)
            if not schema.equals(merged.schema, check_metadata=True):
                raise ConflictError("another run has changed the columns, which our files do not have so")
            check_not_shared(base, self.frozen, self.inputs, self.catalog)
        return self._drafted(merged, base, schema)

    def _drafted(self, merged: _Merged, base: CatalogMetadata | None, schema: pa.Schema) -> CatalogMetadata:
        write_id = merged.attempt.write_id
        groups = changed_groups(self.frozen, base, merged.changes, schema=schema, write_id=write_id)
        marks = marks_of_run(self.frozen, self.counted)
        margins = changed_margins(
            self.frozen,
            base,
            groups[0],
            merged.margins,
            worked_out_on=merged.attempt.version,
            write_id=write_id,
        )
        return draft_increment(
            self.frozen,
            base,
            groups,
            margins,
            merged.increment,
            marks=marks,
            schema=schema,
            created=now_utc(),
        )

    def _schema(self, base: CatalogMetadata | None) -> pa.Schema:
        """The source schema of the catalog with the increment."""
        spec = self.frozen.spec
        if base is None:
            return typed_columns(spec, self.folder.schema())
        given = self.folder.schema() if self.counted.rows_in else source_schema(base)
        return evolved_schema(base, spec, given)

    def _check_key(self, base: CatalogMetadata, attempt: Attempt) -> None:
        standing = base.increment(self.key)
        # The ordinal alone would not do: who replaces an increment takes over its ordinal.
        if (standing.write_id if standing else None) != attempt.replaced_write:
            raise ConflictError(f"another run has added or replaced increment {self.key}")

    def _ordinal(self, base: CatalogMetadata | None) -> int:
        """The ordinal that this run has claimed, maybe in an earlier attempt."""
        if self.folder.storage.is_file(ORDINAL):
            return self.folder.read(ORDINAL, ClaimedOrdinal).ordinal
        first = max(increment.ordinal for increment in base.increments) + 1 if base else 0
        owner = f"{self.frozen.dag_id} {self.frozen.run_id} {secrets.token_hex(4)}"
        ordinal = claim_ordinal(self.catalog, first, owner)
        self.folder.write(ORDINAL, ClaimedOrdinal(ordinal=ordinal))
        return ordinal

    def _coverage(self, earlier: Increment | None) -> PixelTree:
        """The pixels that rows to be taken out lie in."""
        if earlier is None:
            return PixelTree([], [])
        table = read_sidecar(self.catalog, earlier.coverage, COVERAGE_SCHEMA)
        return PixelTree(table["order"].to_numpy(), table["npix"].to_numpy())


def _check_rows(group: str, change: GroupChange, added: int, taken_out: int, expected_out: int) -> None:
    difference = (pc.sum(change.came["rows"]).as_py() or 0) - (pc.sum(change.removed["rows"]).as_py() or 0)
    if difference != added - expected_out or taken_out != expected_out:
        raise VerificationError(
            f"column group {group!r}: {added} rows were to be added and {expected_out} taken out, but there "
            f"are {difference} more, and {taken_out} were taken out; nothing is published. Did a source file "
            "change in mid-run? Run it again"
        )
