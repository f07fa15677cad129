"""What a survey saw: the same objects again and again, each night along a stripe of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.steps.run import Window

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
STRIPES = 10
_IDS_OF_A_NIGHT = 1_000_000


def objects(count: int) -> pa.Table:
    """Objects all over the sky: their ids and where they are, in degrees."""
    rng = np.random.default_rng(count)
    return pa.table(
        {
            "object": np.arange(count),
            "ra": rng.uniform(0, 360, count),
            "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, count))),
        }
    )


def bright(sky: pa.Table) -> pa.Table:
    """Every tenth object, as another survey has it."""
    chosen = sky.take(np.arange(0, sky.num_rows, 10))
    return chosen.rename_columns(["bright", "ra", "dec"])


def seen(sky: pa.Table, night: int, rows: int) -> pa.Table:
    """What a night saw; the first one all objects, the others some of a stripe of the sky."""
    rng = np.random.default_rng([night, rows])
    first = 360 / STRIPES * (night % STRIPES)
    ra = sky["ra"].to_numpy()
    there = np.flatnonzero((ra >= first) & (ra < first + 360 / STRIPES))
    chosen = np.arange(sky.num_rows) if night == 0 else np.sort(rng.choice(there, rows, replace=False))
    observed = sky.take(chosen)
    return observed.append_column(
        "observation", pa.array(night * _IDS_OF_A_NIGHT + np.arange(len(chosen)))
    ).append_column("mag", pa.array(rng.normal(18, 2, len(chosen))))


def window_of(night: int) -> Window:
    """The interval of a night."""
    start = FIRST + timedelta(days=night)
    return Window(start=start, end=start + timedelta(days=1), origin="data_interval")


def land(landing: Path, night: int, rows: pa.Table) -> None:
    """Put a night there, as two files."""
    folder = landing / f"night={FIRST + timedelta(days=night):%Y-%m-%d}"
    folder.mkdir(parents=True)
    half = rows.num_rows // 2
    pq.write_table(rows.slice(0, half), folder / "a.parquet")
    pq.write_table(rows.slice(half), folder / "b.parquet")
