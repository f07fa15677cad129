"""The peer: hats-import over the same files, by dask on two cores. Runs in the peers' environment.

Its best settings on this data, found by trial: two workers of one thread (one worker of two threads takes
1.7 times as long), its own Arrow reader in chunks of a whole file's million rows (chunks of a row group: 1.2
times), no progress bars, no dashboard. Leaves follow the same rule as ours (`drop_empty_siblings=False`).

    $HIPSLAKE_PEERS_PYTHON -m benchmarks.hats_import_peer --source .data/bench/20M --output OUT --report R
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from dask.distributed import Client
from hats_import.catalog.arguments import ImportArguments
from hats_import.catalog.file_readers import ParquetPyarrowReader
from hats_import.pipeline import pipeline_with_client

from benchmarks.leaf_encoding import INDEX_COLUMN, ROW_GROUP_ROWS, writer_options
from benchmarks.sizes import parse_count


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--source", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    parser.add_argument("--ra", default="ra")
    parser.add_argument("--dec", default="dec")
    parser.add_argument("--chunk-rows", type=parse_count, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    arguments: Any = parser.parse_args(argv)
    logging.getLogger("distributed").setLevel(logging.ERROR)

    files = sorted(arguments.source.glob("*.parquet"))
    schema = pq.read_schema(files[0])
    options = writer_options(schema.insert(0, pa.field(INDEX_COLUMN, pa.int64())), arguments.level)
    del options["sorting_columns"]  # hats-import sets its own: the same

    started = time.perf_counter()
    arguments.output.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory(dir=arguments.output) as scratch,
        Client(
            n_workers=arguments.workers,
            threads_per_worker=arguments.threads,
            local_directory=scratch,
            dashboard_address=None,
        ) as client,
    ):
        client_up = time.perf_counter()
        importing = ImportArguments(
            output_path=arguments.output,
            output_artifact_name="catalog",
            input_file_list=files,
            file_reader=ParquetPyarrowReader(chunksize=arguments.chunk_rows),
            ra_column=arguments.ra,
            dec_column=arguments.dec,
            pixel_threshold=arguments.threshold,
            highest_healpix_order=10,
            drop_empty_siblings=False,
            tmp_dir=scratch,
            progress_bar=False,
            write_table_kwargs=options,
            row_group_kwargs={"num_rows": ROW_GROUP_ROWS},
        )
        pipeline_with_client(importing, client)
        done = time.perf_counter()
    ended = time.perf_counter()
    report = {
        "seconds": ended - started,
        "phases": {"client": client_up - started, "import": done - client_up, "shutdown": ended - done},
        "dataset": str(arguments.output / "catalog" / "dataset"),
    }
    arguments.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
