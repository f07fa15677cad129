"""The peer: plain pyarrow. `write_dataset` streams into partitions; a sort needs all rows in memory.

python -m benchmarks.pyarrow_tables --task sink --source S --output O --rows 2M --report report.json
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import table_task as task


def sink(options: Any, watch: task.Stopwatch) -> list[str]:
    """Write the rows into a partition per sky pixel and year."""
    source = ds.dataset(options.source, format="parquet")
    columns = {name: ds.field(name) for name in source.schema.names}
    columns[task.SKY] = pc.shift_right(ds.field("_healpix_29"), pa.scalar(task.SKY_SHIFT, pa.int64()))
    columns["year"] = pc.year(ds.field(task.TIME))
    values = pa.schema([(task.SKY, pa.int64()), ("year", pa.int64())])
    ds.write_dataset(
        source.scanner(columns=columns),
        options.output / "data",
        format="parquet",
        partitioning=ds.partitioning(values, flavor="hive"),
        file_options=ds.ParquetFileFormat().make_write_options(
            compression="zstd", compression_level=task.LEVEL
        ),
        min_rows_per_group=1 << 14,  # or every batch makes row groups of a few rows; more takes more memory
        max_rows_per_group=task.ROW_GROUP_ROWS,
    )
    watch.lap("write")
    return task.parquet_files(options.output)


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Sort the rows by the columns, one after the other, and cut them into files."""
    rows = ds.dataset(options.source, format="parquet").to_table()
    watch.lap("read")
    rows = rows.sort_by([(name, "ascending") for name in task.CLUSTER_COLUMNS])
    watch.lap("sort")
    step = -(-rows.num_rows // options.files)
    for number, start in enumerate(range(0, rows.num_rows, step)):
        pq.write_table(
            rows.slice(start, step),
            options.output / f"{number:04d}.parquet",
            compression="zstd",
            compression_level=task.LEVEL,
            row_group_size=task.ROW_GROUP_ROWS,
        )
    watch.lap("write")
    return task.parquet_files(options.output)


if __name__ == "__main__":
    task.perform({"sink": sink, "cluster": cluster})
