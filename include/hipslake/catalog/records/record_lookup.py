"""Lookups: the records of some keys, and superseded rows by their `_row`, over all runs of a version.

Of each run, only files are opened, and only row groups read, whose keys are on both sides of a key that is
looked for. Keys that are near each other so touch a few row groups of each run, however long the run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.metadata import RecordFile, RecordRun
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.record_rows import key_of
from hipslake.catalog.records.run_files import bounds_of, distinct, entries, filtered, opened
from hipslake.catalog.row_sets import row_text
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.engine.reordering import in_order
from hipslake.errors import VerificationError
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

BY_ROW = KeyColumns((ROW_COLUMN,), (pa.int64(),))
"""What superseded rows are sorted by."""

_GROUPS_AT_ONCE = 16


@dataclass
class LookedAt:
    """What lookups have read.

    Attributes
    ----------
    files, row_groups : int
    bytes : int
        Stored, of the row groups, about.
    """

    files: int = 0
    row_groups: int = 0
    bytes: int = 0


def lookup(
    storage: Storage,
    runs: Sequence[RecordRun],
    schema: pa.Schema,
    keys: pa.Table,
    looked_at: LookedAt | None = None,
) -> pa.Table:
    """All records of some keys that count.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    runs : sequence of RecordRun
        Of a version.
    schema : pyarrow.Schema
        Of `records_schema`.
    keys : pyarrow.Table
        With the key columns as `schema` has them; keys may come several times.
    looked_at : LookedAt, optional
        What is read is added to it.

    Returns
    -------
    pyarrow.Table
        As `schema`, sorted by key and `_row`.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    by = key_of(schema)
    return by.in_order(_found(storage, runs, schema, by, distinct(keys, by), looked_at))


def lookup_rows(
    storage: Storage,
    runs: Sequence[RecordRun],
    schema: pa.Schema,
    rows: NDArray[np.int64],
    looked_at: LookedAt | None = None,
) -> pa.Table:
    """Superseded rows by their `_row`.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    runs : sequence of RecordRun
        Of superseded rows, of a version.
    schema : pyarrow.Schema
        What the rows are given as, `_row` among it; columns that came after they were stored are null.
    rows : int64[n]
        Each `_row`.
    looked_at : LookedAt, optional
        What is read is added to it.

    Returns
    -------
    pyarrow.Table
        As `schema`, sorted by `_row`; a row that is stored several times, as it came back and went again, is
        there once.

    Raises
    ------
    VerificationError
        A row is not there, or a file is missing or damaged.
    """
    wanted = np.unique(rows)
    keys = pa.table([pa.array(wanted, pa.int64())], schema=BY_ROW.schema)
    found = _found(storage, runs, schema, BY_ROW, keys, looked_at)
    numbers, first = np.unique(found[ROW_COLUMN].to_numpy(), return_index=True)
    if len(numbers) < len(wanted):
        missing = np.setdiff1d(wanted, numbers)
        raise VerificationError(
            f"{storage.uri()}: {len(missing)} superseded rows are in no file of theirs, "
            f"{row_text(int(missing[0]))} among them; Catalog.verify() tells more"
        )
    return in_order(found, first)


def _found(
    storage: Storage,
    runs: Sequence[RecordRun],
    schema: pa.Schema,
    by: KeyColumns,
    keys: pa.Table,
    looked_at: LookedAt | None,
) -> pa.Table:
    """The entries that count of some keys, which are ascending and distinct."""
    asked: list[tuple[RecordFile, pa.Table, NDArray[np.int64]]] = []
    for run in runs if keys.num_rows else ():
        listed, counting = run.listed(storage), run.counting
        starts, stops = bounds_of(listed, by).places(by, keys)
        for file, start, stop in zip(listed, starts.tolist(), stops.tolist(), strict=True):
            if stop > start:
                asked.append((file, keys.slice(start, stop - start), counting))
    tables = [schema.empty_table()]
    for found, seen in in_threads(storage, lambda each: _in_file(storage, schema, by, *each), asked):
        tables += found
        if looked_at is not None:
            looked_at.files += 1
            looked_at.row_groups += seen.row_groups
            looked_at.bytes += seen.bytes
    return pa.concat_tables(tables).combine_chunks()


def _in_file(
    storage: Storage,
    schema: pa.Schema,
    by: KeyColumns,
    file: RecordFile,
    keys: pa.Table,
    counting: NDArray[np.int64],
) -> tuple[list[pa.Table], LookedAt]:
    with opened(storage, file, by) as (parquet, bounds):
        starts, stops = bounds.places(by, keys)
        groups = np.flatnonzero(stops > starts).tolist()
        found = []
        for at in range(0, len(groups), _GROUPS_AT_ONCE):
            some = groups[at : at + _GROUPS_AT_ONCE]
            near = keys.slice(starts[some[0]], stops[some[-1]] - starts[some[0]])
            found.append(filtered(entries(storage, file, parquet, some, schema, counting), near, by))
    total = len(starts)
    return found, LookedAt(row_groups=len(groups), bytes=file.bytes * len(groups) // max(total, 1))
