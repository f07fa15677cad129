"""All rows of a small side of a cross-match, in memory, once in each process.

A run leaves them in a file of its folder, an Arrow file that tasks of the same machine map into memory: then
the leaves of the side, their filter and their column groups are read once for all tasks.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.stretches import Stretches
from hipslake.engine.reordering import in_order
from hipslake.errors import VerificationError
from hipslake.sphere.curve import curve_order
from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage


class HeldRowsFile(NamedTuple):
    """Where a run leaves the rows."""

    storage: Storage
    path: str


class HeldRows:
    """The rows of a side that pass its filter, ordered by (`_healpix_29`, `_row`). Travels without them.

    Parameters
    ----------
    stretches : Stretches
        Reads the columns that are held.
    file : HeldRowsFile, optional
        What a run has left of them. None: they are read from the catalog.
    """

    def __init__(self, stretches: Stretches, file: HeldRowsFile | None = None) -> None:
        self._stretches, self._file = stretches, file
        self._lock = Lock()
        self._rows: pa.Table | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldRows, (self._stretches, self._file)

    @property
    def table(self) -> pa.Table:
        """The rows; read when they are first asked for.

        Raises
        ------
        VerificationError
            A file is missing or damaged.
        """
        with self._lock:
            if self._rows is None:
                self._rows = self._read_catalog() if self._file is None else _read_file(self._file)
            return self._rows

    @property
    def keys(self) -> NDArray[np.int64]:
        """`_healpix_29` of the rows, ascending."""
        keys: NDArray[np.int64] = self.table[HEALPIX_COLUMN].to_numpy()
        return keys

    def within(self, start: int, stop: int) -> pa.Table:
        """The rows in [start, stop), order-29 pixels."""
        first, last = np.searchsorted(self.keys, [start, stop]).tolist()
        return self.table.slice(first, last - first)

    def inside(self, places: Intervals) -> pa.Table:
        """The rows in some stretches."""
        keys = self.keys
        first = np.searchsorted(keys, places.start)
        counts = np.searchsorted(keys, places.stop) - first
        return self.table.take(pa.array(range_numbers(first, counts)))

    def meet(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which stretches hold any of the rows, bool[n]; order-29 pixels, [start, stop)."""
        keys = self.keys
        return np.asarray(np.searchsorted(keys, start) < np.searchsorted(keys, stop))

    def store(self) -> int:
        """Leave the rows in the file, anew; return how many there are."""
        assert self._file is not None
        table = self._read_catalog()
        storage, path = self._file
        with (
            storage.open(path, "wb", durable=False) as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)
        return int(table.num_rows)

    def _read_catalog(self) -> pa.Table:
        rows = self._stretches.inside(Intervals.whole_sky()).combine_chunks()
        keys = rows[HEALPIX_COLUMN].to_numpy()
        if np.all(keys[1:] >= keys[:-1]):
            return rows
        return in_order(rows, curve_order(keys))  # others filed rows under leaves where they do not lie


def _read_file(place: HeldRowsFile) -> pa.Table:
    storage, path = place
    try:
        source = pa.memory_map(storage.uri(path)) if storage.is_local else pa.BufferReader(storage.read(path))
        return pa.ipc.open_file(source).read_all().combine_chunks()
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise VerificationError(
            f"{storage.uri(path)}, the rows of a small side of the match, cannot be read ({error}); clear "
            "the run from its task 'crossmatch'"
        ) from error
