"""Mode liquid: which files of a clustered table are rewritten, and how many files queries open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hipslake.clustering.bound_numbers import bound_numbers
from hipslake.clustering.curves import Curve
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.planning import FileSizing, RewriteGroup, TableFile
from hipslake.clustering.upkeep_planning import plan_upkeep, query_kinds, rank_boxes, touched_by_kind
from hipslake.steps.compact_table.request import CompactTableRequest, KeptClustering, TouchedFiles
from hipslake.steps.run import now_utc
from hipslake.tables.clustering_ledger import ClusteringPoint, CountedLedger
from hipslake.tables.compaction_protocol import CompactedTable, FileExchange
from hipslake.tables.new_files import NewFile


@dataclass(frozen=True)
class KeptFiles:
    """What a run of mode liquid goes by.

    Attributes
    ----------
    files : tuple of TableFile
        All that could be chosen.
    groups : tuple of RewriteGroup
    counted : CountedLedger
        With what came since the last run.
    stepped : int
        Bytes that may be rewritten on account of what was clustered otherwise before.
    most_bytes : int
        That may be rewritten.
    expected : float
        Files that a query opens, mean over kinds, in times of those of a table that is clustered anew as a
        whole; before anything is rewritten, as far as the bounds tell.
    before : tuple of TouchedFiles
    """

    files: tuple[TableFile, ...]
    groups: tuple[RewriteGroup, ...]
    counted: CountedLedger
    stepped: int
    most_bytes: int
    expected: float
    before: tuple[TouchedFiles, ...]


def kept_files(
    request: CompactTableRequest, table: CompactedTable, files: Sequence[TableFile], sizing: FileSizing
) -> KeptFiles:
    """Choose files by their bounds, within what the run may rewrite; all of them, if it is a full one."""
    spec = request.spec
    counted = table.kept_clustering()
    bounds = (spec.clustering.max_amplification, spec.clustering.step_size.value)
    stepped, most = counted.ledger.stepped(*bounds), counted.most_bytes(*bounds)
    upkeep = plan_upkeep(
        files,
        boxes_by_bounds(table, spec.columns, files),
        curve=Curve(spec.clustering.curve),
        sizing=sizing,
        most_bytes=most,
        seed=spec.seed,
    )
    groups = _all(files, sizing) if request.full else upkeep.groups
    before = touched_files(table, spec.columns, files, spec.seed)
    return KeptFiles(tuple(files), groups, counted, stepped, most, upkeep.expected, before)


def _all(files: Sequence[TableFile], sizing: FileSizing) -> tuple[RewriteGroup, ...]:
    """One group for each partition."""
    found: dict[str, list[TableFile]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return tuple(
        RewriteGroup(name, tuple(some), sizing.num_files(sum(file.bytes for file in some)))
        for name, some in found.items()
    )


def point_of(
    request: CompactTableRequest, table: CompactedTable, kept: KeptFiles, exchanges: Sequence[FileExchange]
) -> ClusteringPoint:
    """What the table is to remember of a run, of the exchanges that it makes."""
    gone = {file.path for exchange in exchanges for file in exchange.removed}
    files = [file for file in kept.files if file.path not in gone]
    new = [file for exchange in exchanges for file in exchange.added]
    rewritten = sum(file.bytes for file in kept.files if file.path in gone)
    after = touched_files(table, request.spec.columns, [*files, *new], request.spec.seed)
    return ClusteringPoint(
        at=now_utc(),
        files=len(files) + len(new),
        came=kept.counted.recent,
        rewritten=rewritten,
        full=request.full,
        before=tuple(each.mean for each in kept.before),
        after=tuple(each.mean for each in after),
    )


def told_of(
    request: CompactTableRequest, kept: KeptFiles, point: ClusteringPoint | None = None
) -> KeptClustering:
    """What a report says; without a point, of a run that rewrites nothing."""
    ledger = kept.counted.ledger
    if point is not None:
        ledger = ledger.with_point(point, kept.stepped)
    after = kept.before
    if point is not None:
        after = tuple(
            TouchedFiles(columns=each.columns, mean=mean)
            for each, mean in zip(kept.before, point.after, strict=True)
        )
    return KeptClustering(
        columns=request.spec.columns,
        max_amplification=request.spec.clustering.max_amplification,
        came_bytes=kept.counted.recent,
        most_bytes=kept.most_bytes,
        rewritten_bytes=0 if point is None else point.rewritten,
        total_came_bytes=ledger.came,
        total_rewritten_bytes=ledger.rewritten,
        amplification=round(ledger.amplification, 4),
        older_bytes=ledger.older,
        older_rewritten_bytes=ledger.older_rewritten,
        against_full=round(kept.expected, 4),
        before=kept.before,
        after=after,
    )


def boxes_by_bounds(
    table: CompactedTable, columns: Sequence[str], files: Sequence[TableFile | NewFile]
) -> FileBoxes:
    """The bounds of files in shares of the rows, by what the table says of them."""
    low = np.empty((len(files), len(columns)))
    high, empty = np.empty_like(low), np.empty(low.shape, bool)
    for at, column in enumerate(columns):
        found = table.bounds(column, files)
        low[:, at], high[:, at] = bound_numbers(found.low, found.high)
        empty[:, at] = found.empty
    return rank_boxes(low, high, np.array([max(file.rows, 1) for file in files], np.float64), empty)


def touched_files(
    table: CompactedTable, columns: Sequence[str], files: Sequence[TableFile | NewFile], seed: int
) -> tuple[TouchedFiles, ...]:
    """How many files queries open: of 1,000 seeded ones of each kind, a tenth of the rows in each column."""
    kinds = query_kinds(len(columns))
    boxes = boxes_by_bounds(table, columns, files)
    return tuple(
        TouchedFiles(columns=tuple(columns[at] for at in kind), mean=round(mean, 3))
        for kind, mean in zip(kinds, touched_by_kind(boxes, kinds, seed=seed), strict=True)
    )
