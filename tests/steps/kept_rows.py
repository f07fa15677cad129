"""Runs that keep the rows that they count, step by step."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.ingest import histogram, write
from hipslake.steps.ingest.request import (
    HistogramReport,
    HistogramRequest,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table

from tests.steps.in_process import (
    freeze,
    make_plan,
    start,
    write_source,
    write_spec,
)


def many_kinds(rows: int, seed: int) -> pa.Table:
    """Rows of many kinds, some of them null, many at the very same place, in an order of their own."""
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    ra[: rows // 2], dec[: rows // 2] = rng.normal(80, 1, rows // 2), rng.normal(30, 1, rows // 2)
    ra[: rows // 40], dec[: rows // 40] = 80.0, 30.0  # of equal keys, only the source tells the order
    mixed = rng.permutation(rows)
    null = rng.random(rows) < 0.3
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "ra": ra[mixed],
            "dec": dec[mixed],
            "mag": pa.array(rng.normal(12, 2, rows), pa.float32()),
            "flux": pa.array(rng.normal(1, 2, rows), mask=null),
            "flag": pa.array(rng.random(rows) < 0.5, mask=null),
            "seen": pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us", "UTC")),
            "name": pa.array(["x" * (n % 7) if n % 5 else None for n in range(rows)]),
            "band": pa.array(["grizy"[n % 5] for n in range(rows)]).dictionary_encode(),
            "spectrum": pa.array([[float(n)] * (n % 4) for n in range(rows)], pa.list_(pa.float32())),
            "tiny": pa.array((np.arange(rows) % 100).astype(np.int8)),
        }
    )


def land(folder: Path, table: pa.Table, files: int) -> str:
    """Write a table as some files of small row groups, of which one may be empty; give their pattern."""
    folder.mkdir(parents=True)
    edges = np.linspace(0, table.num_rows, files + 1).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(edges)):
        part = table.slice(first, last - first)
        pq.write_table(part, folder / f"{number:03d}.parquet", row_group_size=137)
    return f"{folder}/*.parquet"


def counted(folder: RunFolder, *, keep: bool, cores: int = 2, split_bytes: int = 4096) -> HistogramReport:
    """Count in many tasks, and keep the rows or not."""
    asked = HistogramRequest(run_uri=folder.uri, keep_rows=keep, split_target_bytes=split_bytes)
    folder.storage.delete(RunFolder.report_path(asked.step))  # or what is done would not be done again
    return perform(lambda request: histogram.run(request, ThisProcess(cores)), asked, HistogramReport)


def written(folder: RunFolder, target_bytes: int = 20_000) -> list[tuple[Any, ...]]:
    """Write leaves in many tasks; what came out, but for the paths, which name the run."""
    asked = WriteRequest(run_uri=folder.uri, target_bytes=target_bytes)
    folder.storage.delete(RunFolder.report_path(asked.step))
    perform(lambda request: write.run(request, ThisProcess(2)), asked, WriteReport)
    files = read_table(folder.storage, RunFolder.PARTITIONS).drop_columns(["path"]).to_pylist()
    return [tuple(file.values()) for file in files]


def kept_files(folder: RunFolder) -> list[Path]:
    """All that lies where rows are kept."""
    return [path for path in Path(folder.uri, RunFolder.SORTED).rglob("*") if path.is_file()]


def row_starts(folder: RunFolder) -> np.ndarray[Any, Any]:
    splits = read_table(folder.storage, RunFolder.SPLITS)
    return np.asarray(splits["row_start"].to_numpy())


def kept_run(tmp_path: Path, **more: Any) -> RunFolder:
    """A run that has counted and planned, and kept its rows."""
    write_source(tmp_path / "landing")
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", **more)
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    assert counted(folder, keep=True, split_bytes=20_000).keeps_rows
    make_plan(folder)
    return folder
