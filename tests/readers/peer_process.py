"""Answers questions of `tests.readers.peer` in the interpreter that has the other readers.

`peer_process.py FOLDER`: every line that comes in is `[reader, place]`; every line that goes out is
`["rows", Arrow file]` or `["error", text]`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import traceback
from typing import Any

import pyarrow as pa

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what readers print is no answer


def by_duckdb(glob: str) -> pa.Table:
    import duckdb

    if glob.startswith("s3://") and not duckdb.filesystem_is_registered("s3"):
        import fsspec

        duckdb.register_filesystem(fsspec.filesystem("s3", use_listings_cache=False))
    found = duckdb.sql(f"SELECT * FROM read_parquet('{glob}')").arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


def by_lsdb(uri: str) -> pa.Table:
    return pa.Table.from_pandas(opened(uri).compute())


def margin_by_lsdb(uri: str) -> pa.Table:
    return pa.Table.from_pandas(opened(uri).margin.compute())


def opened(uri: str) -> Any:
    """A catalog, as a reader that starts now finds it; in a bucket that is not public."""
    import lsdb
    from upath import UPath

    if not uri.startswith("s3://"):
        return lsdb.open_catalog(uri)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return lsdb.open_catalog(UPath(uri, anon=False))


READERS = {"duckdb": by_duckdb, "lsdb": by_lsdb, "margin": margin_by_lsdb}


for number, line in zip(itertools.count(), sys.stdin, strict=False):
    reader, place = json.loads(line)
    try:
        table = READERS[reader](place)
        answer = ["rows", f"{sys.argv[1]}/{number}.arrow"]
        with pa.OSFile(answer[1], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except Exception:
        answer = ["error", traceback.format_exc()]
    print(json.dumps(answer), file=ANSWERS, flush=True)
