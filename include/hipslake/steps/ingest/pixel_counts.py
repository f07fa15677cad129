"""Sparse counts of rows per pixel, gathered over chunks and parts in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

Cells = tuple[NDArray[np.integer], NDArray[np.int64]]  # pixels, ascending and unique, and the rows in each


class PixelCounts:
    """Rows per pixel at one order, added up as they come."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._pending: list[Cells] = []
        self._cells = 0
        self._dense: NDArray[np.int64] | None = None  # once it is there, all are added to it

    def add_rows(self, h29: NDArray[np.int64]) -> None:
        """Count rows by their `_healpix_29`, int64[n]."""
        self.add_cells(*count_pixels(h29, self.order))

    def add_cells(self, npix: NDArray[np.integer], rows: NDArray[np.int64]) -> None:
        """Add rows of pixels; `npix` ascending and unique."""
        if not len(npix):
            return
        if self._dense is not None:
            np.add.at(self._dense, npix, rows)  # twice as fast as `dense[npix] += rows`
            return
        self._pending.append((npix, rows))
        self._cells += len(npix)
        if self._cells > _MERGE_CELLS + 2 * len(self._pending[0][0]):
            self._merge()

    def parts(self) -> Iterator[Cells]:
        """What was counted, in parts: a pixel may be in several. Cheaper than the total."""
        if self._dense is not None:
            npix = _occupied(self._dense)
            yield npix, self._dense[npix]
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
            self._dense = np.zeros(pixels, np.int64)
            for npix, rows in pending:
                np.add.at(self._dense, npix, rows)
            return
        npix = np.concatenate([part[0] for part in pending])
        rows = np.concatenate([part[1] for part in pending])
        order = np.argsort(npix)
        npix, rows = npix[order], rows[order]
        first = np.flatnonzero(np.append(True, npix[1:] != npix[:-1]))
        self._pending = [(npix[first], np.add.reduceat(rows, first))]
        self._cells = len(first)


def _occupied(dense: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The pixels with rows, found piece by piece: at hundreds of MB, fresh memory is what takes time."""
    pieces = (
        (np.flatnonzero(dense[low : low + _PIECE]) + low).astype(np.uint32)
        for low in range(0, len(dense), _PIECE)
    )
    return np.concatenate(list(pieces))


def write_parts(storage: Storage, path: str, counts: PixelCounts) -> None:
    """Store the counts of one task."""
    sink = pa.BufferOutputStream()
    # A store takes longer for bytes than they take to be compressed; local files are mapped as they are.
    options = pa.ipc.IpcWriteOptions(compression=None if storage.is_local else "lz4")
    with pa.ipc.new_stream(sink, _schema(counts.order), options=options) as writer:
        for npix, rows in counts.parts():
            writer.write_batch(pa.record_batch([npix, rows], schema=_schema(counts.order)))
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


def _schema(order: int) -> pa.Schema:
    return pa.schema([("npix", pa.from_numpy_dtype(pixel_numbers(order))), ("rows", pa.int64())])
