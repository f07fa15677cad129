"""What the HiPS of a catalog costs: `make bench-hips`.

A synthetic Milky Way is ingested once. Then its HiPS is made with different options, each by a process of its
own, timed with all that starting it takes; peak memory is that of the process. Every outcome is read
back: each star has to be in one tile, and there in its pixel as healpy has it.

    python -m benchmarks.hips                  5M rows: results go to docs/benchmarks/hips.md
    python -m benchmarks.hips --rows 1M        they are only printed
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow.csv as pacsv

from benchmarks import machine
from benchmarks.margin import ingest
from benchmarks.processes import ROOT, run_measured
from benchmarks.sizes import format_count, parse_count

ROWS, THRESHOLD = 5_000_000, 250_000
KEPT = ROOT / "docs" / "benchmarks" / "hips.md"
WAYS: dict[str, dict[str, Any]] = {
    "4 columns, by magnitude": {"order_by": "g_mag", "columns": ["source_id", "g_mag"]},
    "12 columns, by magnitude": {"order_by": "g_mag"},
    "12 columns, by magnitude, 2,000 rows per tile": {"order_by": "g_mag", "tile_rows": 2000},
    "12 columns, at random": {},
}


def make(folder: Path, way: str) -> None:
    """Make a HiPS of the catalog in a folder: what is timed."""
    from hipslake.engine.this_process import ThisProcess
    from hipslake.steps.hips import run as hips_run
    from hipslake.steps.hips.request import HipsReport, HipsRequest
    from hipslake.steps.report import perform
    from hipslake.steps.run import run_uri

    warehouse = str(folder / "warehouse")
    request = HipsRequest(
        run_uri=run_uri(warehouse, "catalog_hips__stars", way),
        warehouse=warehouse,
        catalog="stars",
        output=str(folder / "hips"),
        **WAYS[way],
    )
    report = perform(lambda asked: hips_run.run(asked, ThisProcess()), request, HipsReport)
    (folder / "report.json").write_text(report.model_dump_json())


def measure(folder: Path, way: str) -> dict[str, Any]:
    """Let a process make a HiPS; what it took and wrote, and what was read back of it."""
    shutil.rmtree(folder / "hips", ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.hips", f"--make={way}", f"--folder={folder}"]
    usage = run_measured(command, log=folder / "hips.log")
    report = json.loads((folder / "report.json").read_text())
    tiles, rows = read_back(folder / "hips" / "current")
    return {
        "way": way,
        "seconds": usage.seconds,
        "peak": usage.peak_bytes,
        "rows": rows,
        "tiles": len(tiles),
        "order": max(order for order, _ in tiles),
        "bytes": report["bytes"],
    }


def read_back(root: Path) -> tuple[set[tuple[int, int]], int]:
    """Read all tiles; their pixels, and how many different stars lie in the tile whose pixel they are in."""
    tiles, found = set(), []
    options = pacsv.ReadOptions(skip_rows=1), pacsv.ParseOptions(delimiter="\t")
    for path in root.glob("Norder*/Dir*/Npix*.tsv"):
        order, npix = int(path.parts[-3].removeprefix("Norder")), int(path.stem.removeprefix("Npix"))
        table = pacsv.read_csv(path, *options)
        pixels = healpy.ang2pix(
            1 << order, table["ra"].to_numpy(), table["dec"].to_numpy(), nest=True, lonlat=True
        )
        found.append(table["source_id"].to_numpy()[pixels == npix])
        tiles.add((order, npix))
    return tiles, len(np.unique(np.concatenate(found)))


def report(runs: list[dict[str, Any]], rows: int) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every row was read back."""
    about = machine.describe(sys.executable, peers=())
    lines = [
        "# HiPS",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {about['processor']}, {about['cores']} cores, "
        f"{about['memory_bytes'] / 2**30:.0f} GiB, {about['system']}, Python {about['python']}. "
        "Made by `make bench-hips`.",
        "",
        f"A synthetic Milky Way of {rows:,} rows and 12 columns, in leaves of at most {THRESHOLD:,} rows.",
        "Each HiPS is made by a process of its own: *seconds* are those of the process, *peak* its memory.",
        "Every outcome was read back: *rows read back* are different stars in the pixel of their tile.",
        "",
        "| HiPS | seconds | rows/s | peak MB | tiles | last order | MB | rows read back |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {run['way']} | {run['seconds']:.1f} | {run['rows'] / run['seconds']:,.0f} "
        f"| {run['peak'] / 1e6:,.0f} | {run['tiles']:,} | {run['order']} "
        f"| {run['bytes'] / 1e6:,.0f} | {run['rows']:,} |"
        for run in runs
    ]
    return "\n".join(lines) + "\n", all(run["rows"] == rows for run in runs)


def main(options: argparse.Namespace) -> int:
    """Ingest, measure, print; 1 if a row was lost."""
    folder = options.folder / f"hips-{format_count(options.rows)}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ingest(folder, options.rows, THRESHOLD)
    text, passed = report([measure(folder, way) for way in WAYS], options.rows)
    print(text)
    if options.rows == ROWS:
        KEPT.write_text(text)
    shutil.rmtree(folder)
    return 0 if passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=ROWS, help="rows of the catalog (default: 5M)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="where the data lie")
    parser.add_argument("--make", help="make this HiPS (for the benchmark itself)")
    given = parser.parse_args()
    if given.make:
        make(given.folder, given.make)
    else:
        sys.exit(main(given))
