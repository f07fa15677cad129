"""Small Iceberg tables for tests of compaction: what to ask, and what is in them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake.clustering.checksum import row_checksum
from hipslake.steps.compact_table.request import CompactTableRequest
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tests.tables.compaction import compacting
from tests.tables.sinking import Lake

CATALOG = "sqlite:///{root}/state/iceberg.db"


def request(lake: Lake, **given: Any) -> CompactTableRequest:
    iceberg = {"uri": CATALOG.format(root=lake.root)}
    return compacting.request(lake.root, table="survey.sample", iceberg=iceberg, **given)


def table_of(lake: Lake) -> Table:
    return lake.table(lake.spec())


def content(lake: Lake) -> tuple[int, int]:
    rows = table_of(lake).scan().to_arrow()
    return rows.num_rows, row_checksum(rows)


def files_of(lake: Lake) -> list[DataFile]:
    return live_files(table_of(lake))


def sizes_of(lake: Lake) -> list[int]:
    return sorted(file.file_size_in_bytes for file in files_of(lake))


def dated(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    start = dt.datetime(2026, 1, 30)
    at = [start + dt.timedelta(hours=int(hours)) for hours in random.integers(0, 24 * 60, rows)]
    return pa.table(
        {
            "id": random.permutation(rows) + seed * 10_000,
            "at": pa.array([None if n % 50 == 0 else each for n, each in enumerate(at)], pa.timestamp("us")),
            "band": ["g" if n % 3 else "r" for n in range(rows)],
            "flux": random.normal(size=rows),
        }
    )
