"""Resolve a sink: freeze the spec, the window, and which rows of a catalog the table does not have yet.

What was sunk is kept by the table itself, set by each commit. So a run takes up whatever is missing, not only
what came last: a night that was published late, or again, is sunk by the next run.
"""

from __future__ import annotations

import logging
from contextlib import closing

from hipslake.errors import SpecError
from hipslake.library_version import __version__
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode
from hipslake.steps.free_space import check_free_space
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.sink.left_branch import take_up_branch
from hipslake.steps.sink.request import (
    ORDERS,
    FrozenSink,
    ResolveSinkReport,
    ResolveSinkRequest,
)
from hipslake.steps.stream.arrived_files import arriving_files
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.storage.folder import Storage
from hipslake.tables.opening import open_table
from hipslake.versions.write_id import new_write_id

log = logging.getLogger(__name__)


def run(request: ResolveSinkRequest) -> ResolveSinkReport:
    """Freeze the run.

    Raises
    ------
    SpecError
        If the spec is wrong, an interval is needed and the run has none, or the catalog has no increments.
    CatalogNotFoundError, VersionNotFoundError
        If the catalog, or that version of it, is not published.
    SchemaMismatchError
        If the catalog lacks a column that the spec names, or Iceberg has no type for one.
    FilterError
        If the filters are not understood.
    PlanError
        If changes are asked for, and it is not known what changed since the table was fed; or the branch has
        something of others, or can never become main.
    StorageError
        If the Iceberg catalog does not answer.
    NoSpaceError
        If the warehouse cannot take any more.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_spec(request.spec_file, TableSpec)
    if spec.stream is not None:
        arriving_files(spec, request.warehouse)  # tells where Spark finds none
    check_free_space(Storage.at(request.warehouse))
    frozen = FrozenSink(
        **{name: value for name, value in request if name != "discard_branch"},
        table=spec.name,
        spec=spec,
        write_id=new_write_id(now_utc()),
        created=now_utc(),
        library_version=__version__,
    )
    if not isinstance(spec.source, CatalogRowsSpec) and spec.needs_interval and request.window.start is None:
        raise SpecError(
            f"{spec.name}: the files are those of an interval, and this run has none; give window_start and "
            "window_end in the form, or trigger it with a logical date"
        )
    _check_end(frozen)
    with (
        phases("table"),
        closing(open_table(spec.place, request.warehouse, spec.table, spec.branch)) as opened,
    ):
        left = take_up_branch(opened, spec, request.window.start, discard=request.discard_branch)
        table = opened.now()
        swept = opened.sweep() if table is not None else []
    version, orders = None, None
    if isinstance(spec.source, CatalogRowsSpec):
        from hipslake.steps.sink.catalog_orders import freeze_orders  # files need nothing of catalogs

        with phases("catalog"):
            version, orders = freeze_orders(frozen, table)
    storage = request.folder.storage
    storage.delete(ORDERS)
    request.folder.write(RunFolder.RUN, frozen)
    if orders is not None:
        request.folder.write(ORDERS, orders)
    with phases("runs"):
        removed = remove_old_runs_of_dag(request.run_uri)
    return ResolveSinkReport(
        table=spec.table,
        write_id=frozen.write_id,
        version=version,
        intervals=len(orders.orders) if orders is not None else 0,
        nothing=orders.why_none if orders is not None else "",
        text=left,
        swept=tuple(swept),
        removed=tuple(removed),
        seconds=phases.seconds,
    )


def _check_end(frozen: FrozenSink) -> None:
    """Refuse to replace the rows of all time from a start on by those of one interval's files."""
    window, spec = frozen.window, frozen.spec
    replaces = spec.mode is TableMode.OVERWRITE_INTERVAL and not isinstance(spec.source, CatalogRowsSpec)
    if replaces and window.start is not None and window.end is None:
        raise SpecError(
            f"{spec.name}: mode overwrite-interval replaces the rows of an interval, and this run does not "
            f"say where the one from {window.start.isoformat()} ends; give window_end in the form, too"
        )
