"""Changes of a Delta table in processes of their own, which may be killed and run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.table_spec import TableSpec

from tests.tables.delta.delta_lake import DeltaLake
from tests.tables.sinking import utc

MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "changes": {"mode": "upsert", "key": "id", "operation": {"column": "op"}, "order_by": "value"},
}


def rows(first: int, count: int, value: int) -> pa.Table:
    """Rows with ids from `first` on, in two bands; every fifth is one that goes, where there are records."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "band": ["gr"[number % 2] for number in ids],
            "value": [value] * count,
            "op": ["D" if value > 1 and number % 5 == 0 else "U" for number in ids],
        }
    )


def lake_in(root: str) -> DeltaLake:
    """The warehouse; one thread, since two may both make a folder, or one of them."""
    return DeltaLake(Path(root), ThisProcess(1))


def spec_of(lake: DeltaLake, mode: str) -> TableSpec:
    """The spec of a mode's table."""
    return lake.spec(partition=["band"], properties={"delta.checkpointInterval": "3"}, **MODES[mode])


def change(root: str, what: str, uri: str) -> None:
    """Do something to a table, as a run that may come again; writes that died before are swept.

    Once more at the end: a commit of theirs may have been on its way until one of ours has come.
    """
    from hipslake.steps.compact_table.run import run as compacted
    from hipslake.steps.run import run_uri
    from hipslake.steps.sink.sink_table import sink
    from hipslake.steps.table_delete.request import DeleteTableRowsRequest
    from hipslake.steps.table_delete.run import run as deleted
    from hipslake.tables.opening import open_table

    from tests.tables.compaction.compacting import request

    lake = lake_in(root)
    spec = spec_of(lake, "append")
    table = open_table(spec.place, lake.warehouse, spec.table)
    table.sweep(0.0)
    if what in MODES:
        order = lake.order(spec_of(lake, what), uri=uri, start=utc("2026-01-02T00:00:00"))
        sink(order, lake.engine, stale_after=0.0)
    elif what == "compaction":
        given = {"mode": "hilbert", "columns": ["id"], "max_commits": 2, "target_file_size": "2 KiB"}
        compacted(request(lake.root, table=spec.table, format="delta", run="again", **given), lake.engine)
    else:
        deleted(
            DeleteTableRowsRequest(
                run_uri=run_uri(lake.warehouse, "table_delete__sample", "again"),
                warehouse=lake.warehouse,
                format="delta",
                table=spec.table,
                filters="id < 20",
                force=True,
            )
        )
    table.sweep(0.0)
