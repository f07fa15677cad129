"""FITS sources: binary tables, a plain file split by rows, a compressed one read as a stream.

astropy reads the headers. The rows are decoded here with numpy, straight from the file's bytes into Arrow:
`benchmarks/fits_reading.py` measures why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.sources.compression import compression_of, explained
from hipslake.sources.conforming import conform
from hipslake.sources.fits.binary_columns import FitsColumn
from hipslake.sources.fits.binary_table import FitsTable, find_table
from hipslake.sources.fits.bytes import FitsBytes, opened
from hipslake.sources.fits.decoding import ArrayDescriptors, Reading, decode
from hipslake.sources.source_file import VALUES_RATIO, SourceFile, Split, check_expansion
from hipslake.sources.source_reader import BATCH_BYTES, BATCH_ROWS, SPLIT_BYTES, DescribedSource
from hipslake.specs.source_spec import FitsOptions


class Extent(NamedTuple):
    """What a file's header says."""

    schema: pa.Schema
    rows: int
    bytes: int  # of the rows and the heap


class FitsSource(DescribedSource[Extent]):
    """Reads the binary tables of FITS files.

    A task reads only the bytes of its rows, and what they point to in the heap. Memory is bounded by the
    batch, whatever the file's size.
    """

    format: ClassVar[str] = "fits"
    _options: FitsOptions

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        for file, extent in zip(files, self.heads(files), strict=True):
            step = max(target_bytes * extent.rows // max(extent.bytes, 1), 1)
            if compression_of(file, self._options.compression) != "none":
                step = max(extent.rows, 1)
            for start in range(0, extent.rows, step):
                stop = min(start + step, extent.rows)
                found.append(Split(ordinal=len(found), file=file, unit="rows", start=start, stop=stop))
        return found

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with explained(split.file), opened(split.file, self._options.compression) as data:
            table = find_table(data, self._options, split.file.uri)
            if table is None:
                return
            present = [column for column in table.columns if column.name in wanted.names]
            present = present or list(table.columns[:1])  # without any wanted column the rows still count
            if any(column.pointer for column in present):
                data = data.any_range(table.stop)
            step = min(batch_rows, _batch_rows(table, present))
            pointed = 0
            for start in range(split.start, split.stop, step):
                rows = _rows(data, table, start, min(start + step, split.stop), split.file.uri)
                pointers = _pointers(rows, table, present, first_row=start, uri=split.file.uri)
                pointed_bytes = _pointed_bytes(pointers, len(rows))
                pointed += int(pointed_bytes.sum())
                check_expansion(pointed, split.file, VALUES_RATIO, "values in the heap")
                for part in _parts(pointed_bytes):
                    batch = self._batch(data, table, present, rows, part, pointers, start, split.file.uri)
                    yield conform(batch, wanted, split.file.uri)

    def _batch(
        self,
        data: FitsBytes,
        table: FitsTable,
        columns: Sequence[FitsColumn],
        rows: NDArray[np.uint8],
        part: slice,
        pointers: dict[FitsColumn, ArrayDescriptors],
        first_row: int,
        uri: str,
    ) -> pa.RecordBatch:
        """Decode a part of some rows, of which the first is row `first_row` of the table."""
        reading = Reading(
            self._options.encoding, self._options.nan_is_null, uri, first_row=first_row + part.start
        )
        arrays = {}
        for column in columns:
            pointed = None
            if column in pointers:
                counts, offsets = pointers[column]
                pointed = ArrayDescriptors(counts[part], offsets[part]).read(data, column, table, uri)
            arrays[column.name] = decode(rows[part], column, reading, pointed)
        return pa.RecordBatch.from_pydict(arrays)

    def read_head(self, file: SourceFile) -> Extent:
        if file.size == 0:  # an empty file among others is a night without data, not damage
            return Extent(pa.schema([]), 0, 0)
        with explained(file), opened(file, self._options.compression) as data:
            table = find_table(data, self._options, file.uri)
        if table is None:
            return Extent(pa.schema([]), 0, 0)
        if compression_of(file, self._options.compression) == "none" and file.size < table.stop:
            raise CorruptFileError(
                f"{file.uri} is truncated: its header tells of {table.rows} rows, up to byte {table.stop}, "
                f"but it ends at byte {file.size}; replace it"
            )
        return Extent(table.schema, table.rows, table.stop - table.start)


def _rows(data: FitsBytes, table: FitsTable, start: int, stop: int, uri: str) -> NDArray[np.uint8]:
    """Read rows, uint8[stop - start, row_bytes]."""
    first = table.start + start * table.row_bytes
    content = data.read(first, first + (stop - start) * table.row_bytes)
    if len(content) < (stop - start) * table.row_bytes:
        row = start + len(content) // table.row_bytes + 1
        raise CorruptFileError(f"{uri} is truncated: it ends in row {row} of {table.rows}; replace it")
    return np.frombuffer(content, np.uint8).reshape(stop - start, table.row_bytes)


def _batch_rows(table: FitsTable, columns: Sequence[FitsColumn]) -> int:
    """Return how many rows are about `BATCH_BYTES`, both in the file and decoded."""
    width = max(table.row_bytes, sum(column.decoded_width for column in columns), 1)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // width))


def _pointers(
    rows: NDArray[np.uint8], table: FitsTable, columns: Sequence[FitsColumn], *, first_row: int, uri: str
) -> dict[FitsColumn, ArrayDescriptors]:
    """Return where in the heap the cells of columns stand that point there."""
    return {
        column: ArrayDescriptors.of(rows, column, table, first_row=first_row, uri=uri)
        for column in columns
        if column.pointer and column.repeat
    }


def _pointed_bytes(pointers: dict[FitsColumn, ArrayDescriptors], rows: int) -> NDArray[np.int64]:
    """Return how many bytes of the heap each row points to."""
    sizes = (each.counts * column.element_bytes for column, each in pointers.items())
    return sum(sizes, np.zeros(rows, np.int64))


def _parts(pointed_bytes: NDArray[np.int64]) -> Iterator[slice]:
    """Cut rows where what they point to passes a multiple of `BATCH_BYTES`."""
    multiple = np.cumsum(pointed_bytes) // BATCH_BYTES
    starts = np.flatnonzero(np.diff(multiple, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(pointed_bytes)], strict=True):
        yield slice(start, stop)
