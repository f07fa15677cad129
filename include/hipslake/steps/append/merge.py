"""The merge of an append: a run's rows into the leaves and margins of a version, as files of a new write.

Nothing is committed here: what comes of it is a change, for whatever version it fits to.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, MarginChange
from hipslake.catalog.changed_objects import mark_after
from hipslake.catalog.co_partitioning import MarkAfter, has_other_objects
from hipslake.catalog.committing import described_version
from hipslake.catalog.layouts import exchange_root
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.records.records_change import RecordsChange
from hipslake.catalog.schema import check_columns
from hipslake.engine.scratch import blocks_in_write
from hipslake.errors import HipslakeError, VerificationError
from hipslake.planning.pixel_histogram import CELL_COLUMNS, Histogram
from hipslake.planning.splits import bytes_per_task
from hipslake.specs.catalog_spec import Mode
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.append.append_run import AppendRun
from hipslake.steps.append.next_version import describe_increment
from hipslake.steps.append.record_runs import records_change
from hipslake.steps.append.request import ORDINAL, ClaimedOrdinal
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.append.settling import settle_night
from hipslake.steps.append.state import Attempt, regions_of_group, store_attempt
from hipslake.steps.append.tasks import ADDED, BESIDE, REMOVED, RESULT_SCHEMA, AppendTask
from hipslake.steps.ingest.draft import marks_of_run
from hipslake.steps.ingest.plan import rows_and_limit
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES, RowBytes
from hipslake.steps.margin.build_margins import MarginUpdate
from hipslake.steps.margin.state import MarginOrder
from hipslake.steps.run import RunFolder
from hipslake.steps.stored_behind import settled as all_stored
from hipslake.steps.stored_behind import stored_with_next
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import Begin, beside
from hipslake.versions.log import VersionLog
from hipslake.versions.log_reader import FoundVersion
from hipslake.versions.ordinals import claim_ordinal

_IN_MEMORY = 4  # bytes of a row, for one that it takes in a leaf file, about
_MOST_AT_ONCE = 16  # reduce tasks
_BYTES_AT_ONCE = 2 * DEFAULT_TARGET_BYTES  # that they hold in memory, about


@dataclass(frozen=True)
class Merged:
    """What a merge has made."""

    run: AppendRun
    base: CatalogMetadata | None  # the version that it was merged with
    attempt: Attempt
    schema: pa.Schema
    changes: dict[str, GroupChange]
    margins: dict[float, MarginChange]
    increment: Increment  # the same, whatever version it comes to
    mark_after: MarkAfter | None = None  # where objects placed the rows that are others than before
    records: RecordsChange | None = None  # mode upsert: what it changes of the key records
    rows_superseded: int = 0  # mode upsert: by how many rows more are superseded


class EarlyClaim(NamedTuple):
    """An ordinal that was claimed for what comes after a version, before that was found to be the newest."""

    version: int
    ordinal: int


def merge(
    run: AppendRun,
    base: CatalogMetadata | None,
    write_id: str,
    claimed: int | None = None,
    early: EarlyClaim | None = None,
) -> Merged:
    """Merge the rows of a run into a version.

    Parameters
    ----------
    run : AppendRun
    base : CatalogMetadata or None
        The version; None if there is none yet.
    write_id : str
        The write that the files belong to.
    claimed : int, optional
        The ordinal that an earlier attempt of the run has claimed.
    early : EarlyClaim, optional
        What this one has claimed for what comes after the version.

    Raises
    ------
    SpecError, SchemaMismatchError, InputError, PlanError
        As of the step.
    ConflictError
        If the run gives rows to other objects that it has found in another version.
    VerificationError
        If the files do not hold the rows that were to be added, less those to be taken out.
    """
    spec, storage = run.frozen.spec, run.folder.storage
    run.check_builds_on(base)
    with run.phases("plan"), beside(storage) as begin:
        schema = run.schema_after(base)
        compared = _compared_objects(run, base, write_id)
        if base is not None:
            run.check_not_shared(base)
        earlier = base.increment(run.key, run.catalog) if base else None
        attempt = Attempt(
            write_id=write_id,
            version=base.version if base else None,
            ordinal=earlier.ordinal if earlier else _ordinal(run, base, claimed, early, begin),
            replaces=(earlier.ordinal,) if earlier else (),
            replaced_write=earlier.write_id if earlier else None,
            numbers=None if base is None or base.numbers_rows else base.increments[0].ordinal,
        )
        settled = None
        if spec.mode is Mode.UPSERT:
            settled = settle_night(run, base, attempt, schema)
        coverage = _coverage(run, earlier) if settled is None else settled.went()
        if base is not None and attempt.numbers is not None:  # no leaf can stay as it is
            coverage = PixelTree(*base.groups[0].leaf_pixels())
        cells = Histogram.from_table(read_table(storage, RunFolder.HISTOGRAM, CELL_COLUMNS))
        if settled is not None:
            cells = settled.cells(cells)
        regions, standing = {}, {}
        for group in check_columns(spec, schema):
            described = base.group(group) if base else None
            leaves = PixelTree(*described.leaf_pixels()) if described else PixelTree([], [])
            weight = run.counted.row_bytes.get(group) or _weight(described)  # none where there are no rows
            weights, limit = rows_and_limit(spec, group, cells, weight) if weight else (cells.rows, 0)
            found = regions_of_group(spec, leaves, cells, weights, limit, coverage)
            regions[group] = found
            standing[group] = (
                described.table_near(run.catalog, found.start, found.stop)
                if described
                else PARTITION_SCHEMA.empty_table()
            )
        store_attempt(storage, attempt, schema, regions, standing, coverage)
    stood = earlier.rows - base.rows_deleted_of(earlier.ordinal) if base and earlier else 0
    with beside(run.catalog) as begin:
        describe = partial(
            describe_increment,
            run,
            base,
            write_id=write_id,
            ordinal=attempt.ordinal,
            changes=None if settled is None else settled.changes,
        )
        known = None
        if not run.counted.rows_rejected:  # which are written, and listed, with the others
            known = begin(partial(describe, storage=stored_with_next(run.catalog, storage)))
        try:
            changes = _changes(run, attempt, stood, list(regions), settled)
            came = PixelTree(cells.order, cells.npix)
            margins = _margins(run, base, attempt, schema, changes, came, coverage, settled)
        except BaseException:
            with suppress(HipslakeError, OSError):  # so that nothing of the write comes after it is given up
                all_stored(storage)
            raise
        increment = describe(storage=run.catalog) if known is None else known.result()
    merged = Merged(run, base, attempt, schema, changes, margins, increment, compared)
    if settled is None:
        return merged
    records = records_change(run, base, attempt, schema, settled)
    return replace(merged, records=records, rows_superseded=settled.rows_superseded(earlier))


def _compared_objects(run: AppendRun, base: CatalogMetadata | None, write_id: str) -> MarkAfter | None:
    """Where other objects placed the rows than those of a version: what a comparison of both comes to.

    Raises
    ------
    SpecError
        Objects are elsewhere than rows of the version that they had placed.
    """
    frozen = run.frozen.objects
    if base is None or frozen is None:
        return None
    for mark in marks_of_run(run.frozen, run.counted):
        if has_other_objects(base, mark):
            now = CatalogMetadata.from_json(VersionLog(Storage.at(frozen.uri)).read(frozen.version))
            return mark_after(run.catalog, base, mark, now, write_id, run.engine)
    return None


def _weight(group: GroupMetadata | None) -> RowBytes | None:
    """What a row weighs in the leaves that stand; None where there are none."""
    if group is None or not group.rows:
        return None
    disk = group.bytes / group.rows
    return RowBytes(rows=group.rows, disk=disk, memory=_IN_MEMORY * disk, footer=0)


def _margins(
    run: AppendRun,
    base: CatalogMetadata | None,
    attempt: Attempt,
    schema: pa.Schema,
    changes: dict[str, GroupChange],
    came: PixelTree,
    went: PixelTree,
    settled: SettledNight | None,
) -> dict[float, MarginChange]:
    """Update the margins of the version; for the first version, make those of the spec.

    Where all leaves are written anew, as their rows get their `_row`, so are all margins.
    """
    spec, anew = run.frozen.spec, attempt.numbers is not None
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
        # A row that changes goes as it was, and comes as it is.
        goes=None if settled is None else settled.goes.plus(settled.closes),
        returns=None if settled is None else settled.returns.plus(settled.closes),
        task_bytes=run.request.target_bytes,
        block_bytes=run.request.block_bytes,
    )
    update = MarginUpdate(
        catalog=run.catalog,
        order=order,
        schema=check_columns(spec, schema)[order.group],
        group=base.group(order.group) if base and not anew else None,
        margins=() if anew else margins,
        change=changes[order.group],
        came=came,
        went=went,
        anew=anew,
    )
    with run.phases("margins"):
        made = update.run(run.engine)
    if not anew:
        return made
    old = {margin.radius_arcsec: margin.table(run.catalog) for margin in margins}
    return {arcsec: replace(change, removed=old[arcsec]) for arcsec, change in made.items()}


def _changes(
    run: AppendRun,
    attempt: Attempt,
    stood: int,
    groups: list[str],
    settled: SettledNight | None,
) -> dict[str, GroupChange]:
    """Run the tasks, and check that they took every row, and took out the `stood` rows that they had to."""
    engine, counted = run.engine, run.counted
    weights = tuple(sorted((group, weight.memory) for group, weight in counted.row_bytes.items()))
    comes, goes = counted.rows_out, stood
    if settled is not None:
        comes, goes = comes - settled.late.count + settled.returns.count, settled.goes.count
    size = sum(memory for _, memory in weights) * comes
    target_bytes = bytes_per_task(size, run.request.target_bytes, engine.cores)
    task = AppendTask(run.folder.uri, attempt.write_id, target_bytes, weights, engine.cores, engine.counter())
    rows = len(groups) * comes
    with (
        run.phases("merge"),
        engine.progress("append", rows=rows, done=task.merged),
        blocks_in_write(run.catalog, exchange_root(attempt.write_id), size) as scratch,
    ):
        files = engine.exchange(
            sources=task.sources,
            mapper=task.route,
            targets=task.state.targets,
            reducer=task.merge,
            result=RESULT_SCHEMA,
            block_bytes=run.request.block_bytes,
            scratch=scratch,
            at_once=_at_once(run.catalog, task.state.heaviest),
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
        _check_rows(group, change, comes, taken_out, goes)
        _check_closed(group, pc.sum(removed["closed"]).as_py() or 0, settled)
        changes[group] = change
    return changes


def _at_once(catalog: Storage, heaviest: int) -> int:
    """How many reduce tasks may run at once: of a store, which makes them wait, as many as are light."""
    return 1 if catalog.is_local else max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(heaviest, 1)))


def claimed_early(run: AppendRun, found: FoundVersion | None) -> EarlyClaim | None:
    """Claim the ordinal of an increment, if it is new to the version that is most likely merged with.

    Parameters
    ----------
    run : AppendRun
    found : FoundVersion or None
        That version; None if none is known, and nothing is claimed.
    """
    if found is None or run.catalog.is_local or run.claimed_ordinal() is not None:
        return None
    base = described_version(run.catalog, *found)
    if base.increment(run.key, run.catalog) is not None:
        return None
    return EarlyClaim(found.number, _claim(run, base))


def _claim(run: AppendRun, base: CatalogMetadata | None) -> int:
    first = base.last_ordinal + 1 if base else 0
    owner = f"{run.frozen.dag_id} {run.frozen.run_id} {secrets.token_hex(4)}"
    return claim_ordinal(run.catalog, first, owner)


def _ordinal(
    run: AppendRun,
    base: CatalogMetadata | None,
    claimed: int | None,
    early: EarlyClaim | None,
    begin: Begin,
) -> int:
    """The ordinal that this run has claimed, maybe in an earlier attempt."""
    if claimed is not None:
        return claimed
    ordinal = _claim(run, base) if early is None else early.ordinal
    begin(lambda: run.folder.write(ORDINAL, ClaimedOrdinal(ordinal=ordinal)))
    return ordinal


def _coverage(run: AppendRun, earlier: Increment | None) -> PixelTree:
    """The pixels that rows to be taken out lie in."""
    if earlier is None:
        return PixelTree([], [])
    table = earlier.cells(run.catalog)
    return PixelTree(table["order"].to_numpy(), table["npix"].to_numpy())


def _check_closed(group: str, closed: int, settled: SettledNight | None) -> None:
    if settled is not None and closed != settled.closes.count:
        raise VerificationError(
            f"column group {group!r}: the intervals of {settled.closes.count} rows were to end otherwise, "
            f"and {closed} of them were found; nothing is published. Run the step again; if it happens "
            "twice, report it as a bug"
        )


def _check_rows(group: str, change: GroupChange, added: int, taken_out: int, expected_out: int) -> None:
    difference = (pc.sum(change.came["rows"]).as_py() or 0) - (pc.sum(change.removed["rows"]).as_py() or 0)
    if difference != added - expected_out or taken_out != expected_out:
        raise VerificationError(
            f"column group {group!r}: {added} rows were to be added and {expected_out} taken out, but there "
            f"are {difference} more, and {taken_out} were taken out; nothing is published. Did a source file "
            "change in mid-run? Run it again"
        )
