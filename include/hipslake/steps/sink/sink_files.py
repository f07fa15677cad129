"""Sink files: freeze the list of the files that a run sinks."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import ClassVar

from hipslake.errors import SourceNotFoundError
from hipslake.sources import open_source
from hipslake.sources.table_formats import check_plain_files
from hipslake.specs.table_spec import FileRowsSpec, TableMode
from hipslake.steps.ingest.inputs import MOST_NAMED
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import ORDERS, FrozenOrders, FrozenSink
from hipslake.tables.catalogs import find_table, open_catalog
from hipslake.tables.older_sinks import same_digest
from hipslake.tables.order import FileRows, SinkOrder
from hipslake.tables.sunk import StandingSinks, was_sunk_earlier

_log = logging.getLogger(__name__)


class SinkFilesRequest(Request):
    """List the files of a run of a table spec."""

    step: ClassVar[str] = "inputs"
    outputs: ClassVar[tuple[str, ...]] = (ORDERS,)
    reusable: ClassVar[bool] = False  # the list may have changed

    def fingerprint(self) -> str:
        """Return the fingerprint of what the run sinks, once it is frozen."""
        return self.folder.read(ORDERS, FrozenOrders).fingerprint


class SinkFilesReport(Report):
    """The files found."""

    step: str = SinkFilesRequest.step
    empty: bool = False  # an interval without files
    nothing: str = ""  # why there is nothing to do
    passed_over: tuple[str, ...] = ()  # the first of what matches the URI and is not read
    passed_over_count: int = 0


def run(request: SinkFilesRequest) -> SinkFilesReport:
    """Freeze the files.

    Raises
    ------
    SourceNotFoundError
        If no file matches the source's URI, unless the interval may be empty.
    """
    phases = Phases()
    frozen = request.folder.read(RunFolder.RUN, FrozenSink)
    spec = frozen.spec
    assert isinstance(spec.source, FileRowsSpec)
    with phases("list"):
        try:
            listing = open_source(frozen.source).listing()
            listing.log_passed_over(_log)
            files, passed_over = tuple(listing.files), listing.passed_over
            check_plain_files(file.uri for file in files)
        except SourceNotFoundError:
            if not (frozen.allow_empty and spec.needs_interval):
                raise
            files, passed_over = (), ()
    order = SinkOrder(
        spec=spec,
        warehouse=frozen.warehouse,
        rows=FileRows(source=frozen.source, files=files, columns=spec.source.columns),
        start=frozen.window.start if spec.needs_interval else None,
        end=frozen.window.end if spec.needs_interval else None,
        whole=not spec.needs_interval,
        write_id=frozen.write_id,
        force=frozen.force,
    )
    with phases("table"), closing(open_catalog(spec.iceberg, frozen.warehouse)) as iceberg:
        table = find_table(iceberg, spec.table)
        standing = None if table is None else StandingSinks(table)
        known = None if standing is None else standing.of(order.key)
        earlier = (
            table is not None
            and standing is not None
            and (was_sunk_earlier(table, order.key, order.start) or standing.may_stand(order.key))
        )
    why_none = ""
    overwrites = table is not None and spec.mode is TableMode.OVERWRITE_INTERVAL
    if not files and known is None and not earlier and not overwrites:
        why_none = "The interval has no files, and nothing of it is in the table."
    elif not files and spec.mode is TableMode.UPSERT:
        why_none = "The interval has no files; mode upsert takes no rows away."
    elif known is not None and same_digest(known.fingerprint, order.fingerprint) and not frozen.force:
        why_none = "The table has the rows of exactly these files. Set force to sink them again."
    size = sum(file.size for file in files)
    orders = FrozenOrders.of(
        () if why_none else (order,),
        library_version=frozen.library_version,
        total_bytes=size,
        why_none=why_none,
    )
    request.folder.write(ORDERS, orders)
    return SinkFilesReport(
        files=len(files),
        bytes=size,
        empty=not files,
        nothing=why_none,
        passed_over=passed_over[:MOST_NAMED],
        passed_over_count=len(passed_over),
        seconds=phases.seconds,
    )
