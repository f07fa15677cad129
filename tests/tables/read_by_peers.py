"""What polars and DuckDB read of Iceberg tables, as Parquet files. For the peers' interpreter.

`read_by_peers.py METADATA FOLDER [METADATA FOLDER ...]` writes `polars.parquet` and `duckdb.parquet` to
each FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable


def main(metadata: str, folder: Path) -> None:
    pq.write_table(pl.scan_iceberg(metadata).collect().to_arrow(), folder / "polars.parquet")
    rows = StaticTable.from_metadata(metadata).scan().to_arrow()  # noqa: F841  # DuckDB finds it by its name
    found = duckdb.sql("SELECT * FROM rows").arrow()
    pq.write_table(found if hasattr(found, "num_rows") else found.read_all(), folder / "duckdb.parquet")


if __name__ == "__main__":
    for at in range(1, len(sys.argv), 2):
        main(sys.argv[at], Path(sys.argv[at + 1]))
