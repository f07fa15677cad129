"""Mode upsert: the records of a night, told by their keys, and left in the run folder by ranges of keys.

A pass over the files reads key, order, operation and position of each row, about 50 bytes, and sends them to
the task of their range. The append step holds them against the records of the catalog, range by range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.placement import DELETING, Placer, indexed
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.key_ranges import SAMPLES, KeyRanges, sampled
from hipslake.catalog.records.record_rows import ORDER_COLUMN, as_records, key_of, records_schema
from hipslake.catalog.row_operations import check_operation, unknown
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN, check_columns
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import InputError, SchemaMismatchError
from hipslake.sources import Source
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_rows import Chunk, chunks
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.ingest.superseded_rows import read_rows, write_rows
from hipslake.steps.ingest.tied_rows import rows_before
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

FOLDER = "upsert/records"
"""In the run folder."""
_RANGES = f"{FOLDER}/ranges.json"
_BOUNDS = f"{FOLDER}/bounds.arrow"
_TARGET_BYTES = 256 << 20  # of source files, whose records one range has
_SAMPLED_SPLITS = 32
_EXAMPLES = 3
_RESULT = pa.schema([("range", pa.int64()), ("records", pa.int64())])


def check_records(spec: CatalogSpec, schema: pa.Schema) -> None:
    """Hold the columns of mode upsert against those of the source.

    Raises
    ------
    SchemaMismatchError
        One is missing, not stored, or of a type that does not serve.
    """
    if spec.mode is not Mode.UPSERT:
        return
    where = f"spec {spec.name!r}"
    try:
        records_schema(schema, spec.key, spec.order_by)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{where}, {error}") from None
    stored = {name for group in check_columns(spec, schema).values() for name in group.names}
    for what, names in (
        ("key", spec.key),
        ("order_by", (spec.order_by,) if spec.order_by is not None else ()),
    ):
        if lost := [name for name in names if name not in stored]:
            raise SchemaMismatchError(
                f"{where}, {what}: no column group stores {', '.join(lost)}; name it in one"
            )
    operation = spec.operation
    if operation is None:
        return
    if operation.column not in schema.names:
        raise SchemaMismatchError(
            f"{where}, operation.column: the source has no column {operation.column!r}; there are "
            + ", ".join(schema.names)
        )
    check_operation(schema.field(operation.column).type, operation, where)


class RangesOfNight(Frozen):
    """The ranges of keys that the records of a run lie in."""

    records: tuple[int, ...]  # of each

    @property
    def total(self) -> int:
        """Of all of them."""
        return sum(self.records)


@dataclass(frozen=True)
class NightRecords:
    """The records of a counted run; small, so that it travels with every task.

    Attributes
    ----------
    folder : Storage
        The run folder.
    ranges : RangesOfNight
    """

    folder: Storage
    ranges: RangesOfNight

    @classmethod
    def of(cls, folder: RunFolder) -> NightRecords:
        """Those that the histogram step has left."""
        return cls(folder.storage, folder.read(_RANGES, RangesOfNight))

    def key_ranges(self, by: KeyColumns) -> KeyRanges:
        """The ranges, in the types of a catalog's records."""
        return (
            KeyRanges(by, read_rows(self.folder, _BOUNDS).cast(by.schema))
            if self.ranges.total
            else KeyRanges.one(by)
        )

    def of_range(self, number: int, schema: pa.Schema, splits: SplitTable, ordinal: int) -> pa.Table:
        """The records of a range.

        Parameters
        ----------
        number : int
        schema : pyarrow.Schema
            Of the catalog's records.
        splits : SplitTable
            Of the run: it numbers the rows.
        ordinal : int
            Of the increment.
        """
        if not self.ranges.records[number]:
            return schema.empty_table()
        table = read_rows(self.folder, _path(number))
        place = table[ROW_COLUMN].to_numpy()
        split, row = place >> ORDINAL_SHIFT, place & ((1 << ORDINAL_SHIFT) - 1)
        numbers = (ordinal << ORDINAL_SHIFT) + splits.row_starts[split] + row
        at = table.schema.get_field_index(ROW_COLUMN)
        return table.set_column(at, ROW_COLUMN, pa.array(numbers, pa.int64())).cast(schema)


def store_no_records(folder: RunFolder) -> None:
    """Leave word that a run has none."""
    folder.storage.delete_tree(FOLDER)
    folder.write(_RANGES, RangesOfNight(records=(0,)))


def find_records(
    folder: RunFolder, source: Source, splits: SplitList, schema: pa.Schema, placer: Placer, engine: Engine
) -> None:
    """Find the records of a run, and leave them in its folder.

    Parameters
    ----------
    folder : RunFolder
    source, splits
        The run's files.
    schema : pyarrow.Schema
        Of the source, all its columns.
    placer : Placer
    engine : Engine

    Raises
    ------
    InputError
        A record has no key or no order, or an operation that is none of the spec's; or two of a key are of
        one order. The message shows file, row and values.
    """
    spec, storage = placer.spec, folder.storage
    storage.delete_tree(FOLDER)
    records = records_schema(schema, spec.key, spec.order_by)
    by = key_of(records)
    targets = max(1, -(-splits.file_bytes // _TARGET_BYTES))
    tasks = splits.runs(engine.cores)
    task = RecordsTask(storage, source, splits, schema, placer, tasks, KeyRanges.one(by), engine.counter())
    if targets > 1:
        task = replace(task, ranges=KeyRanges.even(by, task.sample(SAMPLES * targets), targets))
    with engine.progress("records", done=task.done):
        found = engine.exchange(
            sources=len(task.tasks),
            mapper=task.route,
            targets=len(task.ranges),
            reducer=task.store,
            result=_RESULT,
            scratch=blocks_in_folder(storage, f"{FOLDER}/exchange", splits.file_bytes),
        )
    counts = np.zeros(len(task.ranges), np.int64)
    counts[found["range"].to_numpy()] = found["records"].to_numpy()
    write_rows(storage, _BOUNDS, task.ranges.bounds)
    folder.write(_RANGES, RangesOfNight(records=tuple(counts.tolist())))


@dataclass(frozen=True)
class RecordsTask:
    """Both halves of the exchange: map tasks read the records of splits, reduce tasks store those of a range.

    Attributes
    ----------
    folder : Storage
        The run folder.
    source, splits, schema, placer
        What is read.
    tasks : tuple of (int, int)
        Per map task, the range of splits that it reads.
    ranges : KeyRanges
    done : Counter
        Rows read so far.
    """

    folder: Storage
    source: Source
    splits: SplitList
    schema: pa.Schema
    placer: Placer
    tasks: tuple[tuple[int, int], ...]
    ranges: KeyRanges
    done: Counter

    @property
    def spec(self) -> CatalogSpec:
        """That of the run."""
        return self.placer.spec

    def route(self, number: int) -> Iterator[Routed]:
        """Send the records of splits to the tasks of their ranges."""
        for chunk in self._read(*self.tasks[number]):
            self.done.add(chunk.rows.num_rows)
            records = self._records(chunk)
            if records.num_rows:
                yield from self.ranges.route(records)

    def store(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Store the records of a range."""
        table = pa.Table.from_batches([block.rows for block in blocks]).combine_chunks()
        blocks.clear()
        self._check_distinct(table)
        write_rows(self.folder, _path(target), table)
        yield pa.record_batch([[target], [table.num_rows]], schema=_RESULT)

    def sample(self, most: int) -> pa.Table:
        """So many keys of some splits, spread over all of them."""
        by, size = self.ranges.by, len(self.splits)
        at = np.unique(np.linspace(0, size - 1, min(size, _SAMPLED_SPLITS)).round().astype(int)).tolist()
        firsts = (next(self._read(split, split + 1), None) for split in at)
        keys = (self._records(chunk).select(by.names) for chunk in firsts if chunk is not None)
        return sampled(keys, by, most)

    def _read(self, first: int, last: int) -> Iterator[Chunk]:
        spec = self.spec
        names = list(
            dict.fromkeys([*self.placer.columns, *spec.key, *([spec.order_by] if spec.order_by else [])])
        )
        yield from chunks(self.source, self.splits.between(first, last), self.schema, self.placer, names)

    def _records(self, chunk: Chunk) -> pa.Table:
        """The records of a chunk: its rows that are on the sky, and those that delete others."""
        spec, placed, rows = self.spec, chunk.placed, chunk.rows
        count = rows.num_rows
        if spec.operation is not None:
            column = rows.column(spec.operation.column)
            self._check_none(chunk, unknown(column, spec.operation), spec.operation.column, "operation")
        delete = np.zeros(count, bool) if placed.reasons is None else placed.reasons == DELETING
        given = np.ones(count, bool) if placed.bad is None else ~placed.bad
        for what, names in (("key", spec.key), ("order_by", (spec.order_by,) if spec.order_by else ())):
            for name in names:
                column = rows.column(name)
                floats = pa.types.is_floating(column.type)
                missing = pc.is_null(column, nan_is_null=floats).to_numpy(zero_copy_only=False)
                self._check_none(chunk, missing & given, name, what)
        at = indexed(placed, spec.position)
        h29 = np.zeros(count, np.int64)
        h29[slice(None) if at.kept is None else at.kept] = at.h29
        split, row = chunk.places
        place = (split << ORDINAL_SHIFT) | row
        if not given.all():
            taken = np.flatnonzero(given)
            rows, h29, place, delete = rows.take(pa.array(taken)), h29[taken], place[taken], delete[taken]
        schema = records_schema(self.schema, spec.key, spec.order_by)
        return as_records(rows, schema, spec.order_by, row=place, h29=h29, delete=delete)

    def _check_none(self, chunk: Chunk, wrong: NDArray[np.bool_], column: str, what: str) -> None:
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        value = chunk.rows.column(column)[first].as_py()
        of = self.spec.operation
        known = "" if of is None else ", ".join([of.insert, of.update, of.delete])
        message = {
            "key": "has no key: it is not known which row it is; give it one, or take it out",
            "order_by": "has no order: it is not known whether it is the last of its key; give it one, or "
            "take it out",
            "operation": f"says no operation; there are {known} (`operation` in the spec)",
        }[what]
        split, row = chunk.places
        where = self._where(int(split[first]), int(row[first]))
        raise InputError(f"{where}: {column} is {value!r}, so that it {message}")

    def _check_distinct(self, records: pa.Table) -> None:
        """Refuse records of a key of which none is the last."""
        by = key_of(records.schema)
        (key,) = by.ranks(records)
        order = np.zeros(len(key), np.int64)
        if self.spec.order_by is not None:
            (order,) = KeyColumns((ORDER_COLUMN,), (records.schema.field(ORDER_COLUMN).type,)).ranks(records)
        along = np.lexsort((records[ROW_COLUMN].to_numpy(), order, key))
        same = np.flatnonzero((np.diff(key[along]) == 0) & (np.diff(order[along]) == 0))
        if not len(same):
            return
        shown = "; ".join(
            self._told(records.take(pa.array(along[at : at + 2]))) for at in same[:_EXAMPLES].tolist()
        )
        if self.spec.order_by is None:
            raise InputError(
                f"key: {len(same)} records have a key that comes in the night before them, and nothing says "
                f"which of them is the last: {shown}. Write order_by, a column that says it, into the spec, "
                "or mend the files"
            )
        raise InputError(
            f"order_by: {len(same)} records share key and {self.spec.order_by} with another, so that none "
            f"is the last: {shown}. Take a column that tells them apart, or mend the files"
        )

    def _told(self, pair: pa.Table) -> str:
        """Two records for people: key, order, and where they stand."""
        records: list[dict[str, Any]] = pair.to_pylist()
        key = ", ".join(f"{name} {records[0][name]!r}" for name in key_of(pair.schema).names)
        if self.spec.order_by is not None:
            key += f" with {self.spec.order_by} {records[0][ORDER_COLUMN]!r}"
        places = (each[ROW_COLUMN] for each in records)
        low = (1 << ORDINAL_SHIFT) - 1
        return (
            f"{key} in {' and '.join(self._where(place >> ORDINAL_SHIFT, place & low) for place in places)}"
        )

    def _where(self, split: int, row: int) -> str:
        """The file of a row, and its number in it from 1 on."""
        before = rows_before(self.source, self.splits, self.schema, split)
        return f"{self.splits.uri_of(split)}, row {before + row + 1}"


def _path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.arrow"
