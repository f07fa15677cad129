"""A function of the user's, called with the rows of each leaf: in threads, in processes, or by Spark."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from hipslake.api.given_rows import pandas_rows
from hipslake.api.sent_functions import SentFunction
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.specs.base import repeated

if TYPE_CHECKING:
    from hipslake.api.scan import Scan
    from hipslake.api.scan_partition import ScanPartition

FRAMES = ("arrow", "pandas")
_PLACE = "place of the leaf"


class Given(NamedTuple):
    """What the function gave for a leaf, if it was called at all."""

    called: bool
    table: pa.Table | None


@dataclass(frozen=True)
class LeafFunction:
    """The function of a user, and what it takes and gives.

    Attributes
    ----------
    function : callable
    frames : {"arrow", "pandas"}
    schema : pyarrow.Schema or None
    """

    function: Callable[[Any], Any]
    frames: str
    schema: pa.Schema | None

    def __call__(self, partition: ScanPartition) -> Given:
        """What it gives for a leaf, which errors name; a leaf without rows is passed over."""
        where = f"partition {partition.pixel}"
        rows = partition.to_arrow()
        if not rows.num_rows:
            return Given(False, None)
        try:
            given = self.function(self.frame_of(rows))
        except Exception as error:
            error.add_note(f"hipslake: the function was called with {rows.num_rows} rows of {where}")
            raise
        return Given(True, self.table_of(given, where))

    def frame_of(self, rows: pa.Table) -> Any:
        """Rows as the function takes them."""
        return rows.to_pandas() if self.frames == "pandas" else rows

    def table_of(self, given: Any, where: str) -> pa.Table | None:
        """What the function gave, as a table of the schema."""
        if given is None:
            return None
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        elif type(given).__module__.partition(".")[0] in ("pandas", "nested_pandas") and hasattr(
            given, "columns"
        ):
            given = _of_pandas(given, where)
        if not isinstance(given, pa.Table):
            raise SchemaMismatchError(
                f"{where}: the function gave {type(given).__module__}.{type(given).__qualname__}; it gives a "
                "pyarrow.Table, a RecordBatch, a pandas.DataFrame, or None for nothing"
            )
        if twice := repeated(given.column_names):
            raise SchemaMismatchError(f"{where}: the function gave two columns named {', '.join(twice)}")
        table = given.replace_schema_metadata(None)
        return table if self.schema is None else as_schema(table, self.schema, where)


def _of_pandas(frame: Any, where: str) -> pa.Table:
    if twice := repeated(str(name) for name in frame.columns):
        raise SchemaMismatchError(f"{where}: the function gave two columns named {', '.join(twice)}")
    try:
        return pandas_rows(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaMismatchError(
            f"{where}: the function gave a column that Arrow cannot hold: {error}"
        ) from error


def as_schema(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """A table with the columns of a schema; a column of nothing but nulls is of any type.

    Raises
    ------
    SchemaMismatchError
        It has other columns, or values that do not fit.
    """
    if sorted(table.column_names) != sorted(schema.names):
        raise SchemaMismatchError(
            f"{where}: the function gave the columns {', '.join(table.column_names) or 'none'}; they are "
            f"{', '.join(schema.names) or 'none'}"
        )
    table = table.select(schema.names)
    if table.schema.equals(schema):
        return table
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatchError(
                f"{where}: the function gave column {field.name!r} as {column.type}, which is no "
                f"{field.type} ({str(error).splitlines()[0]})"
            ) from None
    return pa.table(columns, schema=schema)


def map_partitions(
    scan: Scan,
    function: Callable[[Any], Any],
    frames: str,
    schema: pa.Schema | None,
    *,
    workers: int | None,
    processes: bool,
    spark: Any,
) -> pa.Table:
    """Call a function leaf by leaf; as `Scan.map_partitions`."""
    if frames not in FRAMES:
        raise SpecError(f"frames is {frames!r}: the function takes 'arrow' or 'pandas'")
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}: there has to be at least one")
    if spark is not None and (workers is not None or processes):
        raise SpecError("workers and processes are of this machine, and Spark has its own: leave them out")
    called = LeafFunction(SentFunction.of(function) if processes else function, frames, schema)
    partitions = list(scan.partitions())
    if spark is not None:
        known = _schema_of(called, scan) if schema is None else schema
        if not partitions:
            return known.empty_table()
        return _by_spark(LeafFunction(function, frames, known), partitions, known, spark)
    with _pool(workers or os.cpu_count() or 1, processes=processes) as pool:
        width = workers or os.cpu_count() or 1
        try:
            found = _together(_in_order(pool, called, partitions, width), partitions, schema)
        except BrokenProcessPool as error:
            raise SpecError(
                "map_partitions: a process ended while it worked; the function may need more memory than "
                "there is; or the script starts them where it is imported: put the call below "
                '`if __name__ == "__main__":`, and the function above it, where they find it'
            ) from error
    return _schema_of(called, scan).empty_table() if found is None else found


def _in_order(
    pool: Executor, called: LeafFunction, partitions: list[ScanPartition], width: int
) -> Iterator[Given]:
    """What the function gives, leaf after leaf, a few ahead of whoever takes it; no more after an error."""
    waiting: list[Future[Given]] = []
    left = iter(partitions)
    try:
        for partition in islice(left, 2 * width):
            waiting.append(pool.submit(called, partition))
        while waiting:
            yield waiting.pop(0).result()
            for partition in islice(left, 1):
                waiting.append(pool.submit(called, partition))
    finally:
        for future in waiting:
            future.cancel()


def _together(
    given: Iterable[Given], partitions: list[ScanPartition], schema: pa.Schema | None
) -> pa.Table | None:
    """All tables in one; without a schema, all have the columns of the first. None: it was never called."""
    found: list[tuple[pa.Table, str]] = []
    common, was_called = schema, schema is not None
    for partition, (called, table) in zip(partitions, given, strict=True):
        was_called |= called
        if table is None:
            continue
        where = f"partition {partition.pixel}"
        if common is None:
            common = table.schema
        elif schema is None:
            common = _agreed(common, table, where, found[0][1])
        found.append((table, where))
    if common is None:
        return pa.table({}) if was_called else None
    return pa.concat_tables([common.empty_table(), *(as_schema(table, common, at) for table, at in found)])


def _agreed(common: pa.Schema, table: pa.Table, where: str, first: str) -> pa.Schema:
    """The schema of all tables so far; a column of nulls alone is of the type that others have."""
    if sorted(table.column_names) != sorted(common.names):
        as_schema(table, common, where)
    for at, field in enumerate(common):
        kind = table.schema.field(field.name).type
        if kind == field.type or pa.types.is_null(kind):
            continue
        if not pa.types.is_null(field.type):
            raise SchemaMismatchError(
                f"{where}: the function gave column {field.name!r} as {kind}, and for {first} as "
                f"{field.type}; say with schema= what it is"
            )
        common = common.set(at, field.with_type(kind))
    return common


def _schema_of(called: LeafFunction, scan: Scan) -> pa.Schema:
    """The columns that the function gives, by a call with an empty table."""
    given = called.table_of(called.function(called.frame_of(scan.schema.empty_table())), "an empty table")
    return pa.schema([]) if given is None else given.schema


def _by_spark(
    called: LeafFunction, partitions: list[ScanPartition], schema: pa.Schema, spark: Any
) -> pa.Table:
    from hipslake.spark.engine import SparkEngine

    def task(number: int) -> Iterator[pa.RecordBatch]:
        table = called(partitions[number]).table
        for batch in () if table is None else table.to_batches():
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array([number] * batch.num_rows, pa.int64())], schema=numbered
            )

    numbered = schema.append(pa.field(_PLACE, pa.int64()))
    found = SparkEngine(spark).run(task, tasks=len(partitions), result=numbered)
    ordered = found.sort_by(_PLACE)  # tasks come in any order; rows of one stay as they are
    return as_schema(ordered.drop_columns([_PLACE]), schema, "Spark")


def _pool(workers: int, *, processes: bool) -> Executor:
    if not processes:
        return ThreadPoolExecutor(workers, thread_name_prefix="leaf")
    # No fork: threads of Arrow hold locks that a copy of this process would wait for.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
