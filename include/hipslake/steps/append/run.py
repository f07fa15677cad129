"""The append step: merge a run's rows into the newest version, and commit; start over when others were first.

One job does both, since a merge is only right for the version that it was made with. If others commit while
it works, its change is applied to their version where nobody touched the same leaves; else it merges again.
Every merge writes into a folder of its own, so that nothing which might still be committed is written twice.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange
from hipslake.catalog.checks.co_partition_checks import co_partition_problems
from hipslake.catalog.committing import commit_where_it_fits, committed_before, newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, VerificationError, VersionNotFoundError
from hipslake.sources.held_sources import begin_checks
from hipslake.steps.append.append_run import AppendRun
from hipslake.steps.append.merge import Merged, claimed_early, merge
from hipslake.steps.append.next_version import next_version, version_after
from hipslake.steps.append.request import AppendReport, AppendRequest
from hipslake.steps.attempt_places import APPENDS
from hipslake.steps.attempts import attempts_of, note_attempt
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.stored_behind import done_behind, flush, settled
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together
from hipslake.versions.log import VersionLog
from hipslake.versions.log_reader import FoundVersion
from hipslake.versions.pins import give_up
from hipslake.versions.version_write import writing

_COUNTS = ("inserted", "updated", "deleted", "outdated", "missing_deletes")  # of a night's changes

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
    committed = committed_before(job.catalog, attempts_of(job.run.folder, APPENDS, job.run.state))
    if committed is None and job.run.counted.rows_in == 0 and job.versions.newest() is None:
        log.info("No row has come, and nothing is published yet: there is nothing to do.")
        return AppendReport(catalog_uri=job.catalog.uri(), key=job.key)
    merges = 0
    while committed is None:
        if merges == request.merges:
            raise ConflictError(
                f"{job.run.frozen.catalog_uri}: others changed the same leaves {merges} times while this run "
                "merged its rows; try again later"
            )
        if merges:
            wait_for_others(merges)
        merges += 1
        committed = job.merge_and_commit()
    return job.conclude(committed, merges)


class _Job:
    def __init__(self, request: AppendRequest, engine: Engine) -> None:
        self.run = AppendRun(request, engine)
        self.catalog, self.key = self.run.catalog, self.run.key
        self.versions = VersionLog(self.catalog)
        self.base: CatalogMetadata | None = None  # of the last merge
        self.changes: dict[str, GroupChange] = {}  # likewise
        self._pointed = False  # whether that is seen to

    def merge_and_commit(self) -> CatalogMetadata | None:
        """Merge into the newest version and commit; None if others were first and touched the same leaves."""
        known = known_catalog(self.run.request.run_uri)
        found = known.newest
        flush(self.run.folder.storage)
        ended = done_behind(self.run.request.run_uri, self.catalog, "signs and pointers")
        versions, ahead = (found.number,) if found else (), known.taken_claim()
        with writing(self.catalog, versions=versions, ended=ended, ahead=ahead) as write:
            begin_checks(self.run.inputs.files)
            note = partial(note_attempt, self.run.folder, APPENDS, write.id, self.run.state)
            newest = partial(newest_version, self.catalog, write.pin, found=found)
            early = partial(claimed_early, self.run, found)
            _, base, claimed, claim = together(self.catalog, note, newest, self.run.claimed_ordinal, early)
            if claim is None or base is None or claim.version != base.version:
                claim = None  # a gap in the ordinals does no harm
            merged = merge(self.run, base, write.id, claimed, claim)
            self.base, self.changes = base, merged.changes
            self._check_marks(merged)
            with self.run.phases("commit"):
                settled(self.run.folder.storage)
                draft = _Draft(self.catalog, merged)
                committed = commit_where_it_fits(self.catalog, write, draft, draft.before)
            if committed is not None and not self.catalog.is_local:
                # Signs of the commit and pointers have nothing to do with each other once it stands.
                write.heartbeat.at_end(partial(self._point, committed))
                self._pointed = True
                version = FoundVersion(committed.version, committed.to_json())
                before = found if found and committed.parent == found.number else None
                known.committed(version, before)
                if before is not None:  # the view reads both
                    known.claim_ahead(self.catalog, (before.number, version.number))
        if committed is None:
            give_up(self.catalog, write.id)
            known.forget()
        return committed

    def conclude(self, metadata: CatalogMetadata, merges: int) -> AppendReport:
        """Update the pointers, and report what the run did."""
        if not self._pointed:
            with self.run.phases("pointers"):
                self._point(metadata)
        increment = metadata.increment(self.key, self.catalog)
        if increment is None:
            raise VerificationError(
                f"{self.catalog.uri()}: version {metadata.version} does not hold increment {self.key}"
            )
        changes = increment.changes
        counts = {} if changes is None else {name: getattr(changes, name) for name in _COUNTS}
        return AppendReport(
            rows_in=increment.sources.rows,
            rows_out=increment.rows,
            rows_rejected=increment.rejects.rows,
            rows_superseded=increment.superseded or 0,
            delete_records=0 if changes is None else changes.deletes,
            **counts,
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
            seconds=self.run.phases.seconds,
        )

    def _point(self, metadata: CatalogMetadata) -> None:
        committed = metadata.to_json() if self.changes else None
        newest = point_at_newest(self.catalog, known=metadata.version, committed=committed)
        log.info(
            "Version %d of %s is published; the newest is %d.", metadata.version, metadata.catalog, newest
        )

    def _replaced_rows(self, metadata: CatalogMetadata) -> int:
        with suppress(VersionNotFoundError, FileNotFoundError):  # vacuumed meanwhile
            if metadata.parent is not None:
                before = self.base
                if before is None or before.version != metadata.parent:
                    before = CatalogMetadata.from_json(self.versions.read(metadata.parent))
                replaced = before.increment(self.key, self.catalog)
                return replaced.rows if replaced else 0
        return 0

    def _check_marks(self, merged: Merged) -> None:
        """Hold the columns that are marked as co-partitioned against all rows, old and new.

        Where objects place the rows, `marks_after` has made sure that it was the same ones.
        """
        if not self.run.frozen.spec.co_partitioned:
            return
        draft = version_after(merged.base, merged, merged.schema)
        own = tuple(mark for mark in draft.co_partitioned if mark.objects is None)
        draft = draft.model_copy(update={"co_partitioned": own})
        with self.run.phases("co-partitioning"):
            problems = list(co_partition_problems(self.catalog, draft, self.run.engine, with_objects=False))
        if problems:
            raise VerificationError("; ".join(map(str, problems)) + "; nothing is published")


class _Draft:
    """The next version by a merge; of a store, at first without a look which one is the newest by now."""

    def __init__(self, catalog: Storage, merged: Merged) -> None:
        self._catalog, self._merged = catalog, merged
        self._base = merged.base
        self._looks = catalog.is_local

    def __call__(self) -> CatalogMetadata:
        if self._looks:
            self._base = newest_version(self._catalog, known=self._merged.base)
        self._looks = True
        return next_version(self._merged, self._base)

    def before(self) -> CatalogMetadata | None:
        """The version that the last draft comes after."""
        return self._base
