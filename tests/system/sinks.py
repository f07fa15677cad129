"""Sinks in processes of their own, and what must hold of a table's folder after they died."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.table_spec import TableSpec
from pyiceberg.table import Table

from tests.tables.sinking import Lake, utc

MODES: dict[str, dict[str, Any]] = {
    "append": {"partition": ["truncate[50](id)"]},
    "upsert": {"partition": ["truncate[50](id)"], "mode": "upsert", "key": "id"},
}


def rows(first: int, count: int, value: int) -> pa.Table:
    """Rows with ids from `first` on."""
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "value": [value] * count})


def spec_of(lake: Lake, mode: str) -> TableSpec:
    """The spec of a mode's table."""
    return lake.spec(**MODES[mode])


def sink_night(root: str, mode: str, uri: str, night: int, stale_after: float = 0.0) -> None:
    """Sink files as the rows of a night; writes that died before are swept."""
    from hipslake.steps.sink.sink_table import sink

    lake = Lake(Path(root), ThisProcess(1))  # two threads may both make a folder, or one of them
    order = lake.order(spec_of(lake, mode), uri=uri, start=utc(f"2026-01-{night:02d}T00:00:00"))
    sink(order, lake.engine, stale_after=stale_after)


def die_at_the_catalog(root: str, mode: str, uri: str, night: int) -> None:
    """Sink, and die when all metadata is written, right before the catalog is told of it."""

    def die(*given: Any) -> None:
        if str(given[2]).startswith("UPDATE iceberg_tables"):
            os.kill(os.getpid(), signal.SIGKILL)

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", die)
    sink_night(root, mode, uri, night)


def sink_many(root: str, writer: int, nights: int) -> int:
    """Append nights of ten rows each, one after the other; return how many snapshots that made."""
    lake = Lake(Path(root) / f"writer {writer}")
    lake.warehouse = str(Path(root) / "warehouse")
    spec = lake.spec(iceberg={"uri": f"sqlite:///{root}/state/iceberg.db"}, partition=["bucket[2](id)"])
    done = 0
    for night in range(nights):
        number = writer * nights + night
        told = lake.sink(spec, rows(10 * number, 10, writer), start=utc(f"20{10 + number}-01-01T00:00:00"))
        done += told.snapshot_id is not None
    return done


def orphans(table: Table) -> list[str]:
    """Files in the table's folder that no snapshot and no log names, by pyiceberg's own account."""
    inspect = table.inspect
    named = set(inspect.all_files()["file_path"].to_pylist()) if table.snapshots() else set()
    named |= {snapshot.manifest_list for snapshot in table.snapshots()}
    named |= {m.manifest_path for snapshot in table.snapshots() for m in snapshot.manifests(table.io)}
    named |= {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    named |= {each.statistics_path for each in table.metadata.statistics}
    root = Path(table.location())
    there = {str(path) for folder in ("data", "metadata", "_writes") for path in (root / folder).rglob("*")}
    there = {path for path in there if Path(path).is_file() and "/_writes/_versions/swept/" not in path}
    return sorted(there - named)
