"""Rows that the histogram step has kept, as the write step reads them.

`hipslake.steps.ingest.sorted_rows` tells of them.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.merging import within
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.errors import CatalogFormatError
from hipslake.steps.ingest.sorted_rows import BOOT_KEY, FOLDER_KEY, boot_id
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage


class RowsToMerge:
    """The rows that a histogram step has kept, for the attempt at a write step that has claimed them.

    Parameters
    ----------
    folder : Storage
        The run folder.
    path : str
        Where the files are in it.
    row_starts : int64[n]
        Number of each split's first row in the source order.

    Attributes
    ----------
    path : str
    files : pyarrow.Table
        As `FILES_SCHEMA`.
    """

    def __init__(self, folder: Storage, path: str, row_starts: NDArray[np.int64]) -> None:
        self._folder, self.path, self._row_starts = folder, path, row_starts
        self.files = read_table(folder, RunFolder.SORTED_FILES)

    @classmethod
    def claimed(cls, folder: Storage, row_starts: NDArray[np.int64]) -> Self | None:
        """The rows, for this attempt alone, if all files are there as they were made; else None.

        An attempt that was given up may still be at work with them, or have deleted some. The files were not
        synced, so that after a crash of the machine they may be anything.
        """
        with suppress(OSError, CatalogFormatError):
            files = read_table(folder, RunFolder.SORTED_FILES)
            told = files.schema.metadata or {}
            path = told.get(FOLDER_KEY, b"").decode()
            place = Path(folder.uri(path))
            sizes = zip(files["name"].to_pylist(), files["bytes"].to_pylist(), strict=True)
            is_ours = path.startswith(f"{RunFolder.SORTED}/") and told.get(BOOT_KEY) == boot_id()
            if is_ours and all((place / name).stat().st_size == size for name, size in sizes):
                claimed = f"{RunFolder.SORTED}/{secrets.token_hex(4)}"
                target = Path(folder.uri(claimed))
                place.rename(target)
                os.utime(target)
                return cls(folder, claimed, row_starts)
        return None

    def batches(self, group: str, start: int, stop: int) -> list[pa.RecordBatch]:
        """The rows of a column group whose `_healpix_29` lies in [start, stop), mapped into memory.

        Returns
        -------
        list of pyarrow.RecordBatch
            In source order; each is sorted by `_healpix_29`, with equal ones in source order.
        """
        files = self._overlapping(group, start, stop)
        found: list[pa.RecordBatch] = []
        for name, split in zip(files["name"].to_pylist(), files["split"].to_pylist(), strict=True):
            first_row = int(self._row_starts[split])
            with pa.memory_map(str(self._file(name))) as file, pa.ipc.open_stream(file) as stream:
                inside = (within(batch, start, stop) for batch in stream)
                found += [_numbered_from(batch, first_row) for batch in inside if batch.num_rows]
        return found

    def freeing(self, stretches: Sequence[tuple[str, int, int]]) -> Callable[[int], None]:
        """Delete files as soon as nothing is to be read of them any more.

        Parameters
        ----------
        stretches : sequence of (str, int, int)
            What is read: per task, a column group and [start, stop) of the curve.

        Returns
        -------
        callable
            Takes the number of a task that has ended well.
        """
        of_task = [self._overlapping(*stretch)["name"].to_pylist() for stretch in stretches]
        waiting = Counter(name for names in of_task for name in names)

        def ended(task: int) -> None:
            for name in of_task[task]:
                waiting[name] -= 1
                if not waiting[name]:
                    with suppress(OSError):  # it goes with the folder
                        self._file(name).unlink()

        return ended

    def _overlapping(self, group: str, start: int, stop: int) -> pa.Table:
        """The files that hold rows of a stretch, in source order."""
        inside = (pc.field("group") == group) & (pc.field("start") < stop) & (pc.field("stop") > start)
        return self.files.filter(inside)

    def _file(self, name: str) -> Path:
        return Path(self._folder.uri(self.path), name)


def _numbered_from(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """Rows with the number that each has in the whole source, which were numbered from 0 in their task."""
    at = batch.schema.get_field_index(ROW_COLUMN)
    if at < 0 or first_row == 0:
        return batch
    return batch.set_column(at, batch.schema.field(at), pc.add(batch.column(at), first_row))
