"""The peer: LSDB over the same catalogs, by dask on two cores. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.lsdb_crossmatch --left A --right B --output OUT --report R
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import lsdb
from dask.distributed import Client

from benchmarks.leaf_encoding import ROW_GROUP_ROWS

COLUMNS = ["source_id", "ra", "dec"]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--left", required=True, help="root of a catalog")
    parser.add_argument("--right", required=True, help="root of a catalog with a margin")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--radius", type=float, default=2.0, help="arcseconds")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    options: Any = parser.parse_args(argv)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    started = time.perf_counter()
    options.output.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory(dir=options.output) as scratch,
        Client(
            n_workers=options.workers,
            threads_per_worker=options.threads,
            local_directory=scratch,
            dashboard_address=None,
        ),
    ):
        up = time.perf_counter()
        left, right = (lsdb.open_catalog(root, columns=COLUMNS) for root in (options.left, options.right))
        matched = left.crossmatch(
            right,
            radius_arcsec=options.radius,
            n_neighbors=1,
            require_right_margin=True,
            suffixes=("", "_stars_b"),
        )
        catalog = options.output / "catalog"
        matched.write_catalog(
            catalog,
            catalog_name="a_x_b",
            progress_bar=False,
            row_group_kwargs={"num_rows": ROW_GROUP_ROWS},
            write_table_kwargs={"compression": "zstd", "compression_level": options.level},
        )
        done = time.perf_counter()
    ended = time.perf_counter()
    report = {
        "seconds": ended - started,
        "phases": {"client": up - started, "match": done - up, "shutdown": ended - done},
        "dataset": str(catalog),
    }
    options.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
