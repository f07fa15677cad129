"""The HiPS of a version: rows are ranked, cut into tiles by tasks, and published in a folder of their own.

Two passes over the leaf files. The first reads what ranks rows, so that it is known which rows of each leaf
stand in tiles that are coarser than the leaf. The second reads the rows and writes tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.moc_files import file_of_region
from hipslake.engine.model import Engine
from hipslake.errors import VerificationError
from hipslake.exports.export_folder import NewFolder
from hipslake.exports.hips.hips_files import (
    COLUMNS,
    COVERAGE,
    PROPERTIES,
    HipsProperties,
    allsky_path,
    columns_file,
    completeness_line,
    properties_text,
    tile_path,
    view_of,
)
from hipslake.exports.hips.progressive_order import ALLSKY_ORDERS, FIRST_ORDER, taken_above
from hipslake.exports.hips.tile_lines import header_line
from hipslake.exports.moc_encoding import moc_fits
from hipslake.planning.splits import assign_targets
from hipslake.sphere.intervals import Intervals
from hipslake.steps.export.outputs import refuse_published
from hipslake.steps.hips.hips_rows import HipsSource
from hipslake.steps.hips.hips_versions import (
    HIPS_MANIFEST,
    HipsFolder,
    check_place,
    finished_hips,
    folder_name,
    options_of,
    point_at_newest_hips,
    remove_old_hips,
)
from hipslake.steps.hips.request import HipsReport, HipsRequest
from hipslake.steps.hips.tasks import (
    COUNTED,
    WORK,
    WRITTEN_TILES,
    CoarseTilesTask,
    LeafTilesTask,
    RankTask,
    candidates_of,
    coverage_of,
)
from hipslake.steps.report import Phases
from hipslake.steps.row_routing import runs_of
from hipslake.steps.run import catalog_uri
from hipslake.storage.folder import Storage
from hipslake.versions.pins import keep_for_reading

_MOST_TEXT = 500  # characters


def run(request: HipsRequest, engine: Engine) -> HipsReport:
    """Make the HiPS of a version, unless it stands already; let `current` and the list name the newest.

    Run again, also after it was killed before its report, it makes the folder anew.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If there is no such catalog or version.
    SpecError
        If the region, a filter or the output makes no sense.
    SchemaMismatchError
        If there is no such column, tiles have no form for it, or rows cannot be ordered by it.
    NotWritableError
        If the output cannot be written.
    VerificationError
        If a leaf file is missing or damaged.
    """
    phases = Phases()
    with _preparing(request, phases) as (source, target):
        asked = source.request
        made = next((each for each in finished_hips(target) if _is_asked_for(each, source)), None)
        unchanged = made is not None
        if made is None:
            place = target.uri(folder_name(source.catalog.version, request.run_uri))
            folder = NewFolder(place, request.run_uri, manifest=HIPS_MANIFEST)
            files = folder.begin()  # before the block: what fails here may be another's
            try:
                made = _make(source, folder, files, engine, phases)
            except BaseException:
                folder.give_up()
                raise
            finally:
                request.folder.storage.delete_tree(WORK)
        with phases("publish"):
            current = point_at_newest_hips(target, asked.service_url, made.name)
            removed = remove_old_hips(target, asked.keep_versions, current)
    return HipsReport(
        rows_in=made.rows,
        rows_out=made.rows,
        bytes=made.bytes,
        files=made.files,
        version=made.version,
        catalog_uri=made.catalog_uri,
        output=target.uri(made.name),
        deepest=made.deepest,
        tiles=made.tiles,
        unchanged=unchanged,
        removed=tuple(removed),
        left_out=source.left_out,
        seconds=phases.seconds,
    )


@contextmanager
def _preparing(request: HipsRequest, phases: Phases) -> Iterator[tuple[HipsSource, Storage]]:
    """Resolve a request, and look whether it can be written; no vacuum takes its version meanwhile."""
    root = Storage.at(catalog_uri(request.warehouse, request.catalog))
    with phases("prepare"):
        catalog = CatalogReader.open(root.root, request.version)
        refuse_published(request.output_uri)
        target = Storage.at(request.output_uri)
        check_place(target, root.uri())
        fixed = request.model_copy(update={"version": catalog.version})
        source = HipsSource.of(catalog, fixed)
    with ExitStack() as held:
        keep_for_reading(held, root, catalog.version)
        yield source, target


def _is_asked_for(made: HipsFolder, source: HipsSource) -> bool:
    """Whether a HiPS that stands there is of the version and the options that are asked for."""
    return (made.version, made.options) == (source.catalog.version, options_of(source.request))


def _make(
    source: HipsSource, folder: NewFolder, target: Storage, engine: Engine, phases: Phases
) -> HipsFolder:
    """Write the files of a HiPS, and finish its folder; return what its manifest says."""
    request, scratch = source.request, source.request.folder.storage
    scratch.delete_tree(WORK)
    stretches = _stretches(source, request.task_bytes)
    (start, stop), tasks = source.spans, len(stretches)
    with phases("rank"), engine.progress("hips: ranks"):
        counted = _run(engine, RankTask(request, stretches), tasks, COUNTED)
        rows = np.zeros(len(start), np.int64)
        rows[counted["part"].to_numpy()] = counted["rows"].to_numpy()
        covered = coverage_of(scratch, tasks)
        part, ranks = candidates_of(scratch, tasks)
        above = taken_above(start, source.orders, part, ranks.along(), source.limits)
        del part, ranks
    done = engine.counter()
    with phases("tiles"), engine.progress("hips: tiles", rows=int(rows.sum()), done=done):
        leaves = LeafTilesTask(request, above, target, stretches, done)
        written = [_run(engine, leaves, tasks, WRITTEN_TILES)]
        orders = tuple(np.flatnonzero(above.sum(axis=0)).tolist())
        coarse = CoarseTilesTask(request, above, target, orders, tasks, start, rows)
        written.append(_run(engine, coarse, len(orders), WRITTEN_TILES))
    tiles = pa.concat_tables(written)
    shown, total = int(sum(tiles["rows"].to_pylist())), int(rows.sum())
    if shown != total:
        raise VerificationError(
            f"{target.uri()}: {total} rows were ranked, and {shown} stand in tiles; run the step again, and "
            "if it happens twice, report it as a bug"
        )
    with phases("describe"):
        filled = rows > 0
        size = int(sum(tiles["bytes"].to_pylist()))
        size += sum(_write_allsky(source, target, tiles, order) for order in ALLSKY_ORDERS)
        made = HipsFolder(
            name=folder.uri.rpartition("/")[2],
            version=source.catalog.version,
            created=request.created.isoformat(),
            catalog_uri=source.catalog.uri,
            options=options_of(request),
            rows=total,
            tiles=int(sum(tiles["tiles"].to_pylist())),
            files=int(sum(tiles["tiles"].to_pylist())) + len(ALLSKY_ORDERS) + len(COLUMNS) + 2,
            bytes=size,
            deepest=max([*tiles["order"].to_pylist(), *ALLSKY_ORDERS]),
        )
        view = view_of(start[filled], stop[filled])
        made = made._replace(bytes=size + _write_descriptions(source, target, made, covered, view))
        target.sync()
        about = {key: value for key, value in made._asdict().items() if key != "name"}
        asked = request.model_dump(mode="json", exclude={"run_uri", "warehouse"})
        folder.finish({**about, "request": asked, "left_out": source.left_out})
    return made


def _run(engine: Engine, task: Any, tasks: int, result: pa.Schema) -> pa.Table:
    return engine.run(task, tasks=tasks, result=result) if tasks else result.empty_table()


def _stretches(source: HipsSource, task_bytes: int) -> tuple[tuple[int, int], ...]:
    """The parts [low, high) of each task."""
    sizes = np.array([part.bytes for part in source.parts], np.int64)
    return tuple(runs_of(assign_targets(sizes, task_bytes))) if len(sizes) else ()


def _write_allsky(source: HipsSource, target: Storage, tiles: pa.Table, order: int) -> int:
    """Write all tiles of an order as one; return its bytes."""
    counts = list(zip(tiles["order"].to_pylist(), tiles["rows"].to_pylist(), strict=True))
    shown, total = sum(rows for each, rows in counts if each <= order), sum(rows for _, rows in counts)
    header = header_line(source.schema.names).encode()
    size = 0
    with target.open(allsky_path(order), "wb", durable=False) as file:
        size += file.write(completeness_line(shown, total).encode() + header)
        for npix in range(12 << (2 * order)):
            path = tile_path(order, npix)
            if any(each == order for each, _ in counts) and target.is_file(path):
                size += file.write(target.read(path).split(b"\n", 2)[2])
    return size


def _write_descriptions(
    source: HipsSource,
    target: Storage,
    made: HipsFolder,
    covered: Intervals,
    view: tuple[float, float, float],
) -> int:
    """Write what lies beside the tiles; return the bytes."""
    metadata, request = source.catalog.metadata, source.request
    properties = HipsProperties(
        creator_did=request.creator_did or f"ivo://UNK.AUTH/C/{request.catalog}",
        name=request.catalog,
        title=metadata.description.partition("\n")[0].strip() or request.catalog,
        description=metadata.description,
        attribution=metadata.attribution,
        origin=f"catalog {request.catalog}, version {made.version}",
        rule=_rule(request),
        status=f"{'public' if request.public else 'private'} master clonableOnce",
        created=request.created,
        deepest=made.deepest,
        rows=made.rows,
        tiles=made.tiles,
        bytes=made.bytes,
        sky_fraction=covered.sky_fraction,
        view=view,
    )
    names = source.schema.names
    columns = columns_file(source.schema, names[:2], request.catalog, metadata.description)
    files = {
        PROPERTIES: properties_text(properties.fields()).encode(),
        COVERAGE: moc_fits(covered, request.coverage_order),
        **dict.fromkeys(COLUMNS, columns),
    }
    for path, data in files.items():
        target.write(path, data)
    return sum(map(len, files.values()))


def _rule(request: HipsRequest) -> str:
    """Which rows stand in which tiles, in words."""
    by = "at random"
    if request.order_by is not None:
        by = f"by {request.order_by}, {'largest' if request.descending else 'smallest'} first"
    region = request.region
    if region is not None and file_of_region(region) is not None:
        region = "of a MOC"  # where its file lies is nobody's who sees the tiles
    chosen = [
        f"{name} {value if len(value) <= _MOST_TEXT else value[:_MOST_TEXT] + '...'}"
        for name, value in (("region", region), ("filter", request.filters))
        if value is not None
    ]
    return (
        f"rows {by}; at most {request.allsky_rows} per tile of orders {FIRST_ORDER} to {ALLSKY_ORDERS[-1]}, "
        f"{request.tile_rows} below, all that are left at order {request.deepest_order}"
        + "".join(f"; {each}" for each in chosen)
    )


def bytes_to_show(request: HipsRequest) -> int:
    """Return how many bytes of leaf files a HiPS is made of; that decides whether Spark runs the step."""
    root = catalog_uri(request.warehouse, request.catalog)
    source = HipsSource.of(CatalogReader.open(root, request.version), request)
    return sum(part.bytes for part in source.parts)
