"""The peer: DuckDB, whose COPY partitions and sorts, and spills. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.duckdb_tables --task sink --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from typing import Any

import duckdb

from benchmarks import table_task as task

PARQUET = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {task.LEVEL}"


def sink(options: Any, watch: task.Stopwatch) -> list[str]:
    """Write the rows into a partition per sky pixel and year."""
    session = _session(options)
    session.execute("SET preserve_insertion_order = false")
    session.execute(
        f"COPY (SELECT *, _healpix_29 >> {task.SKY_SHIFT} AS {task.SKY}, year({task.TIME}) AS year "
        f"FROM '{options.source}/*.parquet') TO '{options.output}/data' "
        f"({PARQUET}, PARTITION_BY ({task.SKY}, year), ROW_GROUP_SIZE {task.ROW_GROUP_ROWS})"
    )
    watch.lap("write")
    return task.parquet_files(options.output)


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Sort the rows by the columns, one after the other, and cut them into files."""
    rows = -(-options.rows // options.files)
    session = _session(options)
    groups = -(-rows // task.ROW_GROUP_ROWS)
    session.execute(
        f"COPY (SELECT * FROM '{options.source}/*.parquet' ORDER BY {', '.join(task.CLUSTER_COLUMNS)}) "
        f"TO '{options.output}/data' ({PARQUET}, ROW_GROUP_SIZE {-(-rows // groups)}, "
        f"ROW_GROUPS_PER_FILE {groups})"
    )
    watch.lap("sort and write")
    return task.parquet_files(options.output)


def _session(options: Any) -> duckdb.DuckDBPyConnection:
    scratch = options.output / "spill"
    session = duckdb.connect()
    session.execute(f"SET threads = {options.cores}")
    session.execute(f"SET memory_limit = '{int(options.ceiling * task.SPARE) >> 20}MiB'")
    session.execute(f"SET temp_directory = '{scratch}'")
    session.execute("SET TimeZone = 'UTC'")
    return session


if __name__ == "__main__":
    task.perform({"sink": sink, "cluster": cluster})
