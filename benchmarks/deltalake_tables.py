"""The peer: delta-rs, whose `optimize.z_order` rewrites a Delta table. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.deltalake_tables --task cluster --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from typing import Any

from deltalake import convert_to_deltalake

from benchmarks import table_task as task
from benchmarks.delta_rs_tables import z_order


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Let a Delta table of these files be z-ordered."""
    table = options.output / "table"
    table.mkdir()
    for path in options.source.iterdir():
        (table / path.name).hardlink_to(path)
    convert_to_deltalake(table)
    watch.lap("convert")
    return z_order(table, options, watch)


if __name__ == "__main__":
    task.perform({"cluster": cluster})
