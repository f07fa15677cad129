"""Parquet sources: split by row groups, their schema read from the footers.

A dictionary stores each text once, and any number of rows may name it, so a file of some kilobytes can stand
for terabytes, which its footer does not tell. Usual writers give up a dictionary at a megabyte or two. Larger
ones are looked at, words and the indices of the rows, before the rows are read as texts; of smaller ones only
the words are, unless they cannot fill a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.errors import CorruptFileError, HipslakeError, InputError, StorageError
from hipslake.sources.conforming import conform
from hipslake.sources.file_listing import located
from hipslake.sources.held_sources import held_source
from hipslake.sources.looks_at_files import look_beside
from hipslake.sources.source_file import (
    LIST_AGAIN,
    LONGEST_ROW,
    VALUES_RATIO,
    SourceFile,
    Split,
    check_expansion,
    most_bytes,
)
from hipslake.sources.source_reader import BATCH_BYTES, BATCH_ROWS, SPLIT_BYTES, DescribedSource
from hipslake.sources.voparquet import described_by_votable
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.calendars import check_calendar
from hipslake.storage.column_chunks import ColumnChunks, chunk_ranges
from hipslake.storage.held_file import HeldFile
from hipslake.storage.int96 import Unit, check_int96, int96_columns, int96_unit, unit_for, with_int96_as
from hipslake.storage.request_pool import RequestPool

_LARGE_DICTIONARY = 4 << 20  # bytes
_MOST_FETCHED = 96 << 20  # bytes of a split in a store that are fetched at once
_MOST_RANGES = 32  # of one file, that are asked for side by side
_MOST_CHUNKS = 10_000  # whose places are looked up
_DENSE = 100  # uncompressed bytes per compressed one
_ROWS = 1 << 16

Reopen = Callable[[list[str]], pq.ParquetFile]
"""Opens the file once more, with some columns read as dictionaries."""
_ROWS_FOR_UNITS = 1 << 20  # of each file, whose INT96 times are looked at for their unit
_VARIABLE_WIDTH = 64  # bytes assumed for a value whose type has no fixed width
_FIELD_ID = (
    b"PARQUET:field_id"  # pyarrow's note of where in the file a field stood; it means nothing elsewhere
)


def longest_word(
    parquet: pq.ParquetFile, reopen: Reopen, groups: Sequence[int], names: Sequence[str], file: SourceFile
) -> int:
    """Return the bytes of the longest word in the dictionaries that had to be looked at; 0 if there are none.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
    reopen : callable
    groups : sequence of int
        The row groups to be read.
    names : sequence of str
        The columns to be read.
    file : SourceFile

    Raises
    ------
    InputError
        The rows are far more than the file can honestly hold, or a word is longer than a row may be.
    """
    longest = total = unseen = 0
    most = most_bytes(file, VALUES_RATIO)
    chunks = list(_with_dictionaries(parquet, groups, set(names)))
    reopened = cache(lambda: reopen(sorted({path for _, path, *_ in chunks})))
    for group, path, rows, size, is_large in chunks:
        if not is_large:
            if unseen + rows * size <= BATCH_BYTES:
                unseen += rows * size
                continue
            word = _longest_of(reopened(), group, path)
            longest = max(longest, word)
            if total + rows * word <= most:
                total += rows * word
                continue
        column = reopened().read_row_group(group, columns=[path], use_threads=False).column(0)
        for chunk in column.chunks:
            for words, named in _dictionaries(chunk):
                sizes = pc.binary_length(words).cast(pa.int64())
                longest = max(longest, pc.max(sizes).as_py() or 0)
                counts = pc.value_counts(named)
                each = sizes.take(counts.field("values")).fill_null(0)
                total += pc.sum(pc.multiply(each, counts.field("counts"))).as_py() or 0
        check_expansion(total, file, VALUES_RATIO, f"values of column {path!r}")
        if longest > LONGEST_ROW:
            raise InputError(f"{file.uri}: column {path!r} has a value of more than {LONGEST_ROW >> 20} MiB")
    return longest


def _longest_of(parquet: pq.ParquetFile, group: int, path: str) -> int:
    """The bytes of the longest word of a dictionary, which comes with the first rows that are not null."""
    for batch in parquet.iter_batches(_ROWS, row_groups=[group], columns=[path], use_threads=False):
        sizes = [pc.max(pc.binary_length(words)).as_py() for words, _ in _dictionaries(batch.column(0))]
        if longest := max((size for size in sizes if size is not None), default=0):
            return int(longest)
    return 0


def _with_dictionaries(
    parquet: pq.ParquetFile, groups: Sequence[int], names: set[str]
) -> Iterator[tuple[int, str, int, int, bool]]:
    """Chunks with a dictionary of texts: row group, column, values, bytes, and whether that is large."""
    metadata = parquet.metadata
    texts = [
        at for at in range(metadata.num_columns) if metadata.schema.column(at).physical_type == "BYTE_ARRAY"
    ]
    if not texts:
        return
    chunks = ColumnChunks(metadata)
    for group in groups:
        for number in texts:
            chunk = chunks(group, number)
            if not chunk.has_dictionary_page:
                continue
            size = chunk.total_uncompressed_size
            stored = (chunk.data_page_offset or 0) - (chunk.dictionary_page_offset or 0)
            is_dense = size > _DENSE * chunk.total_compressed_size
            is_large = size > _LARGE_DICTIONARY and (is_dense or stored > _LARGE_DICTIONARY)
            path = chunk.path_in_schema
            if any(path == name or path.startswith(f"{name}.") for name in names):
                yield group, path, chunk.num_values, size, is_large


def _dictionaries(array: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the dictionaries in an array, nested ones too, and the indices into them."""
    if pa.types.is_dictionary(array.type):
        yield array.dictionary, array.indices.drop_null()
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _dictionaries(part)
    elif pa.types.is_map(array.type):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif pa.types.is_nested(array.type):
        yield from _dictionaries(array.flatten())


class ParquetHead(NamedTuple):
    """What is kept of a file's footer."""

    schema: pa.Schema
    rows: tuple[int, ...]  # per row group
    sizes: tuple[int, ...]  # per row group: encoded but uncompressed bytes of all columns


class ParquetSource(DescribedSource[ParquetHead]):
    """Reads Parquet files. Every Arrow type that Parquet holds comes out as it was written.

    INT96 times have no unit: they are read in microseconds, or in nanoseconds where the first rows of a file
    have parts of a microsecond. A value that the unit does not hold is refused.
    """

    format: ClassVar[str] = "parquet"

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._schemas: dict[bytes, pa.Schema] = {}  # each once: very many files have the same

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        for file, footer in zip(files, self.heads(files), strict=True):
            for start, stop in _runs(footer, target_bytes):
                found.append(Split(ordinal=len(found), file=file, unit="row_groups", start=start, stop=stop))
        return found

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with _explained(split.file), _opened(split.file, wanted) as (file, parquet, unit, held):
            present = set(parquet.schema_arrow.names)
            names = [name for name in wanted.names if name in present]
            groups = list(range(split.start, split.stop))
            timed = [name for name in int96_columns(parquet.metadata) if name in names]
            check_int96(file, timed, groups, unit, split.file.uri)
            check_calendar(file, parquet.metadata, names, groups, split.file.uri)
            if not names:
                yield from _rows_without_columns(parquet, groups, wanted, split.file.uri)
                return
            most_rows = min(batch_rows, _batch_rows(parquet, groups, wanted))
            with _explained(split.file, parquet, groups, names), _reopening(split.file) as reopen:
                if word := longest_word(parquet, reopen, groups, names, split.file):
                    most_rows = max(1, min(most_rows, BATCH_BYTES // word))
            if held is not None:
                with _explained(split.file, parquet, groups, names):
                    _fetch(held, split.file, parquet.metadata, groups, names)
            batches = parquet.iter_batches(
                batch_size=most_rows,
                row_groups=groups,
                columns=names,
                use_threads=False,  # a Spark task is one core
            )
            while True:
                with _explained(split.file, parquet, groups, names):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield conform(batch, wanted, split.file.uri)

    def read_head(self, file: SourceFile) -> ParquetHead:
        if file.size == 0:  # an empty file among others is a night without data, not damage
            return ParquetHead(pa.schema([]), (), ())
        with _explained(file), _opened(file) as (opened, parquet, _, _):
            metadata = parquet.metadata
            unit = int96_unit(opened, metadata, rows=_ROWS_FOR_UNITS)
            groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
            schema = with_int96_as(parquet.schema_arrow, metadata, unit)
            schema = described_by_votable(schema.with_metadata(metadata.metadata), file)
            schema = pa.schema([_without_field_id(field) for field in schema])
            return ParquetHead(
                self._schemas.setdefault(schema.serialize().to_pybytes(), schema),
                tuple(group.num_rows for group in groups),
                tuple(group.total_byte_size for group in groups),
            )


class _Opened(NamedTuple):
    """An open file, its reader, and the unit in which that gives INT96 times, by the types that are wanted.

    Of a store, `held` is the file, which holds what is fetched.
    """

    file: Any
    parquet: pq.ParquetFile
    unit: Unit
    held: HeldFile | None


@contextmanager
def _opened(
    file: SourceFile, wanted: pa.Schema | None = None, read_dictionary: list[str] | None = None
) -> Iterator[_Opened]:
    """Open a file."""
    storage, name = located(file)
    options: dict[str, Any] = {
        "pre_buffer": not storage.is_local,  # few large requests to an object store
        "page_checksum_verification": True,
        "read_dictionary": read_dictionary,
    }
    if read_dictionary:  # of which the beginning is looked at
        options |= {"pre_buffer": False, "buffer_size": 1 << 20}
    with ExitStack() as stack:
        held = None
        if storage.is_local or storage.is_web_server:  # which may know no ranges
            opened = stack.enter_context(storage.arrow_file(name, file.size))
        else:
            held = held_source(storage, name, file)
            opened = stack.enter_context(held.arrow())
        parquet = stack.enter_context(pq.ParquetFile(opened, **options))
        timed = int96_columns(parquet.metadata)
        unit = unit_for(wanted, timed) if wanted is not None and timed else "ns"
        if unit != "ns":
            coerced = pq.ParquetFile(opened, **options, coerce_int96_timestamp_unit=unit)
            parquet = stack.enter_context(coerced)
        yield _Opened(opened, parquet, unit, held)


def _fetch(
    held: HeldFile, file: SourceFile, footer: pq.FileMetaData, groups: Sequence[int], names: Sequence[str]
) -> None:
    """Fetch what is read of a file side by side, if that is little; else it comes piece by piece.

    Raises
    ------
    FooterError
        The footer contradicts itself.
    """
    if len(groups) * footer.num_columns > _MOST_CHUNKS:
        return
    ranges = chunk_ranges(footer, groups, names)
    if sum(stop - start for start, stop in ranges) > _MOST_FETCHED:
        return
    with RequestPool() as pool:
        held.fetch_all(held.missing(ranges, _MOST_RANGES), pool, partial(look_beside, file))


@contextmanager
def _reopening(file: SourceFile) -> Iterator[Reopen]:
    with ExitStack() as stack:
        yield lambda columns: stack.enter_context(_opened(file, read_dictionary=columns)).parquet


def _without_field_id(field: pa.Field) -> pa.Field:
    if not field.metadata or _FIELD_ID not in field.metadata:
        return field
    return field.with_metadata(
        {key: value for key, value in field.metadata.items() if key != _FIELD_ID} or None
    )


def _runs(footer: ParquetHead, target_bytes: int) -> list[tuple[int, int]]:
    """Cut row groups into runs of about `target_bytes`; a run starts where a multiple of it is passed."""
    if not sum(footer.rows):
        return []
    if sum(footer.sizes) <= target_bytes:
        return [(0, len(footer.sizes))]
    before = np.cumsum((0, *footer.sizes[:-1]))
    part = before // max(target_bytes, 1)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    stops = (*starts[1:].tolist(), len(footer.sizes))
    return list(zip(starts.tolist(), stops, strict=True))


def _batch_rows(parquet: pq.ParquetFile, groups: list[int], wanted: pa.Schema) -> int:
    """Return how many rows of these columns are about `BATCH_BYTES`."""
    width = sum(_width(field.type) for field in wanted)
    metadata = parquet.metadata
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    size = sum(metadata.row_group(group).total_byte_size for group in groups)
    encoded_width = size / max(rows, 1) * len(wanted) / max(metadata.num_columns, 1)
    return int(max(1, min(BATCH_ROWS, BATCH_BYTES // max(width, encoded_width, 1))))


def _width(kind: pa.DataType) -> float:
    try:
        return kind.bit_width / 8
    except ValueError:
        return _VARIABLE_WIDTH


def _rows_without_columns(
    parquet: pq.ParquetFile, groups: list[int], wanted: pa.Schema, uri: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that has none of the wanted columns: all null, but as many."""
    first = parquet.schema_arrow.names[:1]
    for batch in parquet.iter_batches(
        batch_size=BATCH_ROWS, row_groups=groups, columns=first, use_threads=False
    ):
        yield conform(batch, wanted, uri)


@contextmanager
def _explained(
    file: SourceFile,
    parquet: pq.ParquetFile | None = None,
    groups: Sequence[int] = (),
    names: Sequence[str] = (),
) -> Iterator[None]:
    """Turn what pyarrow raises about a file into our errors, with the row group and column in question."""
    try:
        yield
    except HipslakeError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file.uri} was deleted after the run listed it; {LIST_AGAIN}") from None
    except pa.ArrowNotImplementedError as error:
        raise InputError(f"{file.uri} uses a Parquet feature that pyarrow does not read: {error}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) is not None:
            raise StorageError(f"{file.uri} cannot be read: {error}; the run will try again") from error
        where = _damaged_part(parquet, groups, names) if parquet else ", or is no Parquet file"
        raise CorruptFileError(f"{file.uri} is damaged{where}: {_first_line(error)}; replace it") from error


def _damaged_part(parquet: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]) -> str:
    """Read again, one row group and column at a time, to find what cannot be read."""
    for group in groups:
        for name in names:
            try:
                for _ in parquet.iter_batches(1 << 16, row_groups=[group], columns=[name], use_threads=False):
                    pass
            except (pa.ArrowException, OSError):
                return f" in row group {group}, column {name!r}"
    return ""


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(". ")
