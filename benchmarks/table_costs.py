"""Where the processor's time of a sink and a clustering goes: nanoseconds per row and core, phase by phase.

    python -m benchmarks.table_costs --folder .data/bench/tables

Each phase is done some times by one thread, on a file of the table benchmark, and the quickest counts:
seconds of the processor, which others on the machine do not change much.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import Placement
from hipslake.clustering.range_ids import RangeBounds
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.sink.file_runs import FileRuns
from hipslake.storage.dictionaries import repeating_columns
from hipslake.tables.fitting import in_table
from hipslake.tables.parquet_folder.folder_access import FolderAccess
from hipslake.tables.partition_values import PartitionValues, counted, value_columns
from hipslake.tables.row_keys import KeyFilter, key_hashes
from hipslake.tables.shuffle import ValueCounts, plan_shuffle

from benchmarks import table_task as task
from benchmarks.sizes import parse_count
from benchmarks.table_rows import write_rows

_FILES = 64
_COLUMNS = list(task.CLUSTER_COLUMNS)


def costs(file: Path, repeats: int) -> dict[str, float]:
    """Processor seconds of each phase on the rows of a file, by what it does."""
    whole = pq.read_table(file).combine_chunks()
    (batch,) = whole.to_batches()
    fields = [PartitionField.parse(f"healpix[{task.SKY_ORDER}]"), PartitionField.parse(f"year({task.TIME})")]
    fields = [in_table(field) for field in fields]
    pixels = pa.array((whole["_healpix_29"].to_numpy() >> task.SKY_SHIFT).astype(np.int32))
    times = batch.column(task.TIME).cast(pa.timestamp("us", "UTC"))
    keys = pa.record_batch({task.SKY: pixels, task.TIME: times})
    values = value_columns(fields, keys)
    known = PartitionValues.of(values)
    number = known.numbers(values, batch.num_rows)
    counts = ValueCounts(
        np.zeros(known.count, np.int64), np.arange(known.count), np.bincount(number), known.count
    )
    plan = plan_shuffle(
        counts, partition=fields, upsert=False, sources=1, row_bytes=70.0, target_bytes=128 << 20, cores=2
    )
    runs = FileRuns.by_rank(plan, number, np.zeros(known.count, np.int64), counts.totals)
    assert runs.order is not None
    order = pa.array(runs.order)
    taken = batch.take(order)
    access = FolderAccess(str(file.parent), str(file.parent), whole.schema)
    bounds = RangeBounds.of_sample(whole.select(_COLUMNS).slice(0, 40_000), _COLUMNS)
    placement = Placement.plan(bounds, Curve.HILBERT, _FILES)
    rows = np.arange(batch.num_rows)
    hashes = key_hashes(batch, [task.KEY])
    filled = KeyFilter()
    filled.add(hashes)
    phases: dict[str, Callable[[], Any]] = {
        "decode the columns of partitions": lambda: pq.read_table(
            file, columns=_COLUMNS[:2], use_threads=False
        ),
        "decode all columns": lambda: pq.read_table(file, use_threads=False),
        "partition values of rows": lambda: value_columns(fields, keys),
        "count them": lambda: counted(values, batch.num_rows),
        "number them": lambda: known.numbers(values, batch.num_rows),
        "order of files": lambda: FileRuns.by_rank(
            plan, number, np.zeros(known.count, np.int64), counts.totals
        ),
        "Hilbert keys and files": lambda: placement.place(batch, rows),
        "hashes of keys": lambda: key_hashes(batch, [task.KEY]),
        "take keys up in a filter": lambda: KeyFilter().add(hashes),
        "ask a filter for keys": lambda: filled.may_hold(hashes),
        "gather": lambda: batch.take(order),
        "which columns repeat, of 14,000 rows": lambda: [
            repeating_columns(whole.slice(first, 14_000)) for first in range(0, batch.num_rows, 14_000)
        ],
        "write and read a block": lambda: _through_block(taken),
        "encode": lambda: pq.write_table(
            pa.Table.from_batches([taken]),
            pa.BufferOutputStream(),
            compression="zstd",
            compression_level=task.LEVEL,
            use_dictionary=repeating_columns(whole),
        ),
        "checksum of what is stored, decoding included": lambda: access.checksum(
            str(file), whole.column_names
        ),
        "rows with their checksum, decoding included": lambda: [
            *access.read_summed(str(file), whole.column_names)
        ],
    }
    return {what: min(_seconds(phase) for _ in range(repeats)) for what, phase in phases.items()}


def _through_block(rows: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _seconds(phase: Callable[[], Any]) -> float:
    before = time.process_time()
    phase()
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the file; one that is there is kept")
    parser.add_argument("--rows", type=parse_count, default=1_000_000, help="at most a million")
    parser.add_argument("--repeats", type=int, default=5)
    options: Any = parser.parse_args()
    pa.set_cpu_count(1)
    (file,) = write_rows(options.folder, options.rows, processes=1).iterdir()
    for what, seconds in costs(file, options.repeats).items():
        print(f"{seconds / options.rows * 1e9:8.1f} ns  {what}")


if __name__ == "__main__":
    main()
