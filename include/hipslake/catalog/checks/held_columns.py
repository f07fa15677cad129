"""Sums of hashes over those columns of leaves that key records tell, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.records.key_columns import as_plain
from hipslake.catalog.records.record_rows import BEGIN_COLUMN, END_COLUMN, ORDER_COLUMN, key_of
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.validity import NIGHT_START
from hipslake.clustering.checksum import row_hashes
from hipslake.storage.folder import Storage

SUMS = pa.schema(
    [("column", pa.string()), ("rows", pa.int64()), ("beaten", pa.int64()), ("total", pa.int64())]
)


class HeldColumn(NamedTuple):
    """A column of a group, and the column of records that it is held against.

    Attributes
    ----------
    name : str
        Of the column of records.
    label : str
        By which the sum over leaves is known: a column may stand in several groups.
    kind : pyarrow.DataType
        Of the column of records.
    files : ColumnFiles
    """

    name: str
    label: str
    kind: pa.DataType
    files: ColumnFiles


def held_columns(storage: Storage, metadata: CatalogMetadata, schema: pa.Schema) -> Iterator[HeldColumn]:
    """The columns of leaves that records tell: key, order, and the ends of intervals in each group.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        With key records.
    schema : pyarrow.Schema
        Of these.
    """
    records = metadata.key_records
    assert records is not None
    columns = {name: name for name in key_of(schema).names}
    if records.order_by is not None:
        columns[ORDER_COLUMN] = records.order_by
    for name, column in columns.items():
        yield HeldColumn(name, name, schema.field(name).type, ColumnFiles.of(storage, metadata, column))
    if records.validity is None:
        return
    kind = NIGHT_START if records.order_by is None else schema.field(ORDER_COLUMN).type
    for group in metadata.groups:
        for name, column in zip((BEGIN_COLUMN, END_COLUMN), records.validity.columns, strict=True):
            files = ColumnFiles.of(storage, metadata, column, group.name)
            yield HeldColumn(name, f"{name} of {group.name}", kind, files)


@dataclass(frozen=True)
class LeafSumsTask:
    """Adds up the hashes of a column of the leaves, with the place and the number of each row."""

    columns: tuple[HeldColumn, ...]  # each with some of its files

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give the sums of a part."""
        held = self.columns[number]
        for batch in held.files.batches((ROW_COLUMN,)):
            column = as_plain(batch.column(held.files.column), held.kind)
            placed = {each: batch.column(each) for each in ROW_IDENTITY}
            yield sum_of(held.label, pa.table({"value": column, **placed}), 0)


def sum_of(name: str, rows: pa.Table, beaten: int) -> pa.RecordBatch:
    """A row of `SUMS`: of a column of rows, with the place and the number of each.

    Parameters
    ----------
    name : str
        By which the sum is known.
    rows : pyarrow.Table
        The column, whatever its name, `_healpix_29` and `_row`.
    beaten : int
        Rows of records that lost.
    """
    columns = {"value": rows.column(0), **{each: rows[each] for each in ROW_IDENTITY}}
    total = row_hashes(pa.table(columns)).sum(dtype=np.uint64).view(np.int64)
    return pa.record_batch([[name], [rows.num_rows], [beaten], [int(total)]], schema=SUMS)
