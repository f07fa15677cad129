"""The margin step: margins of a version that a run is about to publish, or of the newest published one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.committing import committed_before
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.schema import check_columns
from hipslake.engine.model import Engine
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.margin.add_margins import add_margins
from hipslake.steps.margin.build_margins import build_margins
from hipslake.steps.margin.request import MARGIN_FILES, MARGINS, MarginReport, MarginRequest
from hipslake.steps.margin.state import MarginOrder
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat


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
    frozen = folder.run()
    spec, catalog = frozen.spec, Storage.at(frozen.catalog_uri)
    order = MarginOrder(write_id=frozen.write_id, spec=spec, radii=spec.margin.arcsec)
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    leaves = files.filter(pc.equal(files["group"], order.group)).select(PARTITION_SCHEMA.names)
    rows = pc.sum(leaves["rows"]).as_py() or 0
    report = MarginReport(catalog_uri=catalog.uri(), rows_in=rows, rows_out=rows)
    if not order.radii:
        return report
    with phases("margin"), Heartbeat(catalog, frozen.write_id):
        schema = check_columns(spec, folder.schema())[order.group]
        made = build_margins(
            engine,
            catalog,
            order,
            schema,
            leaves.cast(PARTITION_SCHEMA),
            task_bytes=request.task_bytes,
            block_bytes=request.block_bytes,
        )
    write_table(folder.storage, MARGIN_FILES, made)
    return _told(report, order, made)


def _of_published(request: MarginRequest, engine: Engine, phases: Phases) -> MarginReport:
    """Margins of the newest version, committed as the next one."""
    folder, frozen = request.folder, request.folder.run()
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


def _told(report: MarginReport, order: MarginOrder, files: pa.Table) -> MarginReport:
    rows = {
        name: pc.sum(files.filter(pc.equal(files["margin"], name))["rows"]).as_py() or 0
        for name in order.names
    }
    size = pc.sum(files["bytes"]).as_py() or 0
    return report.model_copy(update={"margin_rows": rows, "files": files.num_rows, "bytes": size})
