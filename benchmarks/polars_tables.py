"""The peer: polars on its streaming engine, with partitioned sinks. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.polars_tables --task sink --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from typing import Any

import polars as pl

from benchmarks import table_task as task

WRITE: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": task.LEVEL,
    "row_group_size": task.ROW_GROUP_ROWS,
    "engine": "streaming",
    "mkdir": True,
}


def sink(options: Any, watch: task.Stopwatch) -> list[str]:
    """Write the rows into a partition per sky pixel and year."""
    rows = pl.scan_parquet(options.source / "*.parquet")
    sky = (pl.col("_healpix_29") // (1 << task.SKY_SHIFT)).alias(task.SKY)
    year = pl.col(task.TIME).dt.year().alias("year")
    place = pl.PartitionBy(options.output / "data", key=[sky, year], include_key=False)
    rows.sink_parquet(place, maintain_order=False, **WRITE)
    watch.lap("write")
    return task.parquet_files(options.output)


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Sort the rows by the columns, one after the other, and cut them into files."""
    rows = pl.scan_parquet(options.source / "*.parquet").sort(task.CLUSTER_COLUMNS)
    place = pl.PartitionBy(
        options.output / "data",
        max_rows_per_file=-(-options.rows // options.files),
        approximate_bytes_per_file=None,
    )
    rows.sink_parquet(place, maintain_order=True, **WRITE)
    watch.lap("sort and write")
    return task.parquet_files(options.output)


if __name__ == "__main__":
    task.perform({"sink": sink, "cluster": cluster})
