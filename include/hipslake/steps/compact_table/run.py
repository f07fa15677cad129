"""The compaction of a table, of whatever kind, on any engine.

Files are planned from what the table says of them. To cluster, one pass samples the clustering columns;
ranges, and where files begin and end on the curve, come of that. Then rows go through the exchange once: each
reduce task has one new file, sorts its rows along the curve, writes it, and reads it again. Nothing is
committed unless the rows that are read again are those that were read before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from hipslake.clustering.layout_quality import quality
from hipslake.clustering.picture import draw_boxes
from hipslake.clustering.range_ids import RangeBounds
from hipslake.engine.model import Engine
from hipslake.steps.compact_table.request import (
    PICTURE,
    CompactTableReport,
    CompactTableRequest,
    FileSizes,
    SkippingQuality,
)
from hipslake.steps.compact_table.rewrite_plan import Plan, open_compacted, planned
from hipslake.steps.compact_table.rewrite_samples import Placements, sample_placements
from hipslake.steps.compact_table.tasks import write_files
from hipslake.steps.report import Phases
from hipslake.tables.compaction_protocol import CompactedTable
from hipslake.tables.footers import boxes_of, read_footer
from hipslake.tables.new_files import NewFile

log = logging.getLogger(__name__)


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
        Another writer has changed the files that were rewritten; nothing is changed.
    VerificationError
        The rows that were written are not those that were read; nothing is changed.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    """
    with closing(open_compacted(request)) as table:
        return _compacted(request, table, engine)


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
    with phases("plan"):
        plan = planned(request, table)
    report = plan.report(request, table)
    if not plan.groups or request.dry_run:
        log.info("%s", report.text)
        return report.model_copy(update={"seconds": phases.seconds})
    return _rewritten(request, table, plan, engine, phases, report)


def _rewritten(
    request: CompactTableRequest,
    table: CompactedTable,
    plan: Plan,
    engine: Engine,
    phases: Phases,
    report: CompactTableReport,
) -> CompactTableReport:
    """Do what is planned, by one commit."""
    spec = request.spec
    placements: Placements | None = None
    told: dict[str, object] = {}
    if spec.columns:
        with phases("sample"):
            placements = sample_placements(spec, engine, table, plan)
    with table.rewriting() as rewrite:
        with phases("write"):
            groups = None if placements is None else placements.groups
            written = write_files(spec, engine, table, plan, rewrite, groups)
            added = written.files
        if placements is not None:
            with phases("quality"):
                told = _quality(request, table, plan, added, placements.ranges)
        with phases("commit"):
            version = rewrite.commit(added, plan.rewritten)
    sizes = FileSizes.of([file.bytes for file in added])
    text = f"{report.text} {sizes.files} files were written, as {version}."
    done = report.model_copy(
        update={
            "rows_in": sum(group.rows for group in plan.groups) - written.deleted,
            "rows_deleted": written.deleted,
            "rows_out": sum(file.rows for file in added),
            "bytes": sizes.total_bytes,
            "files": sizes.files,
            "version": version,
            "added": sizes,
            "checksum": f"{written.checksum:016x}",
            "seconds": phases.seconds,
            **told,
        }
    )
    if done.before is not None and done.after is not None:
        text += (
            f" A box query opened {done.before.files_touched:.1f} of {done.before.files} files, and opens "
            f"{done.after.files_touched:.1f} of {done.after.files}."
        )
    log.info("%s", text)
    return done.model_copy(update={"text": text})


def _quality(
    request: CompactTableRequest,
    table: CompactedTable,
    plan: Plan,
    added: Sequence[NewFile],
    ranges: RangeBounds,
) -> dict[str, object]:
    """How well the considered files skip, before and after; and the picture of their boxes."""
    spec = request.spec
    gone = {file.path for file in plan.rewritten}
    old = {file.path: read_footer(file.path) for file in plan.considered}
    stay = [footer for path, footer in old.items() if path not in gone]
    new = [*stay, *(read_footer(file.path) for file in added)]
    before = boxes_of(list(old.values()), ranges, table.schema)
    after = boxes_of(new, ranges, table.schema)
    title = f"{table.name}, {spec.mode} by {', '.join(spec.columns)}"
    request.folder.storage.write(PICTURE, draw_boxes(before, after, spec.columns, title))
    told = [
        SkippingQuality(files=one.files, files_touched=one.touched, overlap_depth=one.depth)
        for one in (quality(boxes, seed=spec.seed) for boxes in (before, after))
    ]
    return {"before": told[0], "after": told[1], "picture": request.folder.uri_of(PICTURE)}
