"""What delta-rs, polars and DuckDB read of Delta tables, as Parquet files. For the peers' interpreter.

`read_delta_by_peers.py TABLE FOLDER [READERS]` writes `delta_rs.parquet`, `polars.parquet` and
`duckdb.parquet` to a folder, or those of some readers, with commas between them. DuckDB without its extension
for Delta reads the files that delta-rs names, and the values of partitions from their folders.
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


def by_delta_rs(location: str) -> pa.Table:
    table = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t")
    return pa.table(table.read_all())


def by_polars(location: str) -> pa.Table:
    return pl.scan_delta(location).collect().to_arrow()


def by_duckdb(location: str) -> pa.Table:
    try:
        duckdb.sql("LOAD delta")
    except duckdb.Error:
        table = DeltaTable(location)
        files = [uri.removeprefix("file://") for uri in table.file_uris()]
        schema = pa.schema(table.schema().to_arrow())
        if not files:
            return schema.empty_table()
        names = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        parted = bool(table.metadata().partition_columns)
        found = duckdb.sql(
            f"SELECT * FROM read_parquet([{names}], hive_partitioning = {parted}, "
            "hive_types_autocast = false, union_by_name = true)"
        ).to_arrow_table()
        return found.select([name for name in schema.names if name in found.column_names])
    return duckdb.sql(f"SELECT * FROM delta_scan('{location}')").to_arrow_table()


READERS = {"delta_rs": by_delta_rs, "polars": by_polars, "duckdb": by_duckdb}


def main(location: str, folder: Path, only: str = "") -> None:
    for name, read in READERS.items():
        if not only or name in only.split(","):
            pq.write_table(read(location), folder / f"{name}.parquet")


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
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
