"""Small Iceberg tables for tests of compaction: what to ask, and what is in them."""

from __future__ import annotations

from typing import Any

from hipslake.clustering.checksum import row_checksum
from hipslake.steps.compact_table.request import CompactTableRequest
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
