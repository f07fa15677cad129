"""The peer: delta-rs, whose `optimize.z_order` rewrites a Delta table. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.deltalake_tables --task cluster --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable, WriterProperties, convert_to_deltalake

from benchmarks import table_task as task


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Let a Delta table of these files be z-ordered."""
    table = options.output / "table"
    table.mkdir()
    for path in options.source.iterdir():
        (table / path.name).hardlink_to(path)
    convert_to_deltalake(table)
    watch.lap("convert")
    delta = DeltaTable(table)
    size = sum(path.stat().st_size for path in options.source.iterdir())
    delta.optimize.z_order(
        task.CLUSTER_COLUMNS,
        target_size=size // options.files,
        max_concurrent_tasks=options.cores,
        max_spill_size=int(options.ceiling * task.SPARE),
        writer_properties=WriterProperties(
            compression="ZSTD", compression_level=task.LEVEL, max_row_group_size=task.ROW_GROUP_ROWS
        ),
    )
    watch.lap("z_order")
    return [str(Path(uri.removeprefix("file://"))) for uri in DeltaTable(table).file_uris()]


if __name__ == "__main__":
    task.perform({"cluster": cluster})
