"""Random tables as catalogs by the steps of an ingest: whole with indices, or appended night by night."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hipslake.steps.run import Window

from tests.predicates.random_columns import KINDS
from tests.predicates.random_predicates import RandomTable
from tests.predicates.stored_catalogs import CENTER, StoredTable
from tests.steps import in_process
from tests.steps.nights import FIRST
from tests.steps.sources_of_objects import Lake

INGESTED_KINDS = tuple(kind for kind in KINDS if not pa.types.is_dictionary(kind.arrow))
"""What needs no care in Parquet files of a source."""


def ingest_randomly(random: Random, root: Path, table: RandomTable) -> StoredTable:
    """Ingest a table at once, or in two nights, of which the first lacks some columns."""
    rows = len(table.rows)
    positions = [(CENTER[0] + random.uniform(-4, 4), CENTER[1] + random.uniform(-4, 4)) for _ in range(rows)]
    source = pa.table(
        {"id": range(rows), "ra": [place[0] for place in positions], "dec": [place[1] for place in positions]}
    )
    for column in table.columns:
        source = source.append_column(column.name, column.array)
    lake = Lake(root)
    spec: dict[str, Any] = {
        "layout": random.choice(("hats", "hipscat")),
        "threshold": f"{random.choice((12, 30))} rows",
        "parquet": {"row_group_rows": random.choice((3, 8, 20))},
        "co_partitioned": ["id"],
    }
    names = {column.name for column in table.columns}
    if random.random() < 0.5:
        keys = [c.name for c in table.columns if c.kind.family == "text" or pa.types.is_integer(c.kind.arrow)]
        catalog = lake.ingest("stars", source, index=["id", *keys], **spec)
        paths = {"main": catalog.metadata.partitions("main", catalog.storage)["path"].to_pylist()}
        return StoredTable(table, catalog, positions, {"main": names}, paths, ("id", *keys))
    cut = random.randrange(3, rows - 3)
    late = random.sample(sorted(names), random.randint(0, len(names) - 1))
    _append(lake, 0, source.slice(0, cut).drop_columns(late), spec)
    _append(lake, 1, source.slice(cut), spec)
    catalog = lake.open("stars")
    paths = {"main": catalog.metadata.partitions("main", catalog.storage)["path"].to_pylist()}
    return StoredTable(_later(table, set(late), cut), catalog, positions, {"main": names}, paths)


def _append(lake: Lake, number: int, night: pa.Table, spec: dict[str, Any]) -> None:
    start = FIRST + timedelta(days=number)
    lake.land(f"stars/{start:%Y-%m-%d}", night, files=1)
    source = {"uri": f"{lake.place}/landing/stars/{{{{ night }}}}/*.parquet", "format": "parquet"}
    window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
    folder = lake.start("stars", window=window, source=source, mode="append", **spec)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.append(folder)


def _later(table: RandomTable, late: set[str], cut: int) -> RandomTable:
    """The table without the values of some columns in its first rows."""
    columns = tuple(
        replace(column, stored=[None] * cut + column.stored[cut:]) if column.name in late else column
        for column in table.columns
    )
    values = [column.values for column in columns]
    names = [column.name for column in columns]
    return RandomTable(columns, [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])
