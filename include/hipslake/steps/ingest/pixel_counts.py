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
_FIRST, _TOTAL = b"first", b"total"
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

    def add_stretch(self, first: int, rows: NDArray[np.integer], total: int) -> None:
        """Add the rows of pixels one after the other, none left out.

        Parameters
        ----------
        first : int
            The first pixel.
        rows : int[n]
            Of each, from there on.
        total : int
            Their sum.
        """
        if self._dense is None and self._is_worth_dense(len(rows)):
            self._turn_dense()
        if self._dense is not None:
            self._dense.add_stretch(first, rows, total)
            return
        at = np.flatnonzero(rows)
        self.add_cells((at + first).astype(pixel_numbers(self.order), copy=False), rows[at])

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
        if self._is_worth_dense(self._cells):
            self._turn_dense()
            return
        pending = self._pending
        npix = np.concatenate([part[0] for part in pending])
        rows = np.concatenate([part[1] for part in pending])
        order = np.argsort(npix)
        npix, rows = npix[order], rows[order]
        first = np.flatnonzero(np.append(True, npix[1:] != npix[:-1]))
        self._pending = [(npix[first], np.add.reduceat(rows, first))]
        self._cells = len(first)

    def _is_worth_dense(self, cells: int) -> bool:
        return self.order <= _DENSE_ORDER and cells > self._pixels // _DENSE_SHARE

    def _turn_dense(self) -> None:
        self._dense = _Dense(self._pixels)
        pending, self._pending = self._pending, []
        for npix, rows in pending:
            self._dense.add(npix, rows)

    @property
    def _pixels(self) -> int:
        """Of the whole sky."""
        return 12 << (2 * self.order)


class _Dense:
    """Rows in each pixel of the sky, in 32 bits as long as all rows together can be counted in them."""

    def __init__(self, pixels: int) -> None:
        self._rows: NDArray[np.integer] = np.zeros(pixels, np.uint32)
        self._total = 0

    def add(self, npix: NDArray[np.integer], rows: NDArray[np.integer]) -> None:
        self._make_room(int(rows.sum()))
        _add_at(self._rows, npix, rows)

    def add_stretch(self, first: int, rows: NDArray[np.integer], total: int) -> None:
        self._make_room(total)
        there = self._rows[first : first + len(rows)]
        for low in range(0, len(rows), _PIECE):
            piece = there[low : low + _PIECE]
            np.add(piece, rows[low : low + _PIECE], out=piece, dtype=piece.dtype, casting="unsafe")

    def _make_room(self, total: int) -> None:
        self._total += total
        if self._total > _MOST_IN_32_BITS and self._rows.dtype == np.uint32:
            self._rows = self._rows.astype(np.int64)

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


def _add_at(total: NDArray[np.integer], npix: NDArray[np.integer], rows: NDArray[np.integer]) -> None:
    """Add to some places, none of which is named twice."""
    for low in range(0, len(npix), _PIECE):
        piece = slice(low, low + _PIECE)
        # Twice as fast as `total[npix] += ...`, if the types are the same.
        np.add.at(total, npix[piece], rows[piece].astype(total.dtype, copy=False))


def write_parts(storage: Storage, path: str, counts: PixelCounts) -> None:
    """Store the counts of one task: the occupied pixels, or the rows of all from the first to the last."""
    sink = pa.BufferOutputStream()
    # A store takes longer for bytes than they take to be compressed; local files are mapped as they are.
    options = pa.ipc.IpcWriteOptions(compression=None if storage.is_local else "lz4")
    parts = [part for part in counts.parts() if len(part[0])]
    stretch = _stretch(parts, counts.order)
    schema, batches = _occupied(parts, counts.order) if stretch is None else _in_a_row(*stretch)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    storage.write(path, sink.getvalue(), durable=False)


def _stretch(parts: list[Cells], order: int) -> tuple[int, NDArray[np.integer]] | None:
    """The first counted pixel, and the rows of each from there to the last, as narrow as they may be.

    None if there is none, or if the occupied pixels and their rows take less room.
    """
    if not parts:
        return None
    first, last = min(int(npix[0]) for npix, _ in parts), max(int(npix[-1]) for npix, _ in parts)
    kind = np.min_scalar_type(sum(int(rows.max()) for _, rows in parts))
    cells = sum(len(npix) for npix, _ in parts)
    numbers = np.dtype(pixel_numbers(order))
    if (last - first + 1) * kind.itemsize > cells * (numbers.itemsize + 1):
        return None
    found = np.zeros(last - first + 1, kind)
    for npix, rows in parts:
        _add_at(found, npix - numbers.type(first), rows)
    return first, found.astype(np.min_scalar_type(found.max()), copy=False)


def _occupied(parts: list[Cells], order: int) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Pixels and their rows, as narrow as they may be: few rows of a task lie in one pixel."""
    narrow = np.min_scalar_type(max((int(rows.max()) for _, rows in parts), default=0))
    columns = [("npix", pixel_numbers(order)), ("rows", narrow)]
    schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in columns])
    return schema, (pa.record_batch([npix, rows.astype(narrow)], schema=schema) for npix, rows in parts)


def _in_a_row(first: int, rows: NDArray[np.integer]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The rows of each pixel from the first on; which that is, and their sum, stands in the schema."""
    batch = pa.record_batch({"rows": rows}, metadata={_FIRST: str(first), _TOTAL: str(int(rows.sum()))})
    return batch.schema, [batch]


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
            rows = batch["rows"].to_numpy()
            if "npix" in batch.schema.names:
                counts.add_cells(batch["npix"].to_numpy(), rows)
            else:
                told = batch.schema.metadata
                counts.add_stretch(int(told[_FIRST]), rows, int(told[_TOTAL]))
    return counts
