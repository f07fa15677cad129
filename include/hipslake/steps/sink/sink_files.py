"""Sink files: freeze the list of the files that a run sinks."""

from __future__ import annotations

from contextlib import closing

from hipslake.sources import open_source
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_writing import TableMode
from hipslake.steps.listed_files import MOST_NAMED, list_files
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import ORDERS, FrozenOrders, FrozenSink, SinkFilesReport, SinkFilesRequest
from hipslake.steps.sink.sink_columns import check_sink_columns
from hipslake.tables.marks import same_digest
from hipslake.tables.opening import table_of
from hipslake.tables.sink_order import FileRows, SinkOrder


def run(request: SinkFilesRequest) -> SinkFilesReport:
    """Freeze the files.

    Raises
    ------
    SourceNotFoundError
        If no file matches the source's URI, unless the interval may be empty.
    SchemaMismatchError, SpecError, CorruptFileError
        If the files have not the columns that the spec names, as `check_sink_columns` finds.
    """
    phases = Phases()
    frozen = request.folder.read(RunFolder.RUN, FrozenSink)
    spec = frozen.spec
    assert isinstance(spec.source, FileRowsSpec)
    with phases("list"):
        may_be_empty = frozen.allow_empty and spec.needs_interval
        files, passed_over = list_files(frozen.source, may_be_empty=may_be_empty)
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
    with phases("table"), closing(table_of(order)) as opened:
        table = opened.now()
    marks = None if table is None else table.marks
    known = None if marks is None else marks.of(order.key)
    earlier = marks is not None and (
        marks.was_sunk_earlier(order.key, order.start) or marks.may_stand(order.key)
    )
    why_none = ""
    overwrites = table is not None and spec.mode is TableMode.OVERWRITE_INTERVAL
    if not files and known is None and not earlier and not overwrites:
        why_none = "The interval has no files, and nothing of it is in the table."
    elif not files and spec.mode is TableMode.UPSERT:
        why_none = "The interval has no files; mode upsert takes no rows away."
    elif known is not None and same_digest(known.fingerprint, order.fingerprint) and not frozen.force:
        why_none = "The table has the rows of exactly these files. Set force to sink them again."
    if not why_none:
        with phases("columns"):
            check_sink_columns(open_source(frozen.source), files, spec)
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
