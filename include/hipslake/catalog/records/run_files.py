"""The files of runs: sorted by key, and read only where keys of interest can stand.

The metadata gives the first and the last key of each file, and each file those of its row groups. Both are
whole keys, of all their columns, so that a key of which the first column says little is found as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.layouts import records_root
from hipslake.catalog.leaf_opening import leaf_file
from hipslake.catalog.metadata import RecordFile, RecordRun
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import VerificationError
from hipslake.sources.conforming import conform
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

FILE_ROWS = 2 << 20
"""Most entries of a file."""

_FILE_BYTES = 512 << 20  # in memory
_GROUP_ROWS = 1 << 15
_GROUP_BYTES = 8 << 20  # in memory
_GROUPS_AT_ONCE = 16
_KEYS = b"hipslake.keys"  # in a file's footer: the first and the last key of each row group


class KeySpan(NamedTuple):
    """A range of keys [low, high); an end that is None is open. Each is a table of one row."""

    low: pa.Table | None = None
    high: pa.Table | None = None


class _Bounds(NamedTuple):
    """The first and the last keys of files, or of row groups."""

    first: pa.Table
    last: pa.Table

    def meet(self, by: KeyColumns, span: KeySpan) -> NDArray[np.bool_]:
        """Which may hold keys of a range."""
        ends = [by.schema.empty_table() if end is None else end for end in span]
        first, last, low, high = by.ranks(self.first, self.last, *ends)
        met = np.ones(len(first), bool)
        if span.low is not None:
            met &= last >= low[0]
        if span.high is not None:
            met &= first < high[0]
        return met

    def places(self, by: KeyColumns, keys: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The stretch [start, stop) of ascending keys that each may hold."""
        first, last, given = by.ranks(self.first, self.last, keys)
        return np.searchsorted(given, first), np.searchsorted(given, last, side="right")


def run_folder(write_id: str, name: str) -> str:
    """The folder of the files of a run; names are those of a write's runs."""
    return f"{records_root(write_id)}/{name}"


def write_run_files(
    storage: Storage, folder: str, number: int, table: pa.Table, by: KeyColumns
) -> list[RecordFile]:
    """Sort entries, and write them into as many files as they need.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    folder : str
        Of the run.
    number : int
        Of the range of keys that the entries are of; files of all ranges have names of their own.
    table : pyarrow.Table
        Records, or rows with `_row`, with the key columns in their plain types.
    by : KeyColumns

    Returns
    -------
    list of RecordFile
        Ascending by key; none if there is no entry.
    """
    if not table.num_rows:
        return []
    table = by.in_order(table)
    width = max(1, table.nbytes // table.num_rows)
    most = max(1, min(FILE_ROWS, _FILE_BYTES // width))
    group = max(1, min(_GROUP_ROWS, _GROUP_BYTES // width))
    files = -(-table.num_rows // most)
    cuts = [table.num_rows * at // files for at in range(files + 1)]
    found = []
    for at, (low, high) in enumerate(pairwise(cuts)):
        part = table.slice(low, high - low)
        content = _encoded(part, by, group)
        path = f"{folder}/part-{number:05d}-{at:03d}.parquet"
        storage.write(path, content)
        first, last = by.texts(part.take(pa.array([0, part.num_rows - 1])))
        found.append(
            RecordFile(
                path=path,
                rows=part.num_rows,
                bytes=content.size,
                sha256=hashlib.sha256(content).hexdigest(),
                first=first,
                last=last,
            )
        )
    return found


def read_span(
    storage: Storage, runs: Sequence[RecordRun], schema: pa.Schema, by: KeyColumns, span: KeySpan
) -> Iterator[pa.Table]:
    """The entries that count, of keys in a range: in any order, but each once.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    runs : sequence of RecordRun
    schema : pyarrow.Schema
        Of the entries; columns that a file lacks are null.
    by : KeyColumns
    span : KeySpan

    Yields
    ------
    pyarrow.Table
        Some row groups of a file, as long as one of their entries counts.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    for run in runs:
        counting = run.counting
        listed = run.listed(storage)
        met = bounds_of(listed, by).meet(by, span)
        for file in (file for file, is_met in zip(listed, met.tolist(), strict=True) if is_met):
            with opened(storage, file, by) as (parquet, bounds):
                groups = np.flatnonzero(bounds.meet(by, span)).tolist()
                for at in range(0, len(groups), _GROUPS_AT_ONCE):
                    some = groups[at : at + _GROUPS_AT_ONCE]
                    rows = in_span(entries(storage, file, parquet, some, schema, counting), by, span)
                    if rows.num_rows:
                        yield rows


def in_span(rows: pa.Table, by: KeyColumns, span: KeySpan) -> pa.Table:
    """Those of some entries whose keys lie in a range."""
    if span.low is None and span.high is None:
        return rows
    ends = [by.schema.empty_table() if end is None else end for end in span]
    codes, low, high = by.ranks(rows, *ends)
    inside = np.ones(len(codes), bool)
    if span.low is not None:
        inside &= codes >= low[0]
    if span.high is not None:
        inside &= codes < high[0]
    return rows if inside.all() else rows.filter(pa.array(inside))


def bounds_of(files: Sequence[RecordFile], by: KeyColumns) -> _Bounds:
    """The first and the last keys of files, by what the metadata says."""
    return _Bounds(
        by.from_texts([file.first for file in files]), by.from_texts([file.last for file in files])
    )


@contextmanager
def opened(storage: Storage, file: RecordFile, by: KeyColumns) -> Iterator[tuple[pq.ParquetFile, _Bounds]]:
    """Open a file of a run, and read of its footer which keys its row groups hold.

    Raises
    ------
    VerificationError
        It is missing, or damaged, or another file.
    """
    with leaf_file(storage, file.path, file.bytes) as parquet:
        footer = parquet.metadata
        text = (footer.metadata or {}).get(_KEYS)
        try:
            first, last = json.loads(text or "")
            bounds = _Bounds(by.from_texts(first), by.from_texts(last))
            if bounds.first.num_rows != footer.num_row_groups or footer.num_rows != file.rows:
                raise ValueError("other row groups or entries than it says")
        except (ValueError, TypeError) as error:
            raise VerificationError(
                f"{storage.uri(file.path)} is not the file of key records that was written ({error}); "
                "restore it: Catalog.verify() tells more"
            ) from error
        yield parquet, bounds


def entries(
    storage: Storage,
    file: RecordFile,
    parquet: pq.ParquetFile,
    groups: Sequence[int],
    schema: pa.Schema,
    counting: NDArray[np.int64],
) -> pa.Table:
    """The entries of some row groups that count.

    Parameters
    ----------
    storage, file
    parquet : pyarrow.parquet.ParquetFile
        The file, opened.
    groups : sequence of int
        Numbers of row groups.
    schema : pyarrow.Schema
        As of `read_span`.
    counting : int64[n]
        The ordinals whose entries count, ascending.
    """
    held = set(parquet.schema_arrow.names)
    columns = [name for name in schema.names if name in held]
    table = parquet.read_row_groups(list(groups), columns, use_threads=False)  # a task is one core
    ordinals = table[ROW_COLUMN].to_numpy() >> ORDINAL_SHIFT
    counts = np.isin(ordinals, counting)
    if not counts.all():
        table = table.filter(pa.array(counts))
    where = storage.uri(file.path)
    return pa.Table.from_batches([conform(batch, schema, where) for batch in table.to_batches()], schema)


def _encoded(table: pa.Table, by: KeyColumns, group: int) -> pa.Buffer:
    """The bytes of a file; the table is sorted."""
    starts = np.arange(0, table.num_rows, group)
    ends = np.minimum(starts + group, table.num_rows) - 1
    keys = table.select(by.names)
    bounds = [by.texts(keys.take(pa.array(places))) for places in (starts, ends)]
    numbers = {name for name in (*by.names, ROW_COLUMN, HEALPIX_COLUMN) if name in table.column_names}
    numbers = {name for name in numbers if pa.types.is_int64(table.schema.field(name).type)}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), _KEYS: json.dumps(bounds)}),
        sink,
        version="2.6",
        compression="zstd",
        row_group_size=group,
        # Of sorted or near numbers the differences are small.
        column_encoding=dict.fromkeys(sorted(numbers), "DELTA_BINARY_PACKED"),
        use_dictionary=[field.name for field in table.schema if field.name not in numbers],
        write_statistics=list(by.names),
    )
    return sink.getvalue()


def distinct(keys: pa.Table, by: KeyColumns) -> pa.Table:
    """Keys once each, ascending."""
    (codes,) = by.ranks(keys)
    _, first = np.unique(codes, return_index=True)
    return keys.select(by.names).take(pa.array(first))


def filtered(rows: pa.Table, keys: pa.Table, by: KeyColumns) -> pa.Table:
    """Those of some entries whose keys are among others, which are ascending and distinct."""
    if len(by.names) == 1 and pa.types.is_integer(by.types[0]):
        name = by.names[0]
        found = pc.is_in(rows[name], value_set=keys[name].combine_chunks())
    else:
        codes, wanted = by.ranks(rows, keys)
        found = pa.array(np.isin(codes, wanted))
    return rows.filter(found)
