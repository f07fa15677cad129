"""Whether DuckDB and polars read from data files what they are to hold. `peers_table.py EXPECTED FILE...`."""

from __future__ import annotations

import json
import sys

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq


def main(expected: str, files: list[str]) -> dict[str, bool]:
    rows = pq.read_table(expected)
    data = pa.concat_tables([pq.ParquetFile(file).read() for file in files])  # DuckDB over Arrow
    connection = duckdb.connect()
    connection.register("data", data)
    connection.register("expected", rows)
    counts = [
        connection.sql(f"select count(*) from (from {a} except all from {b})").fetchone()
        for a, b in (("data", "expected"), ("expected", "data"))
    ]
    frame = polars.concat([polars.read_parquet(file, hive_partitioning=False) for file in files]).sort("id")
    return {
        "duckdb": counts == [(0,), (0,)],
        "polars": frame.equals(polars.from_arrow(rows).sort("id")),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
