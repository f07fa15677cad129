"""Rows that are not on the sky, kept whole beside the catalog, with the reason and where they came from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.layouts import rejects_root
from hipslake.catalog.placement import REASONS
from hipslake.sources.names import REJECT_COLUMNS
from hipslake.steps.ingest.split_rows import Chunk
from hipslake.steps.ingest.write_state import WriteState

REASON_COLUMN, FILE_COLUMN, FILE_ROW_COLUMN = REJECT_COLUMNS


def write_rejects(state: WriteState, split: int, chunk: Chunk) -> None:
    """Write the bad rows of a chunk: all source columns, then reason, file and row in it (from 1)."""
    reasons = chunk.placed.reasons
    assert reasons is not None
    bad = np.flatnonzero(reasons)
    if not len(bad):
        return
    rows = chunk.rows.take(pa.array(bad))
    in_file = bad + chunk.first + int(state.splits.rows_in_file_before[split]) + 1
    uri = state.splits.splits[split].file.uri
    table = pa.Table.from_batches([rows])
    table = table.append_column(REASON_COLUMN, pa.array(np.array(REASONS)[reasons[bad]]))
    table = table.append_column(FILE_COLUMN, pa.array([uri] * len(bad)))
    table = table.append_column(FILE_ROW_COLUMN, pa.array(in_file))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    name = f"split-{split:08d}-row-{chunk.first:012d}.parquet"
    state.catalog.write(f"{rejects_root(state.write_id)}/{name}", sink.getvalue())
