"""The tasks that make tiles: rows are ranked, cut into tiles leaf by leaf, and put together above the leaves.

A leaf file is a pixel. Tiles of its order and finer ones hold rows of this leaf alone. Coarser tiles take the
first rows of several leaves: these wait in the run folder, sorted along the curve, in a file per order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.engine.model import Counter
from hipslake.exports.hips.hips_files import completeness_line, tile_path
from hipslake.exports.hips.progressive_order import FIRST_ORDER, RowRanks, tile_orders
from hipslake.exports.hips.tile_lines import header_line
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import MAX_ORDER, coarsen
from hipslake.steps.hips.hips_rows import HipsSource
from hipslake.steps.hips.request import HipsRequest
from hipslake.steps.run import catalog_uri
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

WORK = "hips"
"""In the run folder: what tasks leave for later ones."""
COUNTED = pa.schema([("part", pa.int64()), ("rows", pa.int64())])
WRITTEN_TILES = pa.schema(
    [("order", pa.int64()), ("tiles", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())]
)
_RANKS = [("missing", pa.bool_()), ("key", pa.uint64()), ("tie", pa.uint64())]
_CANDIDATES = pa.schema([("part", pa.int64()), *_RANKS])
_COVERAGE = pa.schema([("start", pa.int64()), ("stop", pa.int64())])
_PIECES = pa.schema([("npix", pa.int64()), *_RANKS, ("line", pa.large_string())])
_BATCH_ROWS = 1 << 16


@lru_cache(maxsize=2)
def source_of(request: HipsRequest) -> HipsSource:
    """The rows of a request whose version is given; opened once in a process."""
    root = catalog_uri(request.warehouse, request.catalog)
    return HipsSource.of(CatalogReader.open(root, request.version), request)


@dataclass(frozen=True)
class RankTask:
    """Reads what ranks rows, and leaves the ranks of those that coarse tiles may take, and the coverage.

    Attributes
    ----------
    request : HipsRequest
        With the version.
    stretches : tuple of (int, int)
        Per task, the parts [low, high).
    """

    request: HipsRequest
    stretches: tuple[tuple[int, int], ...]

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Rank the rows of a task; give how many rows each part has."""
        source, folder = source_of(self.request), self.request.folder.storage
        limits, orders = source.limits, source.orders
        shift = 2 * (MAX_ORDER - self.request.coverage_order)
        counts: list[tuple[int, int]] = []
        covered = Intervals.union([], [])
        with _stream(folder, _candidates_path(task), _CANDIDATES) as candidates:
            for part, h29, ranks in source.ranked(*self.stretches[task]):
                counts.append((part, len(h29)))
                pixels = np.unique(h29 >> shift)
                found = Intervals.union(pixels << shift, (pixels + 1) << shift)
                covered = Intervals.union(
                    np.append(covered.start, found.start), np.append(covered.stop, found.stop)
                )
                first = ranks.along()[: limits.above(int(orders[part]))]
                columns = [np.full(len(first), part), *ranks.take(first)]
                candidates.write_batch(pa.record_batch([pa.array(each) for each in columns], _CANDIDATES))
        with _stream(folder, _coverage_path(task), _COVERAGE) as file:
            file.write_batch(pa.record_batch([pa.array(covered.start), pa.array(covered.stop)], _COVERAGE))
        parts, rows = zip(*counts, strict=True) if counts else ((), ())
        yield pa.record_batch([pa.array(parts, pa.int64()), pa.array(rows, pa.int64())], COUNTED)


def candidates_of(folder: Storage, tasks: int) -> tuple[NDArray[np.int64], RowRanks]:
    """The part and the ranks of the rows that coarse tiles may take, in the order of the parts."""
    found = _read(folder, (_candidates_path(task) for task in range(tasks)), _CANDIDATES)
    return found["part"].to_numpy(), _ranks_of(found)


def coverage_of(folder: Storage, tasks: int) -> Intervals:
    """The pixels of the coverage's order that hold rows."""
    found = _read(folder, (_coverage_path(task) for task in range(tasks)), _COVERAGE)
    return Intervals.union(found["start"].to_numpy(), found["stop"].to_numpy())


@dataclass(frozen=True)
class TilesTask(ABC):
    """Writes tiles, and says how many of each order.

    Attributes
    ----------
    request : HipsRequest
        With the version.
    above : int64[p, orders]
        How many of a part's rows stand in coarser tiles, by order.
    target : Storage
        The folder of the tiles.
    """

    request: HipsRequest
    above: NDArray[np.int64]
    target: Storage

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the tiles of a task; give how many of each order."""
        source = source_of(self.request)
        written = WrittenTiles()
        header = header_line(source.schema.names).encode()
        write_tiles(self.target, self.tiles(task, source, header), written)
        yield written.batch()

    @abstractmethod
    def tiles(self, task: int, source: HipsSource, header: bytes) -> Iterator[_Tile]:
        """The tiles of a task, each once."""


@dataclass(frozen=True)
class LeafTilesTask(TilesTask):
    """Writes the tiles in leaves, and leaves the lines of coarser tiles in the run folder.

    Attributes
    ----------
    stretches : tuple of (int, int)
        Per task, the parts [low, high).
    done : Counter
        Rows read so far.
    """

    stretches: tuple[tuple[int, int], ...]
    done: Counter

    def tiles(self, task: int, source: HipsSource, header: bytes) -> Iterator[_Tile]:
        """The tiles of some parts; the lines of coarser ones are left in the run folder meanwhile."""
        folder, limits = self.request.folder.storage, source.limits
        with ExitStack() as files:
            pieces: dict[int, Any] = {}
            for part, h29, ranks, lines in source.shown(*self.stretches[task]):
                along, above = ranks.along(), self.above[part]
                coarse = int(above.sum())
                first = max(int(source.orders[part]), FIRST_ORDER)
                orders = tile_orders(h29, along[coarse:], limits, first)
                orders[along[:coarse]] = np.repeat(np.arange(len(above)), above)
                place = np.empty(len(along), np.int64)
                place[along] = np.arange(len(along))
                pixel = h29 >> (2 * (MAX_ORDER - orders.astype(np.int64)))
                sort = np.lexsort((place, pixel, orders))
                rest = sort[coarse:]
                yield from _leaf_tiles(h29, orders, rest, pixel, lines.take(pa.array(rest)), header)
                for order in np.flatnonzero(above).tolist():
                    rows = sort[orders[sort] == order]
                    if order not in pieces:
                        pieces[order] = files.enter_context(
                            _stream(folder, _piece_path(order, task), _PIECES)
                        )
                    columns = [pixel[rows], *ranks.take(rows), lines.take(pa.array(rows))]
                    batch = pa.record_batch([pa.array(each) for each in columns], _PIECES)
                    pieces[order].write_table(pa.table(batch), max_chunksize=_BATCH_ROWS)
                self.done.add(len(h29))


@dataclass(frozen=True)
class CoarseTilesTask(TilesTask):
    """Writes the tiles of an order that are coarser than leaves, of what waits in the run folder.

    Attributes
    ----------
    orders : tuple of int
        Per task.
    tasks : int
        How many tasks have left lines.
    start, rows : int64[p]
        First order-29 pixel and number of rows of each part.
    """

    orders: tuple[int, ...]
    tasks: int
    start: NDArray[np.int64]
    rows: NDArray[np.int64]

    def tiles(self, task: int, source: HipsSource, header: bytes) -> Iterator[_Tile]:
        """The tiles of an order."""
        order = self.orders[task]
        pixels = coarsen(self.start, order)
        total = np.append(0, np.cumsum(self.rows))
        shown = np.append(0, np.cumsum(self.above[:, : order + 1].sum(axis=1)))
        for npix, rows in self._by_pixel(order):
            ranks = _ranks_of(rows)
            lines = rows["line"].combine_chunks().take(pa.array(ranks.along()))
            low, high = np.searchsorted(pixels, [npix, npix + 1])
            counts = int(shown[high] - shown[low]), int(total[high] - total[low])
            content = _content(lines, 0, len(lines))
            yield _Tile(order, npix, len(lines), completeness_line(*counts).encode() + header + content)

    def _by_pixel(self, order: int) -> Iterator[tuple[int, pa.Table]]:
        """The lines of each tile, which lie together in the run folder, one tile after the other."""
        folder = self.request.folder.storage
        waiting: list[pa.RecordBatch] = []
        current = -1
        for path in (_piece_path(order, number) for number in range(self.tasks)):
            for batch in _batches(folder, path) if folder.is_file(path) else ():
                npix = batch.column(0).to_numpy()
                cuts = np.flatnonzero(np.diff(npix, prepend=-1)).tolist()
                for low, high in zip(cuts, [*cuts[1:], len(npix)], strict=True):
                    if npix[low] != current and waiting:
                        yield current, pa.Table.from_batches(waiting)
                        waiting = []
                    current = int(npix[low])
                    waiting.append(batch.slice(low, high - low))
        if waiting:
            yield current, pa.Table.from_batches(waiting)


@dataclass(frozen=True)
class _Tile:
    order: int
    npix: int
    rows: int
    data: bytes


class WrittenTiles:
    """How many tiles, rows and bytes were written, by order."""

    def __init__(self) -> None:
        self._found: dict[int, list[int]] = {}

    def add(self, order: int, rows: int, size: int) -> None:
        """Count a tile."""
        sums = self._found.setdefault(order, [0, 0, 0])
        for at, term in enumerate((1, rows, size)):
            sums[at] += term

    def batch(self) -> pa.RecordBatch:
        """The sums, as `WRITTEN_TILES`."""
        rows = [[order, *sums] for order, sums in sorted(self._found.items())]
        columns = list(zip(*rows, strict=True)) or [()] * len(WRITTEN_TILES)
        return pa.record_batch([pa.array(each, pa.int64()) for each in columns], WRITTEN_TILES)


def write_tiles(target: Storage, tiles: Iterable[_Tile], written: WrittenTiles) -> None:
    """Write tiles, in threads where that is quicker, and count them."""

    def write(tile: _Tile) -> _Tile:
        target.write(tile_path(tile.order, tile.npix), tile.data, durable=False)
        return tile

    for tile in in_threads(target, write, tiles):
        written.add(tile.order, tile.rows, len(tile.data))


def _leaf_tiles(
    h29: NDArray[np.int64],
    orders: NDArray[np.int8],
    rows: NDArray[np.int64],
    pixel: NDArray[np.int64],
    lines: pa.LargeStringArray,
    header: bytes,
) -> Iterator[_Tile]:
    """The tiles of some rows of a leaf, which are sorted by order, pixel and rank, as their lines are.

    Parameters
    ----------
    h29, orders, pixel : int64[n], int8[n], int64[n]
        Of all rows of the leaf, along the curve: `_healpix_29`, order and number of their tile.
    rows : int64[m]
    lines : m lines
    header : bytes
    """
    order, npix = orders[rows].astype(np.int64), pixel[rows]
    first = np.flatnonzero((np.diff(order, prepend=-1) != 0) | (np.diff(npix, prepend=-1) != 0))
    shift = 2 * (MAX_ORDER - order[first])
    low = np.searchsorted(h29, npix[first] << shift)
    high = np.searchsorted(h29, (npix[first] + 1) << shift)
    shown = np.empty(len(first), np.int64)
    for each in np.unique(order).tolist():
        here = order[first] == each
        summed = np.append(0, np.cumsum(orders <= each))
        shown[here] = summed[high[here]] - summed[low[here]]
    stops = np.append(first, len(rows))[1:].tolist()
    counts = zip(shown.tolist(), (high - low).tolist(), strict=True)
    for begin, stop, (some, total) in zip(first.tolist(), stops, counts, strict=True):
        head = completeness_line(some, total).encode() + header
        yield _Tile(int(order[begin]), int(npix[begin]), stop - begin, head + _content(lines, begin, stop))


def _content(lines: pa.LargeStringArray, low: int, high: int) -> bytes:
    """The bytes of the lines [low, high), which lie together in memory."""
    if low == high:
        return b""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int64)[lines.offset + np.array([low, high])].tolist()
    return memoryview(data)[ends[0] : ends[1]].tobytes()


def _ranks_of(table: pa.Table) -> RowRanks:
    return RowRanks(*(table[name].to_numpy() for name, _ in _RANKS))


def _candidates_path(task: int) -> str:
    return f"{WORK}/ranks/{task:06d}.arrow"


def _coverage_path(task: int) -> str:
    return f"{WORK}/coverage/{task:06d}.arrow"


def _piece_path(order: int, task: int) -> str:
    return f"{WORK}/lines/{order:02d}/{task:06d}.arrow"


@contextmanager
def _stream(folder: Storage, path: str, schema: pa.Schema) -> Iterator[Any]:
    """A writer of Arrow batches to a new file, which appears when the block ends."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        folder.open(path, "wb", durable=False) as file,
        pa.ipc.new_stream(file, schema, options=options) as writer,
    ):
        yield writer


def _batches(folder: Storage, path: str) -> Iterator[pa.RecordBatch]:
    with folder.open(path) as file, pa.ipc.open_stream(file) as batches:
        yield from batches


def _read(folder: Storage, paths: Iterable[str], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([batch for path in paths for batch in _batches(folder, path)], schema)
