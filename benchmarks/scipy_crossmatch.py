"""The practical limit of a cross-match: scipy in two processes over the same leaf files, written by hand.

Each process takes every other leaf of the right catalog, with its margin, as a k-d tree, asks it for the
nearest partner of all left rows in that pixel, and writes the pairs as one file: the same columns, codec,
encodings and row groups as ours. No plan, no histogram, no leaves of its own, no commit, no second attempt at
anything. Where a right leaf lies inside a left one, only its part of the left leaf is read and matched.

    $HIPSLAKE_PEERS_PYTHON -m benchmarks.scipy_crossmatch --work work.json --output OUT --report R
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.spatial import cKDTree

from benchmarks.leaf_encoding import INDEX_COLUMN, ROW_GROUP_ROWS, writer_options

COLUMNS = ["source_id", "ra", "dec"]
PROCESSES = 2


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--work", type=Path, required=True, help="what the catalogs' files are: see crossmatch.py"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--radius", type=float, default=2.0, help="arcseconds")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    options: Any = parser.parse_args(argv)
    started = time.perf_counter()
    options.output.mkdir(parents=True)
    work = json.loads(options.work.read_text())
    # The largest first, so that both end at about the same time.
    homes = sorted(work["homes"], key=lambda home: -home["rows"])
    tasks = [(work, home, options.radius, options.level, options.output) for home in homes]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        begun = time.perf_counter()
        rows = sum(pool.imap_unordered(match_home, tasks))
    ended = time.perf_counter()
    report = {
        "seconds": ended - started,
        "phases": {"start": begun - started, "match": ended - begun},
        "rows": rows,
        "dataset": str(options.output),
    }
    options.report.write_text(json.dumps(report, indent=2))


def match_home(task: tuple[dict[str, Any], dict[str, Any], float, int, Path]) -> int:
    """Match what lies in one pixel of the right catalog; the number of pairs."""
    work, home, radius, level, output = task
    pa.set_cpu_count(1)
    start, stop = home["start"], home["stop"]
    right = pa.concat_tables([read(path, (0, 1 << 62)) for path in home["files"]])
    left = pa.concat_tables(
        [
            read(leaf["path"], (start, stop))
            for leaf in work["leaves"]
            if leaf["start"] < stop and leaf["stop"] > start
        ]
        or [right.slice(0, 0)]
    )
    if not left.num_rows or not right.num_rows:
        return 0
    here, there = vectors(left), vectors(right)
    chord, partner = cKDTree(there).query(
        here, distance_upper_bound=2 * np.sin(np.radians(radius / 3600) / 2)
    )
    found = np.flatnonzero(np.isfinite(chord))
    if not len(found):
        return 0
    table = paired(left, right, found, partner[found], chord[found])
    options = writer_options(table.schema, level)
    with pq.ParquetWriter(output / f"{start}.parquet", table.schema, **options) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
    return len(found)


def read(path: str, interval: tuple[int, int]) -> pa.Table:
    """The rows of a file in a stretch of the curve: the row groups that have any."""
    file = pq.ParquetFile(path)
    told = [file.metadata.row_group(number).column(0).statistics for number in range(file.num_row_groups)]
    inside = [at for at, each in enumerate(told) if each.min < interval[1] and each.max >= interval[0]]
    table = file.read_row_groups(inside, columns=[INDEX_COLUMN, *COLUMNS], use_threads=False)
    first, last = np.searchsorted(table[INDEX_COLUMN].to_numpy(), interval)
    return table.slice(first, last - first).combine_chunks()


def vectors(table: pa.Table) -> np.ndarray:
    """Unit vectors, float64[n, 3]."""
    lon, lat = np.radians(table["ra"].to_numpy()), np.radians(table["dec"].to_numpy())
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def paired(
    left: pa.Table, right: pa.Table, rows: np.ndarray, partner: np.ndarray, chord: np.ndarray
) -> pa.Table:
    """Both sides of the pairs, with separation and position angle."""
    mine, other = left.take(pa.array(rows)), right.take(pa.array(partner)).select(COLUMNS)
    lon = np.radians(other["ra"].to_numpy() - mine["ra"].to_numpy())
    here, there = np.radians(mine["dec"].to_numpy()), np.radians(other["dec"].to_numpy())
    angle = np.arctan2(
        np.sin(lon) * np.cos(there),
        np.cos(here) * np.sin(there) - np.sin(here) * np.cos(there) * np.cos(lon),
    )
    other = other.rename_columns([f"{name}_stars_b" for name in COLUMNS])
    for name in other.column_names:
        mine = mine.append_column(name, other[name])
    separation = np.degrees(2 * np.arcsin(chord / 2)) * 3600
    mine = mine.append_column("separation_arcsec", pa.array(separation))
    return mine.append_column("position_angle_deg", pa.array(np.degrees(angle) % 360.0))


if __name__ == "__main__":
    main()
