"""The compaction of a table, of whatever kind, on any engine.

Files are planned from what the table says of them. To cluster, one pass samples the clustering columns;
ranges, and where files begin and end on the curve, come of that. Then rows go through the exchange once: each
reduce task has one new file, sorts its rows along the curve, writes it, and reads it again. Nothing is
committed unless the rows that are read again are those that were read before. Groups of files are committed
together, or in several parts one after another; those whose files others have changed are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from hipslake.clustering.layout_quality import quality
from hipslake.clustering.picture import draw_boxes
from hipslake.clustering.planning import RewriteGroup, commit_parts
from hipslake.clustering.range_ids import RangeBounds
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError
from hipslake.specs.compaction_spec import CompactionMode
from hipslake.steps.compact_table.request import (
    PICTURE,
    CompactTableReport,
    CompactTableRequest,
    FileSizes,
    KeptClustering,
    SkippingQuality,
)
from hipslake.steps.compact_table.rewrite_plan import Plan, open_compacted, planned, with_columns
from hipslake.steps.compact_table.rewrite_samples import place_rows
from hipslake.steps.compact_table.table_upkeep import point_of, told_of
from hipslake.steps.compact_table.tasks import WrittenGroup, write_files
from hipslake.steps.report import Phases
from hipslake.tables.clustering_ledger import ClusteringPoint
from hipslake.tables.compaction_protocol import CompactedTable, FileExchange
from hipslake.tables.footers import FileFooter, boxes_of, read_footer

log = logging.getLogger(__name__)

_MOST_TOLD = 100  # refused groups that a report explains


def run(request: CompactTableRequest, engine: Engine) -> CompactTableReport:
    """Compact a table.

    Run again, also after it was killed, it leaves what one run leaves.

    Raises
    ------
    SpecError
        There is no such table, catalog or column, or it cannot be clustered by that one.
    InputError
        A column has values that have no order, or there is no file at all.
    ConflictError
        Another writer has changed files of each group that was rewritten; nothing is changed.
    VerificationError
        The rows that were written are not those that were read; nothing is changed.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    """
    with closing(open_compacted(request)) as table:
        return _compacted(with_columns(request, table), table, engine)


def _compacted(request: CompactTableRequest, table: CompactedTable, engine: Engine) -> CompactTableReport:
    phases = Phases()
    finished = None if request.dry_run else table.finished()
    if finished is not None:
        log.info("%s: an earlier attempt has committed %s.", table.name, finished)
        return CompactTableReport(
            table=table.name,
            mode=request.spec.mode,
            version=finished,
            text=f"An earlier attempt has committed {finished}.",
        )
    if request.spec.mode is CompactionMode.LIQUID and not request.dry_run:
        table.begin_clustering()
    with phases("plan"):
        plan = planned(request, table)
    report = plan.report(request, table)
    if plan.groups and not request.dry_run:
        report = _rewritten(request, table, plan, engine, phases, report)
    elif not plan.groups and request.spec.delete_file_threshold is not None and table.unneeded_deletes:
        with phases("commit"):
            report = _without_unneeded(report, table)
    if request.spec.manifests:
        with phases("manifests"):
            report = _with_manifests(report, table)
    log.info("%s", report.text)
    return report.model_copy(update={"seconds": phases.seconds})


def _without_unneeded(report: CompactTableReport, table: CompactedTable) -> CompactTableReport:
    """Take delete files away that no data file needs, where no data file is rewritten; and say so."""
    count = table.unneeded_deletes
    if report.dry_run:
        return report.model_copy(
            update={"text": f"{report.text} {count} delete files would go that no data file needs."}
        )
    with table.rewriting() as rewrite:
        version = rewrite.commit([]).version
    text = f"{report.text} {count} delete files went that no data file needs, as {version}."
    return report.model_copy(update={"version": version, "commits": 1, "text": text})


def _with_manifests(report: CompactTableReport, table: CompactedTable) -> CompactTableReport:
    """Merge manifests, and say so; a conflict does not undo what was committed before."""
    try:
        merged = table.merge_manifests(dry_run=report.dry_run)
    except ConflictError as error:
        if not report.version:
            raise
        log.warning("%s: manifests stay as they are: %s", table.name, error)
        text = f"{report.text} Manifests stay as they are, as others kept committing."
        return report.model_copy(update={"text": text})
    if merged is None:
        return report
    would = "would become" if report.dry_run else "became"
    text = f"{report.text} {merged.before} manifests {would} {merged.after}."
    told = {"manifests_before": merged.before, "manifests_after": merged.after, "text": text}
    return report.model_copy(update=told | ({"version": merged.version} if merged.version else {}))


def _rewritten(
    request: CompactTableRequest,
    table: CompactedTable,
    plan: Plan,
    engine: Engine,
    phases: Phases,
    report: CompactTableReport,
) -> CompactTableReport:
    """Do what is planned, by one commit or several."""
    done: list[_DonePart] = []
    refused: list[str] = []
    compared = request.spec.is_curve and plan.upkeep is None
    old = _footers([file.path for file in plan.considered]) if compared else {}
    with phases("wait"):
        log.debug("Tasks run on %d cores.", engine.cores)  # whose session may still be starting
    parts = commit_parts(plan.groups, request.spec.max_commits)
    failed: ConflictError | None = None
    for number, groups in enumerate(parts, start=1):
        try:
            done.append(_part(request, table, plan, groups, engine, phases, last=number == len(parts)))
        except ConflictError as error:
            failed = error
            refused.append(str(error))
            log.warning("%s: part %d of %d is left as it was: %s", table.name, number, len(parts), error)
    if failed is not None and not done:
        raise failed
    report = report.model_copy(
        update={"refused": (*refused, *(why for part in done for why in part.refused))[:_MOST_TOLD]}
    )
    return _reported(request, table, plan, done, old, phases, report)


@dataclass(frozen=True)
class _DonePart:
    """Groups that were committed together.

    Attributes
    ----------
    version : str
    groups : list of (RewriteGroup, WrittenGroup)
        Those that were committed.
    refused : tuple of str
        What others had changed in the groups that were left out.
    ranges : RangeBounds or None
        Where rows are clustered along a curve, in which files are compared.
    footers : dict of str to FileFooter
        Of the new files, where they are compared.
    point : ClusteringPoint or None
        What the table remembers of it, in mode liquid.
    """

    version: str
    groups: list[tuple[RewriteGroup, WrittenGroup]]
    refused: tuple[str, ...]
    ranges: RangeBounds | None
    footers: dict[str, FileFooter]
    point: ClusteringPoint | None = None


def _part(
    request: CompactTableRequest,
    table: CompactedTable,
    plan: Plan,
    groups: Sequence[RewriteGroup],
    engine: Engine,
    phases: Phases,
    *,
    last: bool,
) -> _DonePart:
    spec = request.spec
    with table.rewriting(last) as rewrite:
        with phases("sample"):
            placements = place_rows(spec, engine, table, groups, plan.sizing, rewrite)
        with phases("write"):
            written = write_files(spec, engine, table, groups, rewrite, placements)
        pairs = list(zip(groups, written, strict=True))
        kept, made = plan.upkeep, list[ClusteringPoint]()
        compared = placements.ranges is not None and kept is None
        new = [file.path for each in written for file in each.files] if compared else []
        with phases("quality"):
            footers = _footers(new)

        def point(exchanges: Sequence[FileExchange]) -> ClusteringPoint:
            assert kept is not None, "of mode liquid"
            made.append(point_of(request, table, kept, exchanges))
            return made[-1]

        with phases("commit"):
            exchanges = [each.exchange(group) for group, each in pairs]
            committed = (
                rewrite.commit(exchanges) if kept is None else rewrite.commit(exchanges, point, kept.stepped)
            )
    stand = [pair for at, pair in enumerate(pairs) if at not in committed.refused]
    refused = tuple(committed.refused.values())
    ranges = placements.ranges if kept is None else None
    return _DonePart(committed.version, stand, refused, ranges, footers, made[-1] if made else None)


def _footers(paths: Sequence[str]) -> dict[str, FileFooter]:
    return {path: read_footer(path) for path in paths}


def _reported(
    request: CompactTableRequest,
    table: CompactedTable,
    plan: Plan,
    done: Sequence[_DonePart],
    old: dict[str, FileFooter],
    phases: Phases,
    report: CompactTableReport,
) -> CompactTableReport:
    pairs = [pair for part in done for pair in part.groups]
    added = [file for _, written in pairs for file in written.files]
    gone = [file for group, _ in pairs for file in group.files]
    told: dict[str, object] = {}
    ranges = next((part.ranges for part in done if part.ranges is not None), None)
    if ranges is not None:
        with phases("quality"):
            footers = {path: footer for part in done for path, footer in part.footers.items()}
            paths = {file.path for file in gone}
            stay = [footer for path, footer in old.items() if path not in paths]
            new = [*stay, *(footers[file.path] for file in added if file.path in footers)]
            told = _quality(request, table, list(old.values()), new, ranges)
    point = next((part.point for part in done if part.point is not None), None)
    if plan.upkeep is not None and point is not None:
        told = {"clustering": told_of(request, plan.upkeep, point)}
    sizes = FileSizes.of([file.bytes for file in added])
    deleted = sum(written.deleted for _, written in pairs)
    versions = ", ".join(part.version for part in done)
    text = f"{report.text} {sizes.files} files were written, as {versions}."
    refused = len(plan.groups) - len(pairs)
    if refused:
        text = f"{text} {refused} groups are left as they were, since others have changed their files."
    finished = report.model_copy(
        update={
            "rows_in": sum(group.rows for group, _ in pairs) - deleted,
            "rows_deleted": deleted,
            "rows_out": sum(file.rows for file in added),
            "bytes": sizes.total_bytes,
            "files": sizes.files,
            "version": done[-1].version,
            "commits": len(done),
            "groups_refused": refused,
            "removed": FileSizes.of([file.bytes for file in gone]),
            "files_skipped": report.files_considered - len(gone),
            "added": sizes,
            "checksum": f"{sum(written.checksum for _, written in pairs) % 2**64:016x}",
            "seconds": phases.seconds,
            **told,
        }
    )
    if finished.before is not None and finished.after is not None:
        text += (
            f" A box query opened {finished.before.files_touched:.1f} of {finished.before.files} files, and "
            f"opens {finished.after.files_touched:.1f} of {finished.after.files}."
        )
    if finished.clustering is not None:
        text += f" {_clustering_text(finished.clustering)}"
    return finished.model_copy(update={"text": text})


def _clustering_text(told: KeptClustering) -> str:
    """What queries open, and what that has cost."""
    opened = ", ".join(
        f"{before.mean:.1f} > {after.mean:.1f} ({' and '.join(after.columns)})"
        for before, after in zip(told.before, told.after, strict=True)
    )
    return (
        f"Files that a query opens: {opened}. Of all that came in since the table is clustered so, "
        f"{told.amplification:.2f} times the bytes were rewritten."
    )


def _quality(
    request: CompactTableRequest,
    table: CompactedTable,
    old: Sequence[FileFooter],
    new: Sequence[FileFooter],
    ranges: RangeBounds,
) -> dict[str, object]:
    """How well the considered files skip, before and after; and the picture of their boxes."""
    spec = request.spec
    before = boxes_of(old, ranges, table.schema)
    after = boxes_of(new, ranges, table.schema)
    title = f"{table.name}, {spec.mode} by {', '.join(spec.columns)}"
    request.folder.storage.write(PICTURE, draw_boxes(before, after, spec.columns, title))
    told = [
        SkippingQuality(files=one.files, files_touched=one.touched, overlap_depth=one.depth)
        for one in (quality(boxes, seed=spec.seed) for boxes in (before, after))
    ]
    return {"before": told[0], "after": told[1], "picture": request.folder.uri_of(PICTURE)}
