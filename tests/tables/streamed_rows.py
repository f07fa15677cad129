"""Rows that sinks write as they come, and what came of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess

from tests.tables.delta.delta_lake import DeltaLake, plain_log
from tests.tables.sinking import Lake


def rows_of(count: int, values: int, seed: int) -> pa.Table:
    """Rows with nulls, NaN, infinite numbers, texts and lists, of which `value` says the partition."""
    random = np.random.default_rng(seed)
    flux = random.choice([0.0, 1.5, np.nan, np.inf, -np.inf], count, p=[0.4, 0.4, 0.1, 0.05, 0.05])
    texts = [None if at % 7 == 3 else f"{at:0{random.integers(1, 45)}d}" for at in range(count)]
    return pa.table(
        {
            "id": np.arange(count),
            "value": random.integers(0, values, count) ** 2 // max(values, 1),
            "flux": pa.array(flux, pa.float32(), mask=random.random(count) < 0.1),
            "text": pa.array(texts, pa.string()),
            "day": pa.array(random.integers(-9000, 9000, count).astype("M8[D]")),
            "bands": pa.array([list(range(at % 3)) for at in range(count)], pa.list_(pa.int64())),
        }
    )


def parts_of(rows: pa.Table, parts: int) -> list[pa.Table]:
    """The rows in parts, of which some are empty."""
    cuts = np.linspace(0, rows.num_rows, parts + 1).astype(int).tolist()
    return [rows.slice(first, last - first) for first, last in pairwise(cuts)]


def content(lake: Lake, spec: Any) -> dict[str, tuple[pa.Table, Any]]:
    """By the name of each live file: its rows as they lie, and what the table says of it but for sizes."""
    if isinstance(lake, DeltaLake):
        location = lake.location(spec)
        told = {
            str(location / path): (json.loads(add["stats"]), add["partitionValues"])
            for path, add in plain_log(location).items()
        }
    else:
        passed_over = {"file_path", "file_size_in_bytes", "column_sizes", "split_offsets", "readable_metrics"}
        told = {
            entry["file_path"].removeprefix("file://"): {
                key: value for key, value in entry.items() if key not in passed_over
            }
            for entry in lake.table(spec).inspect.files().to_pylist()
        }
    return {
        path.rpartition("/")[2]: (pq.ParquetFile(path).read(), repr(about)) for path, about in told.items()
    }


def sunk(root: Path, kind: type[Lake], engine: ThisProcess, more: dict[str, Any], *parts: pa.Table) -> Any:
    lake = kind(root, engine)
    spec = lake.spec(**more)
    lake.sink(spec, *parts)
    return content(lake, spec)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables are equal where NaN is equal to itself."""
    return repr(one.to_pylist()) == repr(other.to_pylist())
