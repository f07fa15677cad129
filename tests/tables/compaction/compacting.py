"""Small compactions for tests: folders of files, requests, and what lies there afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest
from hipslake.steps.report import perform

SMALL = {"target_file_size": "40 KiB", "num_ranges": 200}


def stars(rows: int, seed: int = 0) -> pa.Table:
    """Rows in no order, with columns of several types."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.permutation(rows) + seed * 1_000_000,
            "ra": random.random(rows) * 360,
            "dec": random.normal(0, 30, rows),
            "name": [f"star {n % 977}" if n % 7 else None for n in range(rows)],
            "tags": [[n % 3, n % 5] for n in range(rows)],
        }
    )


def write_folder(folder: Path, table: pa.Table, files: int, partition: str = "") -> Path:
    """Store rows as files of equal size."""
    (folder / partition).mkdir(parents=True, exist_ok=True)
    size = -(-table.num_rows // files)
    for at in range(files):
        pq.write_table(
            table.slice(at * size, size), folder / partition / f"{table['id'][0]}-{at:04d}.parquet"
        )
    return folder


def request(
    root: Path, *, run: str = "", full: bool = False, dry_run: bool = False, **given: Any
) -> CompactTableRequest:
    """The request of a run of its own, unless one is named."""
    spec = {"name": "sample", "type": "compaction"} | SMALL | given
    return CompactTableRequest(
        run_uri=str(root / "warehouse" / "_runs" / "table_compact__sample" / (run or secrets.token_hex(4))),
        warehouse=str(root / "warehouse"),
        spec=CompactionSpec.model_validate(spec),
        full=full,
        dry_run=dry_run,
    )


def compact(asked: CompactTableRequest, engine: Engine | None = None) -> CompactTableReport:
    """Perform the step."""
    chosen = engine or ThisProcess(2)
    return perform(lambda told: compact_table_run.run(told, chosen), asked, CompactTableReport)


def rows_in(folder: Path | str) -> pa.Table:
    """What a plain reader finds in a folder, sorted."""
    return ds.dataset(str(folder), partitioning="hive", exclude_invalid_files=False).to_table().sort_by("id")


def files_in(folder: Path) -> list[Path]:
    """The data files of a folder."""
    return sorted(path for path in folder.rglob("*.parquet"))


def before_commit(
    monkeypatch: pytest.MonkeyPatch, rewrite: type[Any], others: Callable[[], object], at: int = 1
) -> None:
    """Let something happen before the commit of this number, of rewrites of a class."""
    commit, calls = rewrite.commit, iter(range(1, 100))

    def overtaken(self: Any, *told: Any) -> Any:
        if next(calls) == at:
            others()
        return commit(self, *told)

    monkeypatch.setattr(rewrite, "commit", overtaken)
