"""The peer: hats-import's margin cache, by dask on two cores. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.hats_margin_peer --catalog FOLDER --output OUT --arcsec 10
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from typing import Any

from dask.distributed import Client
from hats_import.margin_cache.margin_cache_arguments import MarginCacheArguments
from hats_import.pipeline import pipeline_with_client


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--catalog", type=Path, required=True, help="folder of a HATS catalog")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--arcsec", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=2)
    arguments: Any = parser.parse_args(argv)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    arguments.output.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory(dir=arguments.output) as scratch,
        Client(
            n_workers=arguments.workers,
            threads_per_worker=1,
            local_directory=scratch,
            dashboard_address=None,
        ) as client,
    ):
        importing = MarginCacheArguments(
            input_catalog_path=arguments.catalog,
            output_path=arguments.output,
            output_artifact_name="margin",
            margin_threshold=arguments.arcsec,
            tmp_dir=scratch,
            progress_bar=False,
        )
        pipeline_with_client(importing, client)


if __name__ == "__main__":
    main()
