"""Verification of a whole version: every file, and what the files must be together.

`verify_catalog` does it in this process. For large catalogs a Spark job maps `verify_partition` over
`Verification.work()` and hands what comes back to `Verification.add`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from hipslake.catalog.checks.co_partitions import co_partition_problems
from hipslake.catalog.checks.findings import (
    ExpectedTotals,
    LeafFindings,
    Problem,
    ProblemKind,
    VerificationReport,
)
from hipslake.catalog.checks.indices import index_problems
from hipslake.catalog.checks.kept import together, verify_older
from hipslake.catalog.checks.leaves import LeafRules, verify_partition
from hipslake.catalog.checks.margins import MarginChecks
from hipslake.catalog.checks.seen import SeenFiles
from hipslake.catalog.checks.verdict import Verification
from hipslake.catalog.checks.whole_log import read_whole_log
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.row_sets import RowBitmap
from hipslake.engine.model import Stage
from hipslake.engine.progress import Progress
from hipslake.engine.this_process import ThisProcess
from hipslake.storage.folder import Storage

__all__ = [
    "ExpectedTotals",
    "LeafFindings",
    "LeafRules",
    "Problem",
    "ProblemKind",
    "SeenFiles",
    "Verification",
    "VerificationReport",
    "look_in_threads",
    "verify_catalog",
    "verify_log",
    "verify_partition",
]


def verify_catalog(
    storage: Storage,
    metadata: CatalogMetadata,
    *,
    expected: ExpectedTotals | None = None,
    workers: int | None = None,
    seen: SeenFiles | None = None,
) -> VerificationReport:
    """Verify the files of a version, published or about to be, in threads of this process.

    Looks at sizes, checksums, footers, schemas, row counts, thresholds, every value of every column, the
    order of the rows, their pixels, `_healpix_29` against the position columns, the leaves together, the
    totals, the rows of the column groups against each other, co-partitioned columns, indices, sidecars, HATS
    files, and files that nobody names. Where all that is right, every margin is made once more from the
    leaves, and held against its files.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    expected : ExpectedTotals, optional
        What the run's reports say was read; the totals are held against it.
    workers : int, optional
        Leaves that are looked at at once; each holds about one row group in memory. By default, one per core.
    seen : SeenFiles, optional
        Takes what is looked at, for other versions that name the same files.

    Returns
    -------
    VerificationReport
        All problems, not only the first.

    Raises
    ------
    StorageError
        The store did not answer.
    """
    verification = Verification(storage, metadata, expected, seen)
    bitmaps = verification.bitmaps()
    threads = workers or os.cpu_count() or 1
    look_in_threads(verification, threads, bitmaps)
    checks = verification.margin_checks()
    if checks is not None:
        with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
            _check_margins(checks, verification, pool)
    engine = ThisProcess(threads)
    verification.add_problems(
        co_partition_problems(storage, metadata, engine, with_objects=expected is not None)
    )
    verification.add_problems(index_problems(storage, metadata, engine))
    if seen is not None:
        seen.others |= {path for index in metadata.indices for path in index.paths}
    return verification.report(bitmaps)


def verify_log(
    storage: Storage, newest: VerificationReport, seen: SeenFiles, *, workers: int | None = None
) -> VerificationReport:
    """Verify the whole log of versions, and all versions that can be opened, in threads of this process.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    newest : VerificationReport
        Of a version that was looked at before.
    seen : SeenFiles
        The files of that version: each is read once, however many versions share it.
    workers : int, optional
        As for `verify_catalog`.

    Returns
    -------
    VerificationReport
        What is wrong with any of them.
    """
    threads = workers or os.cpu_count() or 1
    log = read_whole_log(storage)
    engine = ThisProcess(threads)
    older = verify_older(
        storage, log, newest.version or 0, seen, lambda each: look_in_threads(each, threads), engine
    )
    return together(newest, older, log.problems)


def look_in_threads(
    verification: Verification, threads: int, bitmaps: Mapping[str, RowBitmap] | None = None
) -> None:
    """Read the leaf files that a verification asks for, and tell it what is in them."""
    seen = bitmaps or {}
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        progress = _Reading(verification)
        waiting: deque[Future[LeafFindings]] = deque()
        try:
            for rules, partition in verification.work():
                waiting.append(pool.submit(verify_partition, rules, partition, seen.get(rules.group)))
                if len(waiting) > 2 * threads:
                    _settle(waiting.popleft(), verification, progress)
            while waiting:
                _settle(waiting.popleft(), verification, progress)
            progress.end()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _settle(future: Future[LeafFindings], verification: Verification, progress: _Reading) -> None:
    found = future.result()
    verification.add(found)
    progress.count(found)


def _check_margins(checks: MarginChecks, verification: Verification, pool: ThreadPoolExecutor) -> None:
    progress = Progress("margins", total=checks.leaves, unit="leaves")
    for done, found in enumerate(pool.map(checks.check, range(checks.leaves)), start=1):
        verification.add_margins(found)
        progress.tell(done)
    verification.conclude_margins()
    progress.end(checks.leaves)


class _Reading:
    """Says in the log how many rows have been read."""

    def __init__(self, verification: Verification) -> None:
        self._files, self._done, self._rows = verification.files, 0, 0
        self._progress = Progress("verify", total=verification.rows)

    def count(self, found: LeafFindings) -> None:
        self._done += 1
        self._rows += found.rows
        self._progress.tell(self._rows, [Stage("", self._done, self._files)])

    def end(self) -> None:
        self._progress.end(self._rows)
