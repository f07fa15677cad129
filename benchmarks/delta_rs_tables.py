"""The peer of the Delta benchmark: delta-rs. Runs in the peers' environment, and makes the tables of all.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.delta_rs_tables --task cluster --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, WriterProperties, convert_to_deltalake

from benchmarks import table_task as task
from benchmarks.delta_table import BATCH, COLUMNS, row_sums, table_in


def prepare(options: Any, watch: task.Stopwatch) -> list[str]:
    """Make a Delta table of the files in its folder."""
    convert_to_deltalake(table_in(options.output))
    return files(options, watch)


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Let the table be z-ordered."""
    z_order(table_in(options.output), options, watch)
    return []


def merge(options: Any, watch: task.Stopwatch) -> list[str]:
    """Update the rows of the batch's keys, and insert the others."""
    batch = pq.read_table(options.source / BATCH)
    watch.lap("read")
    merging = DeltaTable(table_in(options.output)).merge(
        batch,
        f"old.{task.KEY} = new.{task.KEY}",
        source_alias="new",
        target_alias="old",
        writer_properties=_properties(),
        max_spill_size=int(options.ceiling * task.SPARE),
    )
    merging.when_matched_update_all().when_not_matched_insert_all().execute()
    watch.lap("merge")
    return []


def files(options: Any, watch: task.Stopwatch) -> list[str]:
    """The files that the newest version of the table names."""
    return named_files(DeltaTable(table_in(options.output)))


def sums(options: Any, watch: task.Stopwatch) -> list[str]:
    """What the rows come to that delta-rs reads; first it reads all of them for an answer of one row."""
    builder = QueryBuilder().register("t", DeltaTable(table_in(options.output)))
    asked = ", ".join(f"max({name})" for name in COLUMNS)
    builder.execute(f"SELECT count(*), {asked} FROM t WHERE g_mag > -1").read_all()
    watch.lap("read")
    found = pa.RecordBatchReader.from_stream(builder.execute("SELECT * FROM t"))
    return [str(number) for number in row_sums(found)]


def z_order(table: Path, options: Any, watch: task.Stopwatch) -> list[str]:
    """Let the table in a folder be z-ordered; the files that it names afterwards."""
    delta = DeltaTable(table)
    size = sum(Path(path).stat().st_size for path in named_files(delta))
    delta.optimize.z_order(
        task.CLUSTER_COLUMNS,
        target_size=size // options.files,
        max_concurrent_tasks=options.cores,
        max_spill_size=int(options.ceiling * task.SPARE),
        writer_properties=_properties(),
    )
    watch.lap("z_order")
    return named_files(DeltaTable(table))


def named_files(table: DeltaTable) -> list[str]:
    """The paths of the files that a version names."""
    return sorted(uri.removeprefix("file://") for uri in table.file_uris())


def _properties() -> WriterProperties:
    return WriterProperties(
        compression="ZSTD", compression_level=task.LEVEL, max_row_group_size=task.ROW_GROUP_ROWS
    )


if __name__ == "__main__":
    task.perform({"prepare": prepare, "cluster": cluster, "merge": merge, "files": files, "sums": sums})
