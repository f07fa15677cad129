"""Parquet's dictionaries of texts: each word is stored once, and any number of rows may name it.

A file of some kilobytes can thus stand for terabytes, which its footer does not tell. Usual writers give up a
dictionary at a megabyte or two; larger ones are looked at, as words and the numbers that rows name them by,
before the rows are read as texts. Of smaller ones only the words are, unless they cannot fill a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.errors import InputError
from hipslake.sources.csv.blocks import LONGEST_ROW
from hipslake.sources.expansion import VALUES_RATIO, check_expansion, most_bytes
from hipslake.sources.model import SourceFile
from hipslake.sources.reader import BATCH_BYTES
from hipslake.storage.column_chunks import ColumnChunks

_LARGE_DICTIONARY = 4 << 20  # bytes
_DENSE = 100  # uncompressed bytes per compressed one
_ROWS = 1 << 16

Reopen = Callable[[list[str]], pq.ParquetFile]
"""Opens the file once more, with some columns read as dictionaries."""


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
    chunks = ColumnChunks(metadata)
    for group in groups:
        for number in range(metadata.num_columns):
            if metadata.schema.column(number).physical_type != "BYTE_ARRAY":
                continue
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
    """The words of the dictionaries in an array, and the numbers that name them."""
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
