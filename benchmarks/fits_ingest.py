"""The memory that the ingest of one large FITS file takes, of all processes together.

python -m benchmarks.fits_ingest
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.bars import MEMORY_BAR
from benchmarks.fits_table import ROW, write_table
from benchmarks.hipslake_ingest import ingest
from benchmarks.processes import run_measured

_GIB = 2**30
_THRESHOLD, _LEVEL = 1_000_000, 1


def main(arguments: list[str] | None = None) -> int:
    """Write a file, ingest it in processes of its own, print, judge; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--gigabytes", type=float, default=2.0, help="size of the file (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # what the measured process is told
    given = parser.parse_args(arguments)
    if given.folder:
        report = ingest(
            given.folder, given.folder / "out", threshold=_THRESHOLD, level=_LEVEL, source_format="fits"
        )
        (given.folder / "report.json").write_text(json.dumps(report))
        return 0
    rows = int(given.gigabytes * 1e9 / ROW.itemsize)
    with tempfile.TemporaryDirectory(prefix="hipslake-bench-") as name:
        folder = Path(name)
        write_table(folder / "stars.fits", rows)
        size = (folder / "stars.fits").stat().st_size
        command = [sys.executable, "-m", "benchmarks.fits_ingest", "--folder", str(folder)]
        usage = run_measured(command, log=folder / "log")
        report = json.loads((folder / "report.json").read_text())
    print(f"file:        {rows:,} rows, {size / 1e9:.2f} GB")
    print(f"time:        {usage.seconds:.0f} s, {report['seconds']:.0f} s of them with Spark's session up")
    print(
        f"peak memory: {usage.peak_bytes / _GIB:.2f} GiB of all processes (bar: {MEMORY_BAR / _GIB:.0f} GiB)"
    )
    passed = usage.peak_bytes <= MEMORY_BAR
    print("passed" if passed else "MISSED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
