"""How much a sink has to handle, found before it is decided where it runs.

New rows count as they are stored. Of the table, files count that may have to be read and written again; what
lies outside of the new rows' keys, or of their interval, is not touched, however large the table is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.engine.this_process import ThisProcess
from hipslake.errors import HipslakeError
from hipslake.specs.table_spec import TableMode
from hipslake.steps.sink.new_rows import extremes
from hipslake.steps.sink.request import FrozenOrders
from hipslake.steps.sink.sink_rows import Interval, NewRows
from hipslake.tables.catalogs import find_table, open_catalog
from hipslake.tables.data_files import live_files
from hipslake.tables.order import SinkOrder
from hipslake.tables.rows import rows_of
from hipslake.tables.schemas import arrow_schema
from hipslake.tables.skipping import files_in_interval, files_with_keys

log = logging.getLogger(__name__)


def bytes_to_sink(orders: FrozenOrders, enough: int) -> int:
    """Bytes that a run's sink handles: of its rows, and of the files of the table that they may change.

    Parameters
    ----------
    orders : FrozenOrders
    enough : int
        Where it is clear that this many come together, nothing more is looked at: the number is then too
        small, but not below this one.

    Returns
    -------
    int
        At least what will be read. An order that makes no sense counts by its rows alone: the sink tells.
    """
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
    with closing(open_catalog(order.spec.iceberg, order.warehouse)) as catalog:
        table = find_table(catalog, order.spec.table)
        if table is None:
            return 0
        files = live_files(table)
        whole = _size(files)
        if whole < enough:  # in no case too much
            return whole
        if order.spec.mode is TableMode.UPSERT:
            return _size(_with_keys(order, table, files))
        within = Interval.of(order)
        if within.column not in table.schema().column_names:
            return whole
        return _size(files_in_interval(files, table, within.column, within.start, within.end)[1])


def _with_keys(order: SinkOrder, table: Table, files: Sequence[DataFile]) -> list[DataFile]:
    schema = arrow_schema(table.schema())
    rows = rows_of(order.rows, ThisProcess(), schema)
    key = order.spec.key
    if not set(key) <= set(schema.names) & set(rows.schema.names):
        return list(files)
    new = NewRows(rows, schema, ())
    return files_with_keys(files, table, key, list(_boxes(new, key)))


def _boxes(new: NewRows, key: Sequence[str]) -> Iterator[pa.Table]:
    for part in range(new.rows.tasks):
        for batch in new.read(part, list(key)):
            known = batch.drop_null()
            if known.num_rows:
                yield extremes(known, key)


def _size(files: Sequence[DataFile]) -> int:
    return sum(file.file_size_in_bytes for file in files)
