"""Verification of whole versions, in tasks of an engine: every file, and what the files must be together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from hipslake.catalog.checks.co_partition_checks import co_partition_problems
from hipslake.catalog.checks.findings import (
    ExpectedTotals,
    LeafFindings,
    MarginFindings,
    Problem,
    SeenFiles,
    VerificationReport,
)
from hipslake.catalog.checks.index_checks import index_problems
from hipslake.catalog.checks.leaf_checks import HELD_BYTES, LeafRules, fetched, verify_partition
from hipslake.catalog.checks.leaf_lists import LeafList, tasks_for
from hipslake.catalog.checks.log_checks import WholeLog, read_whole_log
from hipslake.catalog.checks.margin_checks import MarginChecks
from hipslake.catalog.checks.record_checks import record_problems
from hipslake.catalog.checks.record_file_checks import record_paths
from hipslake.catalog.checks.row_comparison import compare_rows
from hipslake.catalog.checks.version_checks import Verification
from hipslake.catalog.checks.view_checks import hats_index_problems
from hipslake.catalog.foreign.foreign_verification import verify_foreign_leaf
from hipslake.catalog.metadata import CatalogMetadata, Partition
from hipslake.engine.model import Counter, Engine, Task
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.base import Frozen
from hipslake.sphere.pixels import Pixel
from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import RequestPool

log = logging.getLogger(__name__)

_RESULT = pa.schema([("leaf", pa.int64()), ("finding", pa.string())])
Phases = Callable[[str], AbstractContextManager[None]]
"""Times the block under a name."""
_Found = TypeVar("_Found", bound=Frozen)


def verify_catalog(
    storage: Storage,
    metadata: CatalogMetadata,
    engine: Engine | None = None,
    *,
    expected: ExpectedTotals | None = None,
    seen: SeenFiles | None = None,
    scratch: Storage | None = None,
    phases: Phases = lambda name: nullcontext(),
) -> VerificationReport:
    """Verify the files of a version, published or about to be.

    Looks at sizes, checksums, footers, schemas, row counts, thresholds, every value of every column, the
    order of the rows, their pixels, `_healpix_29` against the position columns, the leaves together, the
    totals, the rows of the column groups against each other, co-partitioned columns, indices, key records
    and the rows by them, sidecars, HATS files, and files that nobody names. Where all that is right, every
    margin is made once more from the leaves, and held against its files.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    engine : Engine, optional
        Runs the tasks, which hold about one row group each; by default threads of this process, one per core.
    expected : ExpectedTotals, optional
        What the run's reports say was read; the totals are held against it.
    seen : SeenFiles, optional
        Takes what is looked at, for other versions that name the same files.
    scratch : Storage, optional
        A folder for the lists of leaves, if the engine runs tasks in other processes.
    phases : callable, optional
        Times the parts of the work by name, as `hipslake.steps.report.Phases`.

    Returns
    -------
    VerificationReport
        All problems, not only the first; the same whatever the engine.

    Raises
    ------
    StorageError
        The store did not answer.
    """
    engine, storage = engine or ThisProcess(), storage.mounting(metadata.mounts)
    verification = Verification(storage, metadata, expected, seen)
    with phases("verify"):
        _check_leaves(verification, storage, engine, scratch, remember=seen is not None)
    if groups := verification.numbered_groups:
        with phases("rows"):
            leaves = LeafList.of(verification.whole_leaves(groups), verification.bytes, engine, scratch)
            found = compare_rows(storage, leaves, groups, verification.numbering, engine)
            leaves.delete()
            verification.add_rows(found, groups)
    if verification.margins_can_be_checked:
        with phases("margins"):
            before = None if seen is None else seen.margins_of
            _check_margins(verification, storage, metadata, engine, before)
    with phases("co-partitioning"):
        with_objects = expected is not None
        verification.add_problems(co_partition_problems(storage, metadata, engine, with_objects=with_objects))
    with phases("indices"):
        whole = verification.leaves_can_be_read
        verification.add_problems(index_problems(storage, metadata, engine, against_rows=whole))
    if metadata.key_records is not None:
        with phases("key records"):
            verification.add_problems(record_problems(storage, metadata, engine))
    if seen is not None:
        seen.others |= _paths_beside(storage, metadata)
    return verification.report()


def problems_of_adopted(storage: Storage, metadata: CatalogMetadata, engine: Engine) -> list[Problem]:
    """What is wrong with a version that adopts a catalog of others, by all but its leaves, which stay unread.

    Of leaves, only those are read that margins are made of.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    engine : Engine
    """
    storage = storage.mounting(metadata.mounts)
    verification = Verification(storage, metadata)
    if verification.margins_can_be_checked:
        _check_margins(verification, storage, metadata, engine)
    return [*verification.found, *index_problems(storage, metadata, engine)]


def verify_log(
    storage: Storage,
    newest: VerificationReport,
    seen: SeenFiles,
    engine: Engine | None = None,
    *,
    scratch: Storage | None = None,
) -> VerificationReport:
    """Verify the whole log of versions, and all versions that can be opened but the one looked at before.

    Of each: whether its metadata agrees with itself, its sidecars, its view, and every file that no version
    looked at so far has named, with all its rows. Versions whose own file was changed are not followed. What
    is worked out from rows once more for the newest version (its margins, marks, entries of indices, and
    which rows stand twice) is not for these: their files are, byte by byte, those that were verified before
    they were published.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    newest : VerificationReport
        Of the version that was looked at before.
    seen : SeenFiles
        The files of that version: each is read once, however many versions share it.
    engine, scratch
        As for `verify_catalog`.

    Returns
    -------
    VerificationReport
        What is wrong with any of them.
    """
    engine = engine or ThisProcess()
    whole = read_whole_log(storage)
    older = []
    for number in sorted(whole.kept.keys() - whole.changed - {newest.version}, reverse=True):
        metadata = whole.kept[number]
        storage = storage.mounting(metadata.mounts)
        verification = Verification(storage, metadata, seen=seen)
        _check_leaves(verification, storage, engine, scratch, remember=True)
        verification.add_problems(
            index_problems(storage, metadata, engine, seen=seen.others, against_rows=False)
        )
        verification.add_problems(
            record_problems(storage, metadata, engine, seen=seen.others, against_rows=False)
        )
        seen.others |= _paths_beside(storage, metadata)
        older.append(verification.report())
    return together(newest, older, whole.problems)


def _paths_beside(storage: Storage, metadata: CatalogMetadata) -> set[str]:
    """The files of indices and key records, which other versions may name too."""
    return {path for index in metadata.indices for path in index.paths} | record_paths(storage, metadata)


def _check_leaves(
    verification: Verification, storage: Storage, engine: Engine, scratch: Storage | None, *, remember: bool
) -> None:
    """Read the leaf files that a verification asks for, and tell it what is in them."""
    leaves = LeafList.of(verification.leaves(), verification.bytes, engine, scratch)
    task = LeavesTask(
        storage, leaves, verification.all_rules, verification.schemas_of_others, engine.counter(), remember
    )
    log.info(
        "Verifying %d files, %d bytes, in %d tasks.", verification.files, verification.bytes, leaves.tasks
    )
    with engine.progress("verify", rows=verification.rows, done=task.done):
        for found in _findings(engine, task, leaves.tasks, LeafFindings):
            verification.add(found)
    leaves.delete()


def _check_margins(
    verification: Verification,
    storage: Storage,
    metadata: CatalogMetadata,
    engine: Engine,
    before: CatalogMetadata | None = None,
) -> None:
    checks = MarginChecks(storage, metadata, before)
    leaves = len(checks.leaves)
    tasks = min(leaves, tasks_for(engine))
    task = MarginsTask(storage, metadata, before, leaves, tasks, engine.counter())
    rows = sum(checks.rows(leaf) for leaf in checks.leaves.tolist())
    with engine.progress("margins", rows=rows, done=task.done):
        for found in _findings(engine, task, tasks, MarginFindings) if tasks else ():
            verification.add_margins(found)
    verification.conclude_margins(checks.margin_rows)


def _findings(engine: Engine, task: Task, tasks: int, model: type[_Found]) -> Iterator[_Found]:
    """Run tasks, and give what was found leaf by leaf, whatever order they ended in."""
    for batch in engine.run(task, tasks=tasks, result=_RESULT).sort_by("leaf").to_batches():
        for text in batch.column("finding").to_pylist():
            yield model.model_validate_json(text)


def _row(leaf: int, found: Frozen) -> pa.RecordBatch:
    return pa.record_batch([[leaf], [found.model_dump_json()]], schema=_RESULT)


@dataclass(frozen=True)
class LeavesTask:
    """Verifies leaf files.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    leaves : LeafList
    rules : mapping of str to LeafRules
        Per column group.
    of_others : mapping of str to pyarrow.Schema
        Of the groups whose leaves others wrote.
    done : Counter
        Rows verified so far.
    remember : bool
        Whether other versions may name the files.
    """

    storage: Storage
    leaves: LeafList
    rules: Mapping[str, LeafRules]
    of_others: Mapping[str, pa.Schema]
    done: Counter
    remember: bool

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Verify the leaves of a task; give what was found in each, as JSON."""
        for leaf, group, partition, content in self._with_contents(task):
            found = self._verified(group, partition, content)
            self.done.add(found.rows)
            if not (self.remember or found.problems):  # there can be millions of these
                found = found.model_copy(update={"path": "", "sha256": ""})
            yield _row(leaf, found)

    def _with_contents(self, task: int) -> Iterator[tuple[int, str, Partition, Future[Any] | None]]:
        """The leaves of a task; of a store, a thread fetches the next one while one is looked at."""
        leaves = self.leaves.read(task)
        if self.storage.is_local:
            yield from ((*leaf, None) for leaf in leaves)
            return
        with RequestPool() as pool:
            coming = [(*leaf, self._fetched(pool, *leaf)) for leaf in islice(leaves, 1)]
            while coming:
                coming += [(*leaf, self._fetched(pool, *leaf)) for leaf in islice(leaves, 1)]
                yield coming.pop(0)

    def _fetched(self, pool: RequestPool, leaf: int, group: str, partition: Partition) -> Future[Any] | None:
        if group in self.of_others or partition.bytes > HELD_BYTES:
            return None
        return pool.submit(fetched, self.storage, partition)

    def _verified(self, group: str, partition: Partition, content: Future[Any] | None) -> LeafFindings:
        schema = self.of_others.get(group)
        if schema is None:
            return verify_partition(self.storage, self.rules[group], partition, content)
        pixel = Pixel(partition.order, partition.npix)
        return verify_foreign_leaf(self.storage, schema, partition.path, pixel, partition.rows, group=group)


@dataclass
class MarginsTask:
    """Holds the margins against the leaves.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    before : CatalogMetadata or None
        As for `MarginChecks`.
    leaves, tasks : int
    done : Counter
        Rows whose margins were made so far.
    """

    storage: Storage
    metadata: CatalogMetadata
    before: CatalogMetadata | None
    leaves: int
    tasks: int
    done: Counter

    @cached_property
    def checks(self) -> MarginChecks:
        """Made in the process where tasks run, and shared by its threads."""
        return MarginChecks(self.storage, self.metadata, self.before)

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Check the leaves of a task; give what was found in each, as JSON."""
        first, last = (each * self.leaves // self.tasks for each in (task, task + 1))
        for leaf in self.checks.leaves[first:last].tolist():
            yield _row(leaf, self.checks.check(leaf))
            self.done.add(self.checks.rows(leaf))


def problems_beside(storage: Storage, log: WholeLog) -> Iterator[Problem]:
    """The problems of all files but the leaf files, of all versions of a log; leaf files are not read.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    log : WholeLog
    """
    seen, indices = SeenFiles(), set()
    for number in sorted(log.kept, reverse=True):
        metadata = log.kept[number]
        yield from (_of_version(each, number) for each in Verification(storage, metadata, seen=seen).beside)
        for index in metadata.indices:
            if index.others not in indices:
                indices.add(index.others)
                yield from hats_index_problems(storage, index)


def together(
    newest: VerificationReport, older: Iterable[VerificationReport], problems: Iterable[Problem]
) -> VerificationReport:
    """One report on all versions; what several of them suffer from is said once.

    Parameters
    ----------
    newest : VerificationReport
        Of the version that was looked at first.
    older : iterable of VerificationReport
    problems : iterable of Problem
        What is wrong beside them.
    """
    others = list(older)
    reported = [*problems, *newest.problems]
    reported += [_of_version(problem, each.version) for each in others for problem in each.problems]
    once: dict[tuple[str, str, str], Problem] = {}
    for problem in reported:
        key = problem.kind, problem.path, problem.message
        if key not in once or problem.repairable:
            once[key] = problem
    return newest.model_copy(
        update={
            "problems": tuple(once.values()),
            "versions": tuple(sorted(each.version or 0 for each in [newest, *others])),
            "files": newest.files + sum(each.files for each in others),
            "bytes": newest.bytes + sum(each.bytes for each in others),
            "seconds": round(newest.seconds + sum(each.seconds for each in others), 3),
        }
    )


def _of_version(problem: Problem, version: int | None) -> Problem:
    """A problem of a version as a whole says of which."""
    if problem.path:
        return problem
    return problem.model_copy(update={"message": f"version {version}: {problem.message}"})
