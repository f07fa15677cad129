"""Sparse counts of rows per pixel, gathered over chunks and parts in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.this_process import read_ahead
from hipslake.planning.pixel_histogram import count_pixels, pixel_numbers
from hipslake.storage.folder import Storage

_MERGE_CELLS = 1 << 23
_DENSE_ORDER = 11  # up to here all pixels of the sky fit into 400 MB
_DENSE_SHARE = 32  # and are worth it once one in so many is counted
_PIECE = 1 << 18
_THREADS = 2
_MOST_IN_32_BITS = (1 << 32) - 1

Cells = tuple[NDArray[np.integer], NDArray[np.int64]]  # pixels, ascending and unique, and the rows in each


class PixelCounts:
    """Rows per pixel at one order, added up as they come."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._pending: list[Cells] = []
        self._cells = 0
        self._dense: _Dense | None = None  # once it is there, all are added to it

    def add_rows(self, h29: NDArray[np.int64]) -> None:
        """Count rows by their `_healpix_29`, int64[n]."""
        self.add_cells(*count_pixels(h29, self.order))

    def add_cells(self, npix: NDArray[np.integer], rows: NDArray[np.integer]) -> None:
        """Add rows of pixels; `npix` ascending and unique."""
        if not len(npix):
            return
        if self._dense is not None:
            self._dense.add(npix, rows)
            return
        self._pending.append((npix, rows.astype(np.int64, copy=False)))
        self._cells += len(npix)
        if self._cells > _MERGE_CELLS + 2 * len(self._pending[0][0]):
            self._merge()

    def parts(self) -> Iterator[Cells]:
        """What was counted, in parts: a pixel may be in several. Cheaper than the total."""
        if self._dense is not None:
            yield self._dense.occupied()
        yield from self._pending

    def total(self) -> Cells:
        """What was counted, all together."""
        if len(self._pending) > 1:
            self._merge()
        return next(self.parts(), (np.empty(0, np.int64), np.empty(0, np.int64)))

    def _merge(self) -> None:
        pixels = 12 << (2 * self.order)
        pending, self._pending = self._pending, []
        if self.order <= _DENSE_ORDER and self._cells > pixels // _DENSE_SHARE:
            self._dense = _Dense(pixels)
            for npix, rows in pending:
                self._dense.add(npix, rows)
            return
        npix = np.concatenate([part[0] for part in pending])
        rows = np.concatenate([part[1] for part in pending])
        order = np.argsort(npix)
        npix, rows = npix[order], rows[order]
        first = np.flatnonzero(np.append(True, npix[1:] != npix[:-1]))
        self._pending = [(npix[first], np.add.reduceat(rows, first))]
        self._cells = len(first)


class _Dense:
    """Rows in each pixel of the sky, in 32 bits as long as all rows together can be counted in them."""

    def __init__(self, pixels: int) -> None:
        self._rows: NDArray[np.integer] = np.zeros(pixels, np.uint32)
        self._total = 0

    def add(self, npix: NDArray[np.integer], rows: NDArray[np.integer]) -> None:
        self._total += int(rows.sum())
        if self._total > _MOST_IN_32_BITS and self._rows.dtype == np.uint32:
            self._rows = self._rows.astype(np.int64)
        for low in range(0, len(npix), _PIECE):
            piece = slice(low, low + _PIECE)
            # Twice as fast as `rows[npix] += ...`, if the types are the same.
            np.add.at(self._rows, npix[piece], rows[piece].astype(self._rows.dtype, copy=False))

    def occupied(self) -> Cells:
        """The pixels with rows, piece by piece: at hundreds of MB, fresh memory is what takes time."""
        pieces = [self._rows[low : low + _PIECE] for low in range(0, len(self._rows), _PIECE)]
        with ThreadPoolExecutor(_THREADS) as pool:
            ends = np.cumsum(list(pool.map(np.count_nonzero, pieces)))
            npix, rows = np.empty(ends[-1], np.uint32), np.empty(ends[-1], np.int64)

            def fill(number: int) -> None:
                at = np.flatnonzero(pieces[number])
                place = slice(ends[number] - len(at), ends[number])
                npix[place], rows[place] = at + number * _PIECE, pieces[number][at]

            list(pool.map(fill, range(len(pieces))))
        return npix, rows


def write_parts(storage: Storage, path: str, counts: PixelCounts) -> None:
    """Store the counts of one task."""
    sink = pa.BufferOutputStream()
    # A store takes longer for bytes than they take to be compressed; local files are mapped as they are.
    options = pa.ipc.IpcWriteOptions(compression=None if storage.is_local else "lz4")
    parts = list(counts.parts())
    most = max((int(rows.max()) for _, rows in parts), default=0)
    narrow = np.min_scalar_type(most)  # few rows of a task lie in one pixel
    columns = [("npix", pixel_numbers(counts.order)), ("rows", narrow)]
    schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in columns])
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for npix, rows in parts:
            writer.write_batch(pa.record_batch([npix, rows.astype(narrow)], schema=schema))
    storage.write(path, sink.getvalue(), durable=False)


def sum_parts(storage: Storage, paths: Iterable[str], order: int) -> PixelCounts:
    """Add up the counts that the tasks left."""
    counts = PixelCounts(order)
    stored_parts: Iterable[Any] = (
        (pa.memory_map(storage.uri(path)) for path in paths)
        if storage.is_local
        else read_ahead(storage.read, paths)  # the next ones come while one is added
    )
    for stored in stored_parts:
        for batch in pa.ipc.open_stream(stored):
            counts.add_cells(batch["npix"].to_numpy(), batch["rows"].to_numpy())
    return counts
