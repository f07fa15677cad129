"""Frames of polars and relations of DuckDB, handed over as rows, where both are installed."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
from hipslake.api.given_rows import rows_of, stage
from hipslake.storage.folder import Storage

rows = pa.table(
    {
        "id": [3, 1, None],
        "name": pa.array(["a", None, "c"], pa.large_string()),
        "list": pa.array([[1.0], [], [2.0, 3.0]], pa.large_list(pa.float64())),
        "time": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
    }
)
frame = pl.from_arrow(rows)
digests = set()
for number, given in enumerate(
    (
        rows,
        frame,
        frame.lazy(),
        frame.lazy().filter(pl.col("time").is_not_null()),
        duckdb.sql("select * from rows"),
        duckdb.sql("select * from rows where time is not null"),
    )
):
    found = rows_of(given)
    table = found.read_all()
    assert table.to_pylist() == rows.to_pylist(), table
    digests.add(stage(Storage.at("memory://rows"), table.cast(rows.schema).to_reader(), str(number)).digest)
assert len(digests) == 1
