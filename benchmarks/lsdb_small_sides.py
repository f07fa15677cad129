"""The peer of `make bench-small`: LSDB over the same catalogs, by dask on two cores, into memory.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.lsdb_small_sides --catalogs C --report R --scratch S left:right ...
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import lsdb
from dask.distributed import Client


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pairs", nargs="+", metavar="LEFT:RIGHT")
    parser.add_argument("--catalogs", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--radius", type=float, required=True, help="arcseconds")
    parser.add_argument("--repeats", type=int, default=1)
    options: Any = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    found: dict[str, list[float]] = {}
    with Client(n_workers=2, threads_per_worker=1, local_directory=options.scratch, dashboard_address=None):
        for pair in options.pairs:
            for attempt in range(options.repeats + 1):
                started = time.perf_counter()
                left, right = (lsdb.open_catalog(options.catalogs / name) for name in pair.split(":"))
                matched = left.crossmatch(
                    right,
                    radius_arcsec=options.radius,
                    n_neighbors=1,
                    require_right_margin=False,
                    suffixes=("", "_right"),
                )
                matched.compute()
                if attempt:  # the first brings the files into the memory of the machine
                    found.setdefault(pair.replace(":", " x "), []).append(time.perf_counter() - started)
    options.report.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
