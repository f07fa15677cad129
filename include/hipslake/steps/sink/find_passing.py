"""Which rows of data files a predicate is true for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Engine
from hipslake.predicates.evaluation import truth
from hipslake.predicates.predicate_tree import Predicate
from hipslake.steps.sink.sink_try import positions_by_number
from hipslake.tables.protocol import LiveFile
from hipslake.tables.stored_files import StoredFile, read_data_file

POSITIONS = pa.schema([("number", pa.int64()), ("positions", pa.binary())])


def find_passing(
    engine: Engine, files: Sequence[LiveFile], predicate: Predicate, schema: pa.Schema
) -> dict[int, NDArray[np.int64]]:
    """The positions of rows that a predicate is true for, by the numbers of their files.

    Parameters
    ----------
    engine : Engine
    files : sequence of LiveFile
    predicate : Predicate
    schema : pyarrow.Schema
        Of the table.

    Returns
    -------
    dict of int to int64[n]
        Ascending, among the rows that are not deleted.
    """
    if not files:
        return {}
    task = FindPassingTask(tuple(file.stored for file in files), predicate, schema)
    with engine.progress("find"):
        found = engine.run(task, tasks=len(files), result=POSITIONS).to_pylist()
    return positions_by_number((row["number"], row["positions"]) for row in found)


@dataclass(frozen=True)
class FindPassingTask:
    """Finds the positions of the rows of data files that a predicate is true for, among those not deleted."""

    files: tuple[StoredFile, ...]
    predicate: Predicate
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Look through a file."""
        position, found = 0, []
        columns = [name for name in self.schema.names if name in self.predicate.columns]
        for batch in read_data_file(self.files[number], self.schema, columns):
            passes = truth(self.predicate, batch).combine_chunks()
            inside = pc.fill_null(passes, False).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(inside) + position)
            position += batch.num_rows
        positions = np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
        yield pa.record_batch([[number], [positions.tobytes()]], schema=POSITIONS)
