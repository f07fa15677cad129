"""`from hipslake import sink`: a batch of a streaming query goes into a table, exactly once."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from hipslake.api.given_rows import rows_of, stage
from hipslake.api.step_runner import warehouse_uri
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import InputError, SourceNotFoundError, SpecError
from hipslake.sources import open_source
from hipslake.sources.source_file import SourceFile
from hipslake.specs.base import NAME_PATTERN, validated
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_place import DeltaSpec, IcebergSpec, SunkFormat
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode, WriteMode
from hipslake.steps.run import now_utc
from hipslake.steps.sink.sink_table import sink as sink_order
from hipslake.steps.sink.stream_batches import has_batch
from hipslake.steps.stream.arrived_files import STREAMS
from hipslake.storage.folder import Storage
from hipslake.tables.opening import open_table
from hipslake.tables.sink_order import BatchRows, FileRows, SinkOrder, SinkOutcome, StreamBatch, stream_key
from hipslake.versions.write_id import new_write_id

_IN_SPARK = 128 << 20
_ROWS = "rows"


def sink(
    rows: Any,
    *,
    table: str,
    key: tuple[str, int],
    mode: TableMode | str = TableMode.APPEND,
    by: str | Sequence[str] = (),
    order_by: str | None = None,
    operation: Mapping[str, Any] | None = None,
    missing_deletes: str | None = None,
    duplicates: str | None = None,
    partition: Sequence[str] = (),
    sort: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    target_file_size: str | None = None,
    write: WriteMode | str | None = None,
    properties: Mapping[str, str] | None = None,
    warehouse: str | os.PathLike[str] | None = None,
    iceberg: IcebergSpec | Mapping[str, Any] | None = None,
    delta: DeltaSpec | Mapping[str, Any] | None = None,
    checkpoint: str | None = None,
    force: bool = False,
) -> SinkOutcome:
    """Sink a batch of a stream into an Iceberg or Delta table, exactly once.

    It is for `foreachBatch` of Spark's Structured Streaming, which hands on a batch again, with its number,
    if the query died before its checkpoint said that the batch is done. The commit sets a mark in the table
    with the number of the batch; a batch that the table has is passed over before any row of it is computed.
    A table keeps one mark for each query, that of its newest batch, and an older batch is refused.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame or object
        The batch: a DataFrame, which is computed once, or whatever `hipslake.ingest` takes for rows.
    table : str
        Namespace and name; made if there is none.
    key : tuple of (str, int)
        The name of the query, which has to be the same after each restart and no other query's, and the
        number of the batch.
    mode : {"append", "upsert"}
        Whether rows are added, or take the place of those of the same key.
    by : str or sequence of str
        The columns of the key of rows, in mode upsert: `key` in a table's spec.
    order_by, operation, missing_deletes, duplicates
        As in a table's spec.
    partition, sort, columns, target_file_size, write, properties
        As in a table's spec.
    warehouse : str or Path, optional
        Where a new table lies, and rows wait; `HIPSLAKE_WAREHOUSE` if not given.
    iceberg : IcebergSpec or mapping, optional
        The Iceberg catalog, as in a table's spec.
    delta : DeltaSpec or mapping, optional
        Where Delta tables lie, as in a table's spec: then it is one of those.
    checkpoint : str, optional
        What tells the checkpoint of the query from others; in `foreachBatch` by default the id that it has in
        Spark. A query of the same name that begins anew from another one is refused.
    force : bool
        Take what a query reads from another checkpoint than before. No batch of one checkpoint comes twice.

    Returns
    -------
    SinkOutcome
        `skipped` says that the table had the batch; `snapshot_id` is what was committed, None if nothing was.
        A batch without rows is not committed.

    Raises
    ------
    SpecError
        What was given fits to no table.
    PlanError
        The batch is older than the newest one of the query, or of another checkpoint.
    SchemaMismatchError, InputError
        The rows do not fit to the table.
    ConflictError, CommitStateUnknownError, StorageError
        Others kept changing the table, or it is not known whether the commit stands: hand on the batch again.

    Examples
    --------
    >>> def sink_batch(frame, number):
    ...     sink(frame, table="survey.alerts", key=("alerts", number), partition=["day(seen)"])
    >>> frame.writeStream.foreachBatch(sink_batch)  # doctest: +SKIP
    """
    batch = _batch_of(rows, key, checkpoint)
    place = warehouse_uri(warehouse)
    given = {
        "name": _name_of(batch.query),
        "table": table,
        "source": {"files": {"uri": f"/{_ROWS}/*.parquet", "format": "parquet"}, "columns": columns},
        "mode": mode,
        "key": by,
        "partition": partition,
        "sort": sort,
        "format": SunkFormat.ICEBERG if delta is None else SunkFormat.DELTA,
        "iceberg": iceberg or {},
        "delta": delta or {},
        "order_by": order_by,
        "operation": operation,
        "write": write,
    }
    optional = {
        "missing_deletes": missing_deletes,
        "duplicates": duplicates,
        "target_file_size": target_file_size,
        "properties": properties,
    }
    given |= {name: value for name, value in optional.items() if value is not None}
    spec = validated(TableSpec, given, "sink")
    if spec.mode is TableMode.OVERWRITE_INTERVAL:
        raise SpecError("sink: mode overwrite-interval is of intervals, and batches have none; take another")
    if (found := _found(spec, place, batch, force=force)) is not None:
        return found
    with _staged(rows, Storage.at(place).sub(f"{STREAMS}/{spec.name}")) as (source, files, engine):
        if not files:
            return SinkOutcome(table=spec.table, location="")
        order = SinkOrder(
            spec=spec,
            warehouse=place,
            rows=BatchRows(
                batch=batch, given=FileRows(source=source, files=files, columns=spec.source.columns)
            ),
            write_id=new_write_id(now_utc()),
            force=force,
        )
        return sink_order(order, engine)


def _batch_of(rows: Any, key: tuple[str, int], checkpoint: str | None) -> StreamBatch:
    query, number = key if isinstance(key, tuple | list) and len(key) == 2 else (None, None)
    if not isinstance(query, str) or not query or isinstance(number, bool) or not isinstance(number, int):
        raise SpecError(
            f"key: is {key!r}; give the name of the query and the number of the batch, such as ('alerts', 7)"
        )
    if checkpoint is None and _is_frame(rows):
        from hipslake.spark.stream_drains import checkpoint_of

        checkpoint = checkpoint_of(rows)
    return validated(StreamBatch, {"query": query, "number": number, "checkpoint": checkpoint}, "key")


def _name_of(query: str) -> str:
    """A name for the spec of a query: the query's own where that is one."""
    if re.fullmatch(NAME_PATTERN, query):
        return query
    return f"query_{hashlib.sha256(query.encode()).hexdigest()[:16]}"


def _found(spec: TableSpec, warehouse: str, batch: StreamBatch, *, force: bool) -> SinkOutcome | None:
    """What is told of a batch that the table has; None if it has not."""
    with closing(open_table(spec.place, warehouse, spec.table)) as opened:
        now = opened.now()
        newest = None if now is None else now.marks.of(stream_key(spec.name))
        if now is None or newest is None or not has_batch(newest, batch, spec.table, force=force):
            return None
        return SinkOutcome(
            table=spec.table,
            location=now.location,
            skipped=True,
            found_snapshot_id=now.version_of(newest),
            found_rows=newest.rows,
        )


@contextmanager
def _staged(rows: Any, folder: Storage) -> Iterator[tuple[SourceSpec, tuple[SourceFile, ...], Engine]]:
    """Rows as files, as long as the block runs, and what sinks them: of a frame with many, its session."""
    folder.delete_tree(_ROWS)  # of a process that died; a query is run by one at a time
    own = folder.sub(f"{_ROWS}/{uuid.uuid4().hex}")
    try:
        if _is_frame(rows):
            from hipslake.spark.frame_rows import keep_frame

            kept = {own.uri(path) for path in keep_frame(rows, own)}
        else:
            kept = set(stage(own, rows_of(rows)).uris)
        source = SourceSpec.model_validate({"uri": own.uri("**/*.parquet"), "format": "parquet"})
        try:
            listed = (file for file in open_source(source).list_files() if file.uri in kept)
            files = tuple(replace(file, ordinal=at) for at, file in enumerate(listed))
        except SourceNotFoundError:
            files = ()
        if not any(_rows_in(own, file) for file in files):
            files = ()
        engine: Engine = ThisProcess()
        if _is_frame(rows) and sum(file.size for file in files) >= _IN_SPARK:
            from hipslake.spark.engine import SparkEngine

            engine = SparkEngine(rows.sparkSession)
        yield source, files, engine
    finally:
        folder.delete_tree(_ROWS)


def _rows_in(folder: Storage, file: SourceFile) -> int:
    path = file.uri.removeprefix(folder.root).lstrip("/")
    with folder.arrow_file(path) as opened:
        return int(pq.ParquetFile(opened).metadata.num_rows)


def _is_frame(rows: Any) -> bool:
    module = type(rows).__module__
    if module.startswith("pyspark.sql.connect."):
        raise InputError(
            "rows: is a DataFrame of Spark Connect, whose tasks do not know this library; take a session of "
            "this process, or hand over rows.toArrow()"
        )
    return module.startswith("pyspark.sql.")
