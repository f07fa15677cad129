"""The rows that the table benchmark writes: surveys with `_healpix_29`, and a batch of keys for an upsert.

The survey is the synthetic Milky Way, whose files touch every part of the sky and every year. Nothing here
needs more than numpy, healpy and pyarrow, so that programs of both environments may import it.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.milky_way import FILE_ROWS, ROW_GROUP_ROWS, SEED, write_part
from benchmarks.table_task import KEY

UPSERT_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        pa.field("g_mag", pa.float64()),
        pa.field("observed", pa.timestamp("us", tz="UTC")),
    ]
)


def write_rows(folder: Path, rows: int, *, processes: int = 2) -> Path:
    """Write a survey as files of a million rows, `_healpix_29` first; return the folder of this size.

    Sizes share their files as hard links; files that are there are kept.
    """
    sized = folder / f"rows_{rows}"
    for place in (folder / "stars", folder / "rows", sized):
        place.mkdir(parents=True, exist_ok=True)
    parts = range(-(-rows // FILE_ROWS))
    counts = [min(FILE_ROWS, rows - part * FILE_ROWS) for part in parts]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for path in pool.map(_write_indexed, [folder] * len(parts), parts, counts):
            if not (sized / path.name).exists():
                (sized / path.name).hardlink_to(path)
    return sized


def _write_indexed(folder: Path, part: int, rows: int) -> Path:
    """Write one file of the survey with the order-29 pixel of each star."""
    path = folder / "rows" / f"rows_{part:04d}_{rows}.parquet"
    if path.exists():
        return path
    stars = pq.read_table(write_part(folder / "stars", part, rows))
    pixels = healpy.ang2pix(2**29, stars["ra"].to_numpy(), stars["dec"].to_numpy(), nest=True, lonlat=True)
    table = stars.add_column(0, pa.field("_healpix_29", pa.int64(), nullable=False), pa.array(pixels))
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(table, temporary, compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS)
    return temporary.replace(path)


def upsert_rows(rows: int, batch: int, *, seed: int = SEED) -> tuple[pa.Table, pa.Table]:
    """Draw a table of unique keys, and a batch of which half the keys stand in it already.

    Parameters
    ----------
    rows, batch : int
        The batch may have at most twice as many rows as the table.

    Returns
    -------
    (pyarrow.Table, pyarrow.Table)
        With `UPSERT_SCHEMA`, keys unique within each, in random order.
    """
    rng = np.random.default_rng([seed, rows, batch])
    new = batch - batch // 2
    keys = rng.permutation(rows + new)  # those of the table, then those that are new
    again = rng.choice(rows, batch // 2, replace=False)
    chosen = rng.permutation(np.concatenate([keys[again], keys[rows:]]))
    return _drawn(keys[:rows], rng, 0), _drawn(chosen, rng, 1)


def _drawn(keys: np.ndarray, rng: np.random.Generator, year: int) -> pa.Table:
    """Some values for keys; those of another year differ everywhere."""
    seconds = rng.integers(0, 365 * 86400, len(keys)) * 1_000_000
    observed = np.datetime64(f"{2026 + year}-01-01", "us") + seconds.astype("m8[us]")
    columns = [pa.array(keys.astype(np.int64) * 1_000_003), pa.array(rng.uniform(6, 21, len(keys)))]
    return pa.table([*columns, pa.array(observed, UPSERT_SCHEMA.types[2])], schema=UPSERT_SCHEMA)


def upserted(table: pa.Table, batch: pa.Table, *, in_order: bool = True) -> pa.Table:
    """What an upsert has to leave, sorted by key if asked: the batch, and rows whose keys it has not."""
    stays = ~np.isin(table[KEY].to_numpy(), batch[KEY].to_numpy())
    rows = pa.concat_tables([table.filter(pa.array(stays)), batch])
    return rows.sort_by(KEY) if in_order else rows
