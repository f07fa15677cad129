"""The margin step: margins of a version that a run is about to publish, or of the newest published one.

Those of a published version are made beside it, and added by a commit of their own (`add_margins`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pyarrow.compute as pc

from hipslake.catalog.committing import commit_where_it_fits, committed_before, newest_version
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, total_of
from hipslake.catalog.placement import stored_position
from hipslake.catalog.published_spec import published_spec
from hipslake.catalog.schema import check_columns
from hipslake.engine.model import Engine
from hipslake.errors import CatalogNotFoundError, ConflictError, SpecError, VersionNotFoundError
from hipslake.library_version import __version__
from hipslake.specs.margin_spec import distances_text
from hipslake.steps.attempt_places import MARGINS
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES, MAX_BLOCK_BYTES, WriteReport, WriteRequest
from hipslake.steps.margin.build_margins import build_margins
from hipslake.steps.margin.kept_margins import KeptMargins, kept_margins
from hipslake.steps.margin.request import MARGIN_FILES, MarginReport, MarginRequest
from hipslake.steps.margin.state import MarginOrder
from hipslake.steps.published import version_gone_on_from
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.pins import give_up
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)


def run(request: MarginRequest, engine: Engine) -> MarginReport:
    """Make the margins of a run that is not published yet, or add some to the newest version.

    Raises
    ------
    CatalogNotFoundError
        If nothing is published that margins could be added to.
    ConflictError
        If others kept changing the catalog.
    """
    phases = Phases()
    report = _of_published(request, engine, phases) if request.arcsec else _of_run(request, engine, phases)
    return report.model_copy(update={"seconds": phases.seconds})


def _of_run(request: MarginRequest, engine: Engine, phases: Phases) -> MarginReport:
    """Margins of the version that a run is about to publish, into its write."""
    folder = request.folder
    frozen = FrozenRun.of(folder)
    spec, catalog = frozen.spec, Storage.at(frozen.catalog_uri)
    order = MarginOrder(
        write_id=frozen.write_id,
        spec=spec,
        radii=spec.margin.arcsec,
        task_bytes=request.task_bytes,
        block_bytes=request.block_bytes,
    )
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    leaves = files.filter(pc.equal(files["group"], order.group)).select(PARTITION_SCHEMA.names)
    rows = pc.sum(leaves["rows"]).as_py() or 0
    report = MarginReport(catalog_uri=catalog.uri(), rows_in=rows, rows_out=rows)
    if not order.radii:
        return report
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    schema, leaves = check_columns(spec, folder.schema())[order.group], leaves.cast(PARTITION_SCHEMA)
    with phases("margin"), Heartbeat(catalog, frozen.write_id), ExitStack() as held:
        base = version_gone_on_from(held, catalog, written.base_version)
        made: KeptMargins | str | None = written.full_because
        if base is not None:
            made = kept_margins(catalog, base, order, schema, leaves, engine)
        elif written.base_version is not None:
            made = f"version {written.base_version} was vacuumed"
        if isinstance(made, KeptMargins):
            assert base is not None
            files = made.files
            told: dict[str, Any] = {"files_kept": made.kept, "base_version": base.version}
        else:
            if made is not None:
                log.info("Margins are made whole: %s.", made)
            files, told = build_margins(engine, catalog, order, schema, leaves), {"full_because": made}
    write_table(folder.storage, MARGIN_FILES, files)
    rows_of = {name: total_of(files.filter(pc.equal(files["margin"], name)), "rows") for name in order.names}
    size = total_of(files, "bytes")
    return report.model_copy(update={"margin_rows": rows_of, "files": files.num_rows, "bytes": size, **told})


def _of_published(request: MarginRequest, engine: Engine, phases: Phases) -> MarginReport:
    """Margins of the newest version, committed as the next one."""
    folder, frozen = request.folder, FrozenRun.of(request.folder)
    state, catalog = FrozenState.of(frozen), Storage.at(frozen.catalog_uri)
    committed = committed_before(catalog, attempts_of(folder, MARGINS, state))
    if committed is None:
        with phases("margin"):
            committed = add_margins(
                catalog,
                request.arcsec,
                engine,
                tries=request.merges,
                task_bytes=request.task_bytes,
                block_bytes=request.block_bytes,
                library_version=frozen.library_version,
                began=lambda write_id: note_attempt(folder, MARGINS, write_id, state),
            )
    with phases("pointers"):
        point_at_newest(catalog)
    report = MarginReport(catalog_uri=catalog.uri())
    if committed is None:
        return report
    made = [margin for margin in committed.margins if margin.radius_arcsec in request.arcsec]
    return report.model_copy(
        update={
            "rows_in": committed.total_rows,
            "rows_out": committed.total_rows,
            "margin_rows": {margin.name: margin.rows for margin in made},
            "files": sum(margin.files for margin in made),
            "bytes": sum(margin.bytes for margin in made),
            "version": committed.version,
            "parent": committed.parent,
        }
    )


def add_margins(
    catalog: Storage,
    arcsec: tuple[float, ...],
    engine: Engine,
    *,
    tries: int = 10,
    task_bytes: int = DEFAULT_TARGET_BYTES,
    block_bytes: int = MAX_BLOCK_BYTES,
    library_version: str = __version__,
    began: Callable[[str], None] = lambda write_id: None,
) -> CatalogMetadata | None:
    """Add margins to the newest version of a catalog, by a commit of their own.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    arcsec : tuple of float
        Distances. Those at which the version has a margin already are passed over.
    engine : Engine
    tries : int
        How often it starts over after others have changed the catalog.
    task_bytes, block_bytes : int
        As for `MarginRequest`.
    library_version : str
    began : callable
        Is told the write id of every attempt, before anything can be committed under it.

    Returns
    -------
    CatalogMetadata or None
        The version that was committed; None if no margin was missing.

    Raises
    ------
    CatalogNotFoundError
        Nothing is published.
    SpecError
        The primary column group lacks the position columns, or another group is called like the margin.
    ConflictError
        Others kept changing the catalog.
    """
    for attempt in range(tries):
        base = newest_version(catalog)
        if base is None:
            raise CatalogNotFoundError(f"{catalog.uri()}: nothing is published; ingest the catalog first")
        radii = missing_margins(base, arcsec)
        if not radii:
            log.info("%s has these margins already: %s.", catalog.uri(), distances_text(arcsec))
            return None
        if attempt:
            wait_for_others(attempt)
        with suppress(VersionNotFoundError):  # overtaken, and vacuumed before it was pinned
            with writing(catalog) as write:
                began(write.id)
                write.pin.hold(base.version)
                order = margin_order(base, radii, write.id).model_copy(
                    update={"task_bytes": task_bytes, "block_bytes": block_bytes}
                )
                leaves = base.groups[0].table(catalog)
                mounted = catalog.mounting(base.mounts)
                files = build_margins(engine, mounted, order, base.schema_of(), leaves)
                margins = order.described(files, catalog)
                draft = partial(_draft, catalog, base, margins, write.id, library_version)
                if (committed := commit_where_it_fits(catalog, write, draft)) is not None:
                    return committed
            give_up(catalog, write.id)
    raise ConflictError(f"{catalog.uri()}: others changed the catalog {tries} times; try again later")


def margin_order(base: CatalogMetadata, radii: tuple[float, ...], write_id: str) -> MarginOrder:
    """Return the order of margins of a version that is published.

    Parameters
    ----------
    base : CatalogMetadata
    radii : tuple of float
        Distances, in arcseconds.
    write_id : str
        Names the folder of the margins.

    Raises
    ------
    SpecError
        The primary column group lacks the position columns, or another group is called like a margin.
    """
    spec = published_spec(base)
    schema = base.schema_of()
    position = stored_position(spec, schema)
    lacking = {position.ra, position.dec} - set(schema.names)
    if lacking:
        raise SpecError(
            f"catalog {base.catalog}: its first column group, {base.groups[0].name!r}, lacks position column "
            f"{', '.join(sorted(lacking))}, so it can have no margin; ingest it with the positions there"
        )
    order = MarginOrder(write_id=write_id, spec=spec, radii=radii)
    if taken := sorted({*order.names} & {group.name for group in base.groups}):
        raise SpecError(
            f"catalog {base.catalog}: column group {', '.join(taken)} is called like this margin; ingest it "
            "with another name of the group"
        )
    return order


def _draft(
    catalog: Storage, base: CatalogMetadata, margins: tuple[Margin, ...], write_id: str, library_version: str
) -> CatalogMetadata:
    """The newest version with further margins; the rows are what they are."""
    newest = newest_version(catalog)
    assert newest is not None  # versions do not go away
    if newest.groups[0] != base.groups[0]:
        raise ConflictError(f"column group {base.groups[0].name!r} has changed")
    if any(newest.margin(margin.radius_arcsec) for margin in margins):
        raise ConflictError("another run has made the same margin")
    return newest.followed_by(write_id, library_version=library_version, margins=(*newest.margins, *margins))


def missing_margins(base: CatalogMetadata, arcsec: tuple[float, ...]) -> tuple[float, ...]:
    """Return the distances at which a version has no margin."""
    return tuple(each for each in arcsec if base.margin(each) is None)


def bytes_to_read(request: MarginRequest) -> int:
    """Return how many bytes of leaf files are read at most; that decides whether Spark runs the step."""
    folder = request.folder
    if request.arcsec:
        base = newest_version(Storage.at(FrozenRun.of(folder).catalog_uri))
        return base.groups[0].bytes if base else 0
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    primary = FrozenRun.of(folder).spec.column_groups[0].name
    if written.base_version is not None and written.own_bytes is not None:  # of others no leaf is opened
        return written.own_bytes
    if primary in written.group_bytes:
        return written.group_bytes[primary]
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    return pc.sum(files.filter(pc.equal(files["group"], primary))["bytes"]).as_py() or 0
