"""How many bytes a sink reads, which decides whether Spark runs it.

New rows count as they are stored. Of the table, files count that may have to be read and written again; what
lies outside of the new rows' keys, or of their interval, is not touched, however large the table is. Where
rows go by files of deletes, files are only looked through, at few columns, and nothing of them is held.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from hipslake.engine.this_process import ThisProcess
from hipslake.errors import HipslakeError
from hipslake.specs.table_writing import RowOperation, TableMode
from hipslake.steps.sink.count_rows import extremes
from hipslake.steps.sink.position_deletes import merges_on_read
from hipslake.steps.sink.request import SinkRequest
from hipslake.steps.sink.sink_try import Interval, NewRows
from hipslake.steps.sink.source_rows import Rows, rows_of
from hipslake.tables.file_pruning import files_in_interval, files_with_keys
from hipslake.tables.opening import table_of
from hipslake.tables.protocol import LiveFile, TableState
from hipslake.tables.sink_order import SinkOrder

log = logging.getLogger(__name__)

_OPERATION: dict[TableMode, RowOperation] = {
    TableMode.UPSERT: "merge",
    TableMode.OVERWRITE_INTERVAL: "update",
}
_LOOKED_THROUGH = 20
"""So many bytes of files whose keys are read count as one of files that are written again. A start of Spark
takes 12 s of the processor, and so do the keys of 5 GB (those of 434 MB, in 20M rows of 3 columns, 1 s)."""


def bytes_to_sink(request: SinkRequest, enough: int = 1 << 62) -> int:
    """Bytes that a run's sink handles: of its rows, and of the files of the table that they may change.

    Parameters
    ----------
    request : SinkRequest
    enough : int, optional
        Where it is clear that this many come together, nothing more is looked at: the number is then too
        small, but not below this one.

    Returns
    -------
    int
        At least what will be read. An order that makes no sense counts by its rows alone: the sink tells.
    """
    orders = request.orders()
    total = orders.total_bytes
    for order in orders.orders:
        if order.spec.mode is TableMode.APPEND or total >= enough:
            break
        try:
            total += _bytes_looked_through(order, enough - total)
        except HipslakeError as error:
            log.info("%s: its size in the table is not known: %s", order.key, error)
    return total


def _bytes_looked_through(order: SinkOrder, enough: int) -> int:
    with closing(table_of(order)) as opened:
        table = opened.now()
        if table is None:
            return 0
        whole = _size(table.files)
        if _only_looks(order, table):
            return whole // _LOOKED_THROUGH
        if whole < enough:  # in no case too much
            return whole
        if order.spec.follows_changes and order.force:
            return whole
        if order.spec.mode is TableMode.UPSERT:
            return _size(_with_keys(order, table))
        within = Interval.of(order)
        if within.column not in table.schema.names:
            return whole
        _, some = files_in_interval(table.files, table.schema, within.column, within.start, within.end)
        return _size(some)


def _only_looks(order: SinkOrder, table: TableState) -> bool:
    """Whether no file of a table is written again."""
    spec = order.spec
    if spec.follows_changes and order.force:
        return False
    return merges_on_read(table, spec.table, spec.write, _OPERATION[spec.mode])


def _with_keys(order: SinkOrder, table: TableState) -> Sequence[LiveFile]:
    before = table.marks.of(order.key) if order.spec.follows_changes else None
    if before is not None:
        from hipslake.steps.sink.changed_rows import changes_since  # files need nothing of catalogs

        found = changes_since(order, before)
        sources: tuple[Rows, ...] = (found.came, found.went)
    else:
        sources = (rows_of(order.rows, ThisProcess(), table.schema),)
    key = order.spec.key
    if not set(key) <= set(table.schema.names) & set(sources[0].schema.names):
        return table.files
    boxes = [box for rows in sources for box in _boxes(NewRows(rows, table.schema, ()), key)]
    return files_with_keys(table.files, key, boxes)


def _boxes(new: NewRows, key: Sequence[str]) -> Iterator[pa.Table]:
    for part in range(new.rows.tasks):
        for batch in new.read(part, list(key)):
            known = batch.drop_null()
            if known.num_rows:
                yield extremes(known, key)


def _size(files: Sequence[LiveFile]) -> int:
    return sum(file.bytes for file in files)
