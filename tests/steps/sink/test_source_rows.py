"""Rows of files come the same, in batches of any size, whether a thread has read them before or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.sources.prefetching import prefetching
from hipslake.sources.source_reader import BATCH_ROWS
from hipslake.specs.source_spec import SourceSpec
from hipslake.steps.sink.source_rows import TASK_BYTES, rows_of
from hipslake.tables.sink_order import FileRows


@pytest.mark.parametrize("columns", [["id", "mag"], ["mag"]])
@pytest.mark.parametrize("batch_rows", [1, 7, 100, 163, 5000, BATCH_ROWS])
@pytest.mark.parametrize("is_early", [False, True])
def test_rows_are_the_same_in_batches_of_any_size(
    tmp_path: Path, is_early: bool, batch_rows: int, columns: list[str]
) -> None:
    for number, count in enumerate((163, 0, 1, 900)):
        ids = np.arange(count) + 1000 * number
        pq.write_table(
            pa.table({"id": ids, "mag": ids / 7}), tmp_path / f"{number}.parquet", row_group_size=250
        )
    spec = SourceSpec.model_validate({"uri": f"{tmp_path}/*.parquet", "format": "parquet"})
    order = FileRows(source=spec, files=tuple(open_source(spec).list_files()))
    rows = rows_of(order, ThisProcess(2))
    expected = [*range(163), 2000, *range(3000, 3900)]
    with prefetching(spec, ["id", "mag"] if is_early else ["id"], split_bytes=TASK_BYTES):
        for _ in range(2):  # small batches take nothing away
            found = [each for task in range(rows.tasks) for each in rows.read(task, columns, batch_rows)]
            assert all(batch.num_rows <= batch_rows for batch in found)
            mags = [value for batch in found for value in batch["mag"].to_pylist()]
            assert mags == [at / 7 for at in expected]
