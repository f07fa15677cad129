"""Verification of large catalogs: every leaf in a Spark task, held to the same rules as in one process.

The list of leaves lies in the run folder, one batch per task, so that neither the driver nor a task holds all
of it. What the tasks find is put together by `hipslake.catalog.verification`, as it is without Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.checks.co_partitions import co_partition_problems
from hipslake.catalog.checks.findings import MarginFindings
from hipslake.catalog.checks.indices import index_problems
from hipslake.catalog.checks.kept import together, verify_older
from hipslake.catalog.checks.margins import MarginChecks
from hipslake.catalog.checks.seen import SeenFiles
from hipslake.catalog.checks.whole_log import read_whole_log
from hipslake.catalog.metadata import CatalogMetadata, Partition
from hipslake.catalog.verification import LeafFindings, LeafRules, Verification, verify_partition
from hipslake.engine.model import Counter, Engine
from hipslake.steps.report import Phases
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from hipslake.steps.upkeep.verify import conclude, expected_totals, problems_around, subject
from hipslake.storage.folder import Storage

log = logging.getLogger(__name__)

TASK_BYTES = (
    256 << 20
)  # of leaf files that one task reads at most, so that progress is seen and retries are small
_TASKS_PER_CORE = 4
_TASK_LEAVES = 10_000
_WORK = "verify/work.arrow"
_SUBJECT = "verify/metadata.json"
_WORK_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("order", pa.int64()),
        ("npix", pa.int64()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
    ]
)
_RESULT = pa.schema([("finding", pa.string())])

Leaf = tuple[LeafRules, Partition]


def run(request: VerifyRequest, engine: Engine) -> VerifyReport:
    """Verify what a run wrote, or a published version.

    Raises
    ------
    VerificationError
        If anything is not as it should be; the message lists what.
    StorageError
        If the store did not answer.
    """
    phases = Phases()
    folder = request.folder.storage
    catalog, metadata = subject(request)
    seen = SeenFiles() if request.all_versions else None
    verification = Verification(catalog, metadata, expected_totals(request), seen)
    with phases("verify"):
        _look(folder, verification, engine, remember=seen is not None)
    with phases("co-partitioning"):
        with_objects = request.catalog_uri is None
        verification.add_problems(co_partition_problems(catalog, metadata, engine, with_objects=with_objects))
    with phases("indices"):
        verification.add_problems(index_problems(catalog, metadata, engine))
    checks = verification.margin_checks()
    if checks is not None:
        folder.write(_SUBJECT, metadata.to_json())
        margins = MarginTask(folder, catalog, min(checks.leaves, _TASKS_PER_CORE * engine.cores))
        with phases("margins"), engine.progress("margins"):
            for text in engine.run(margins, tasks=margins.tasks, result=_RESULT)["finding"].to_pylist():
                verification.add_margins(MarginFindings.model_validate_json(text))
        verification.conclude_margins()
        folder.delete(_SUBJECT)
    found = verification.report()
    if request.catalog_uri is not None:
        found = found.with_problems(problems_around(catalog, metadata, found.problems))
    if seen is not None:
        seen.others |= {path for index in metadata.indices for path in index.paths}
        with phases("versions"):
            versions = read_whole_log(catalog)
            older = verify_older(
                catalog,
                versions,
                metadata.version,
                seen,
                lambda each: _look(folder, each, engine, remember=True),
                engine,
            )
            found = together(found, older, versions.problems)
    folder.delete(_WORK)
    return conclude(request, metadata, found, phases)


def _look(folder: Storage, verification: Verification, engine: Engine, *, remember: bool) -> None:
    """Read the leaf files that a verification asks for, in tasks, and tell it what is in them."""
    share = verification.bytes // (_TASKS_PER_CORE * engine.cores) + 1
    tasks = _write_work(folder, _runs(verification.work(), min(TASK_BYTES, share)))
    task = VerifyTask(folder, verification.all_rules, engine.counter(), remember)
    log.info("Verifying %d files, %d bytes, in %d tasks.", verification.files, verification.bytes, tasks)
    with engine.progress("verify", rows=verification.rows, done=task.done):
        found = engine.run(task, tasks=tasks, result=_RESULT)
        for batch in found.to_batches():
            for text in batch.column(0).to_pylist():
                verification.add(LeafFindings.model_validate_json(text))


@dataclass(frozen=True)
class VerifyTask:
    """Verifies the leaves of each task.

    Attributes
    ----------
    folder : Storage
        The run folder, with the list of leaves.
    rules : mapping of str to LeafRules
        Per column group.
    done : Counter
        Rows verified so far.
    remember : bool
        Whether other versions may name the files.
    """

    folder: Storage
    rules: Mapping[str, LeafRules]
    done: Counter
    remember: bool = False

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Verify the leaves of a task; give what was found in each, as JSON."""
        with self.folder.open(_WORK) as file:
            leaves = pa.ipc.open_file(file).get_batch(task).to_pylist()
        for leaf in leaves:
            rules = self.rules[leaf.pop("group")]
            found = verify_partition(rules, Partition.model_construct(**leaf))
            self.done.add(found.rows)
            told = found if self.remember else _brief(found)
            yield pa.record_batch({"finding": [told.model_dump_json()]})


@dataclass(frozen=True)
class MarginTask:
    """Holds the margins against the leaves of each task.

    Attributes
    ----------
    folder : Storage
        The run folder, with the metadata that is verified.
    catalog : Storage
        At the catalog's root.
    tasks : int
    """

    folder: Storage
    catalog: Storage
    tasks: int

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Check the leaves of a task; give what was found in each, as JSON."""
        checks = MarginChecks(self.catalog, CatalogMetadata.from_json(self.folder.read(_SUBJECT)))
        for leaf in range(task * checks.leaves // self.tasks, (task + 1) * checks.leaves // self.tasks):
            yield pa.record_batch({"finding": [checks.check(leaf).model_dump_json()]})


def _brief(found: LeafFindings) -> LeafFindings:
    """Findings without what is only wanted of leaves that have problems: there can be millions of others."""
    return found if found.problems else found.model_copy(update={"path": "", "sha256": ""})


def _runs(work: Iterable[Leaf], most_bytes: int) -> Iterator[list[Leaf]]:
    """Runs of neighbouring leaves, each for one task."""
    run: list[Leaf] = []
    size = 0
    for leaf in work:
        if run and (size + leaf[1].bytes > most_bytes or len(run) == _TASK_LEAVES):
            yield run
            run, size = [], 0
        run.append(leaf)
        size += leaf[1].bytes
    if run:
        yield run


def _write_work(folder: Storage, runs: Iterable[list[Leaf]]) -> int:
    """Store the leaves of every task; gives the number of tasks."""
    tasks = 0
    with (
        folder.open(_WORK, "wb", durable=False) as file,
        pa.ipc.new_file(file, _WORK_SCHEMA) as writer,
    ):
        for run in runs:
            rows = [{"group": rules.group, **vars(partition)} for rules, partition in run]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, _WORK_SCHEMA))
            tasks += 1
    return tasks
