"""The rows of which the cube benchmark builds its cubes: a survey that sees its sources in ten epochs.

Three datasets have a row for every cell, a source in an epoch; a fourth has one for every source. Their files
hold a million rows each, as a survey delivers them: epoch after epoch, sources in no order. So every file
touches all partitions.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.cube_task import DATASETS, EPOCHS, KINDS, NIGHTS, PIXELS

FILE_ROWS = 1_000_000
ROW_GROUP_ROWS = 1 << 18
_STEP = 7_368_787  # a prime: multiples of it go through all sources, far apart

Integers = NDArray[np.int64]


def write_rows(folder: Path, cells: int, *, threads: int = 2) -> Path:
    """Write the files of all datasets; return the folder. Files that are there are kept.

    Parameters
    ----------
    folder : Path
    cells : int
        A multiple of `EPOCHS`.
    threads : int
    """
    sized = folder / f"cells_{cells}"
    parts = []
    for dataset in DATASETS:
        (sized / dataset).mkdir(parents=True, exist_ok=True)
        rows = cells // EPOCHS if dataset == "objects" else cells
        parts += [
            (sized, dataset, cells, start, min(rows, start + FILE_ROWS))
            for start in range(0, rows, FILE_ROWS)
        ]
    with ThreadPoolExecutor(threads) as pool:
        for part in [pool.submit(_write_part, *part) for part in parts]:
            part.result()
    return sized


def rows_of(dataset: str, cells: int, start: int, stop: int) -> pa.Table:
    """Some rows of a dataset, the same whenever they are asked for.

    Parameters
    ----------
    dataset : str
    cells : int
        Of the whole cube.
    start, stop : int
        The first row, and the one after the last.
    """
    random = np.random.default_rng([DATASETS.index(dataset), cells, start])
    number = np.arange(start, stop, dtype=np.int64)
    sources = cells // EPOCHS
    source = number % sources * _STEP % sources
    epoch = number // sources
    pixel = source * PIXELS // sources
    position = {"pixel": pixel, "source_id": pixel << 40 | source}
    if dataset == "objects":
        drawn = {"parallax": random.random(len(source)), "kind": random.integers(0, KINDS, len(source))}
        return pa.table(position | drawn)
    cell = position | {"epoch": epoch}
    reals = {name: random.random(len(source)) for name in _REALS[dataset]}
    if dataset == "detections":
        return pa.table(cell | {"night": _night(pixel, source, epoch)} | reals)
    if dataset == "quality":
        return pa.table(cell | reals | {"good": random.random(len(source)) < 0.1})
    return pa.table(cell | reals)


_REALS = {"detections": ("mag", "mag_error"), "photometry": ("flux", "flux_error"), "quality": ("seeing",)}


def _night(pixel: Integers, source: Integers, epoch: Integers) -> Integers:
    """A night sees half of a pixel's sources."""
    return epoch * (NIGHTS // EPOCHS) + pixel * 2 + source % 2


def _write_part(sized: Path, dataset: str, cells: int, start: int, stop: int) -> None:
    path = sized / dataset / f"{start // FILE_ROWS:04d}.parquet"
    if path.exists():
        return
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(
        rows_of(dataset, cells, start, stop),
        temporary,
        compression="zstd",
        compression_level=1,
        row_group_size=ROW_GROUP_ROWS,
    )
    temporary.replace(path)
