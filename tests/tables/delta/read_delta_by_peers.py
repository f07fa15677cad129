"""What delta-rs, polars and DuckDB read of Delta tables, as Parquet files. For the peers' interpreter.

`read_delta_by_peers.py TABLE FOLDER [TABLE FOLDER ...]` writes `delta_rs.parquet`, `polars.parquet`, and
`duckdb.parquet` if DuckDB has its extension for Delta, to each FOLDER.
"""

from __future__ import annotations

import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder


def main(location: str, folder: Path) -> None:
    rows = pa.table(QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t").read_all())
    pq.write_table(rows, folder / "delta_rs.parquet")
    pq.write_table(pl.scan_delta(location).collect().to_arrow(), folder / "polars.parquet")
    try:
        duckdb.sql("LOAD delta")
    except duckdb.Error:
        return
    duckdb.sql(f"SELECT * FROM delta_scan('{location}')").write_parquet(str(folder / "duckdb.parquet"))


def found(location: str, column: str, values: list[Any]) -> list[dict[str, Any]]:
    """The ids of the rows that delta-rs and polars find by conditions on a column."""
    table = DeltaTable(location)
    kind = pa.schema(table.schema().to_arrow()).field(column).type
    kind = pa.string() if pa.types.is_string(kind) or "string" in str(kind) else kind
    answers = []
    for value in [*pq.read_table(values[0])[column].cast(kind).unique().to_pylist()]:
        if value is None:
            continue
        text = f"'{value}'" if isinstance(value, str | datetime | date) else f"CAST('{value}' AS DOUBLE)"
        frame = pl.scan_delta(location)
        for sign in ("=", "<", ">="):
            query = f"SELECT id FROM t WHERE {column} {sign} {text}"
            by_rust = pa.table(QueryBuilder().register("t", table).execute(query).read_all())[
                "id"
            ].to_pylist()
            compared = {
                "=": pl.col(column) == value,
                "<": pl.col(column) < value,
                ">=": pl.col(column) >= value,
            }
            by_polars = frame.filter(compared[sign]).select("id").collect()["id"].to_list()
            answers.append(
                {"sign": sign, "value": str(value), "rust": sorted(by_rust), "polars": sorted(by_polars)}
            )
    return answers


if __name__ == "__main__" and sys.argv[1] == "filter":
    print(json.dumps(found(sys.argv[2], sys.argv[3], sys.argv[4:])))
elif __name__ == "__main__":
    for at in range(1, len(sys.argv), 2):
        main(sys.argv[at], Path(sys.argv[at + 1]))
