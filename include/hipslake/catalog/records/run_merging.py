"""Runs are merged as they come to be many: those of about one size, so that each entry is written seldom.

Sizes of a level differ by less than eight times. Where a level has eight runs, they become one, of the next
level or the one after. So a catalog of a thousand nights has a few runs of each of four levels, and each
entry was written once per level. Entries that do not count any more are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.metadata import CatalogMetadata, KeyRecords, RecordFile, RecordRun
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.key_ranges import KeyRanges
from hipslake.catalog.records.record_lookup import BY_ROW
from hipslake.catalog.records.record_rows import key_of, records_schema
from hipslake.catalog.records.records_change import MergedRecords, MergedRuns
from hipslake.catalog.records.run_building import WRITTEN, files_in, written
from hipslake.catalog.records.run_files import FILE_ROWS, opened, read_span, run_folder, write_run_files
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import joined_schema
from hipslake.engine.model import Counter, Engine
from hipslake.engine.reordering import in_order
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

FAN_IN = 8
"""How many runs of a level are merged, and how much larger the runs of the next level are."""

IN_A_NIGHT = 8 << 20
"""Most entries that are merged beside a night, of wide rows fewer; what is more waits for a compaction."""

_LEAST = 1 << 16  # entries: shorter runs are of the lowest level too
_RANGE_ROWS = FILE_ROWS * 3 // 4  # of a task: ranges are not quite even, and most are to be one file
_FILE_BYTES = 128 << 20  # stored
_BOUND_BYTES = 512 << 20  # stored: that are merged where entries are bounded, which may be wide rows


def runs_to_merge(rows: Sequence[int], most: int | None = None) -> list[int]:
    """Which runs are to become one, by their places; none where no level has too many.

    Parameters
    ----------
    rows : sequence of int
        Entries of each run.
    most : int, optional
        Most entries that are merged; no bound if not given.

    Examples
    --------
    >>> runs_to_merge([50_000] * 8)
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> runs_to_merge([50_000] * 7 + [900_000_000])
    []
    """
    levels: dict[int, list[list[int]]] = {}
    for place, size in enumerate(rows):
        levels.setdefault(_level(size), []).append([place])
    found: list[int] = []
    for level in range(_level(sum(rows)) + 1):
        runs = levels.get(level, [])
        merged = [place for run in runs for place in run]
        total = sum(rows[place] for place in merged)
        if len(runs) < FAN_IN or (most is not None and total > most):
            continue
        found = merged if not found or set(found) <= set(merged) else found
        levels[level] = []
        levels.setdefault(_level(total), []).append(merged)
    return sorted(found)


def _level(rows: int) -> int:
    return max(0, math.floor(math.log(max(rows, 1) / _LEAST, FAN_IN)))


def bytes_to_merge(records: KeyRecords | None) -> int:
    """How many bytes of files `merge_records` reads; 0 where it has nothing to do."""
    lists = (records.runs, records.superseded) if records is not None else ()
    return sum(runs[place].bytes for runs in lists for place in runs_to_merge([run.rows for run in runs]))


def merge_records(
    storage: Storage, engine: Engine, metadata: CatalogMetadata, *, write_id: str
) -> MergedRecords:
    """Merge the runs of a version of which there are too many, however long they are.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    engine : Engine
    metadata : CatalogMetadata
    write_id : str
        The write that the files belong to.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    records = metadata.key_records
    if records is None:
        return MergedRecords()
    rows = joined_schema(metadata)
    entries = records_schema(rows, records.key, records.order_by)
    return MergedRecords(
        merge_runs(storage, engine, records.runs, entries, key_of(entries), write_id=write_id, name="merged"),
        merge_runs(
            storage, engine, records.superseded, rows, BY_ROW, write_id=write_id, name="merged_superseded"
        ),
    )


@dataclass(frozen=True)
class MergeTask:
    """Writes the files of a range of keys, from all runs that are merged.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    runs : tuple of RecordRun
    schema : pyarrow.Schema
        Of the entries.
    ranges : KeyRanges
    folder : str
        Of the run that they become.
    done : Counter
        Entries read so far that count.
    """

    storage: Storage
    runs: tuple[RecordRun, ...]
    schema: pa.Schema
    ranges: KeyRanges
    folder: str
    done: Counter

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Write the files of a range, and say what they are."""
        by = self.ranges.by
        tables = [self.schema.empty_table()]
        for table in read_span(self.storage, self.runs, self.schema, by, self.ranges.span(number)):
            self.done.add(table.num_rows)
            tables.append(table)
        rows = pa.concat_tables(tables)
        if by == BY_ROW:  # a row that came back and went again is stored twice
            rows = in_order(rows, np.unique(rows[ROW_COLUMN].to_numpy(), return_index=True)[1])
        yield written(number, write_run_files(self.storage, self.folder, number, rows, by))


def merge_runs(
    storage: Storage,
    engine: Engine,
    runs: Sequence[RecordRun],
    schema: pa.Schema,
    by: KeyColumns,
    *,
    write_id: str,
    name: str,
    most: int | None = None,
) -> tuple[MergedRuns, ...]:
    """Merge those runs of which there are too many; nothing where there are not.

    A task reads what counts of the entries of a range, and holds about as many as a file has.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    engine : Engine
    runs : sequence of RecordRun
        Of records, or of superseded rows, of a version that stands or is about to be committed.
    schema : pyarrow.Schema
        Of the entries.
    by : KeyColumns
        What the runs are sorted by.
    write_id : str
        The write that the files belong to.
    name : str
        Of the run in the write.
    most : int, optional
        Most entries that are merged, and of wide rows as many as have 512 MiB; no bound if not given.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    sizes = [run.rows for run in runs]
    if most is not None:
        stored = max(sum(run.bytes for run in runs), 1)
        most = min(most, sum(sizes) * _BOUND_BYTES // stored)
    chosen = tuple(runs[place] for place in runs_to_merge(sizes, most))
    if not chosen:
        return ()
    return (merged_runs(storage, engine, chosen, schema, by, write_id=write_id, name=name),)


def merged_runs(
    storage: Storage,
    engine: Engine,
    runs: Sequence[RecordRun],
    schema: pa.Schema,
    by: KeyColumns,
    *,
    write_id: str,
    name: str,
) -> MergedRuns:
    """Make one run of several; parameters and errors as of `merge_runs`."""
    rows, size = sum(run.rows for run in runs), sum(run.bytes for run in runs)
    file_rows = max(1, min(_RANGE_ROWS, rows * _FILE_BYTES // max(size, 1)))
    ranges = ranges_of_runs(storage, runs, by, file_rows)
    folder = run_folder(write_id, name)
    storage.delete_tree(folder)  # of an attempt before
    task = MergeTask(storage, tuple(runs), schema, ranges, folder, engine.counter())
    with engine.progress(name, rows=rows, done=task.done):
        found = engine.run(task, tasks=len(ranges), result=WRITTEN)
    counting = {ordinal for run in runs for ordinal in run.counting.tolist()}
    inputs = frozenset(run.name for run in runs if run.name is not None)
    return MergedRuns(inputs, described_run(storage, write_id, name, files_in(found), counting))


def ranges_of_runs(storage: Storage, runs: Sequence[RecordRun], by: KeyColumns, file_rows: int) -> KeyRanges:
    """Ranges of keys with about as many entries of some runs in each, by the bounds of their row groups.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    runs : sequence of RecordRun
    by : KeyColumns
    file_rows : int
        Entries of a range.
    """
    files = [file for run in runs for file in run.listed(storage)]
    if sum(file.rows for file in files) <= file_rows:
        return KeyRanges.one(by)

    def groups(file: RecordFile) -> tuple[pa.Table, np.ndarray]:
        with opened(storage, file, by) as (parquet, bounds):
            footer = parquet.metadata
            sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        return bounds.first, np.array(sizes, np.int64)

    found = list(in_threads(storage, groups, files))
    firsts = pa.concat_tables([first for first, _ in found])
    sizes = np.concatenate([size for _, size in found])
    (codes,) = by.ranks(firsts)
    along = np.argsort(codes, kind="stable")
    share = (np.cumsum(sizes[along]) - sizes[along]) // file_rows
    begins = along[1:][np.diff(share) > 0]
    _, distinct = np.unique(codes[begins], return_index=True)
    return KeyRanges(by, firsts.take(pa.array(begins[distinct])))
