"""Row ranges of a large FITS table, read by astropy, by fitsio (CFITSIO) and by hipslake's own decoding.

Every reader reads all rows once, range by range, in a process of its own, with the file in the page cache.
The best of three runs counts, in seconds of the processor. astropy and fitsio give numpy columns in native
byte order; hipslake gives Arrow batches, with nulls. fitsio runs in the peers' environment. No column is
scaled: fitsio 1.4.2 misreads tables with scaled columns.

    python -m benchmarks.fits_reading
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import ROOT, environment

READERS = ("astropy", "fitsio", "hipslake")
RANGE_ROWS = 500_000
POSITIONS = ("ra", "dec")
_RUNS = 3


def read_astropy(path: Path, columns: Sequence[str]) -> int:
    """Read through a memory map, as astropy does by default."""
    from astropy.io import fits

    read = 0
    with fits.open(path) as hdus:
        rows = hdus[1].header["NAXIS2"]
        for first in range(0, rows, RANGE_ROWS):
            part = hdus[1].data[first : first + RANGE_ROWS]
            for name in columns or part.names:
                values = np.asarray(part[name])
                values.astype(values.dtype.newbyteorder("="))
            read += len(part)
    return read


def read_fitsio(path: Path, columns: Sequence[str]) -> int:
    """Read with CFITSIO, which seeks to the rows."""
    import fitsio

    read = 0
    with fitsio.FITS(path) as hdus:
        rows = hdus[1].get_nrows()
        for first in range(0, rows, RANGE_ROWS):
            wanted = np.arange(first, min(first + RANGE_ROWS, rows))
            part = (
                hdus[1].read(columns=list(columns), rows=wanted)
                if columns
                else hdus[1][first : first + RANGE_ROWS]
            )
            for name in part.dtype.names:
                np.ascontiguousarray(part[name])
            read += len(part)
    return read


def read_hipslake(path: Path, columns: Sequence[str]) -> int:
    """Read as the tasks of a job do."""
    from hipslake.sources import open_source
    from hipslake.specs.source_spec import SourceSpec

    source = open_source(SourceSpec(uri=str(path), format="fits"))
    files = source.list_files()
    schema, splits = source.schema(files), source.splits(files)
    if schema is None:
        raise AssertionError("a FITS file tells its schema")
    batches = (source.read(split, schema, columns or None, batch_rows=RANGE_ROWS) for split in splits)
    return sum(batch.num_rows for part in batches for batch in part)


def measured(reader: str, path: Path, columns: Sequence[str]) -> tuple[int, float, int]:
    """Return the rows read, seconds of the processor, and the peak memory of the process in bytes."""
    read: Callable[[Path, Sequence[str]], int] = globals()[f"read_{reader}"]
    times = []
    for _ in range(_RUNS):
        began = time.process_time()
        rows = read(path, columns)
        times.append(time.process_time() - began)
    return rows, min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_its_own_process(reader: str, path: Path, columns: Sequence[str]) -> tuple[int, float, int]:
    peers = os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python"))
    python = peers if reader == "fitsio" else sys.executable
    command = [python, "-m", "benchmarks.fits_reading", "--file", str(path), "--reader", reader]
    finished = subprocess.run(
        [*command, "--columns", *columns],
        cwd=ROOT,
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    rows, seconds, peak = json.loads(finished.stdout)
    return rows, seconds, peak


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=5_000_000, help="rows of the table (default: %(default)s)"
    )
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--columns", nargs="*", default=(), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.reader:
        print(json.dumps(measured(given.reader, given.file, given.columns)))
        return
    from benchmarks.fits_table import ROW, write_table

    with tempfile.TemporaryDirectory(prefix="hipslake-bench-") as folder:
        path = Path(folder, "stars.fits")
        write_table(path, given.rows)
        print(f"{given.rows:,} rows of {ROW.itemsize} bytes, in ranges of {RANGE_ROWS:,}")
        print(f"{'':10}{'columns':>10}{'cpu s':>10}{'MB/s':>8}{'peak MB':>9}")
        for columns in ((), POSITIONS):
            for reader in READERS:
                rows, seconds, peak = _in_its_own_process(reader, path, columns)
                if rows != given.rows:
                    raise AssertionError(f"{reader} read {rows} of {given.rows} rows")
                speed = rows * ROW.itemsize / seconds / 1e6
                print(f"{reader:10}{len(columns) or 'all':>10}{seconds:10.2f}{speed:8.0f}{peak / 1e6:9.0f}")


if __name__ == "__main__":
    main()
