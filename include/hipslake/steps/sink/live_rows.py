"""How many rows of data files are not deleted, which a table does not say where delete files take some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hipslake.engine.model import Engine
from hipslake.tables.protocol import LiveFile
from hipslake.tables.stored_files import StoredFile, count_deleted

_RESULT = pa.schema([("number", pa.int64()), ("deleted", pa.int64())])


@dataclass(frozen=True)
class CountDeletedTask:
    """Counts the rows of data files that are deleted."""

    files: tuple[StoredFile, ...]
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Look through a file."""
        yield pa.record_batch([[number], [count_deleted(self.files[number], self.schema)]], schema=_RESULT)


def live_rows(engine: Engine, files: Sequence[LiveFile], schema: pa.Schema) -> list[int]:
    """The rows of each file that are not deleted; only files that have delete files are read."""
    rows = [file.rows for file in files]
    some = [at for at, file in enumerate(files) if file.stored.deletes]
    if some:
        task = CountDeletedTask(tuple(files[at].stored for at in some), schema)
        with engine.progress("count deleted"):
            found = engine.run(task, tasks=len(some), result=_RESULT)
        for each in found.to_pylist():
            rows[some[each["number"]]] -= each["deleted"]
    return rows
