"""The column chunks in a Parquet footer, read so that a damaged footer does not crash the process."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hipslake.storage.parquet_footer import FooterError

FEW_ROWS = 1 << 16
"""Of a file: for fewer, handing columns to other threads costs more than it wins."""

_NO_DATA = b"PAR1"
_MISMATCH = "mismatch"


class ColumnChunks:
    """The column chunks of a file.

    pyarrow ends the process where the sizes in a footer contradict the schema
    (`pyarrow.parquet.RowGroupMetaData.column`), or the type of a chunk does (its `statistics`). Readers of
    rows meet the first as well, and raise: so each chunk is first asked to be read, by its footer, from a
    file without data, which fails at once, one way or the other.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self._reader = pq.ParquetFile(pa.BufferReader(_NO_DATA), metadata=metadata).reader

    def __call__(self, group: int, column: int) -> pq.ColumnChunkMetaData:
        """A chunk, by the numbers of its row group and its leaf column.

        Raises
        ------
        FooterError
            What the footer says of it contradicts itself.
        """
        try:
            self._reader.read_row_group(group, [column], use_threads=False)
        except (pa.ArrowException, OSError) as error:
            if _MISMATCH in str(error):
                raise FooterError(str(error)) from error
        chunk = self._metadata.row_group(group).column(column)
        declared = self._metadata.schema.column(column).physical_type
        if chunk.physical_type != declared:
            raise FooterError(
                f"column chunk {column} of row group {group} is of type {chunk.physical_type}, its column of "
                f"type {declared}"
            )
        return chunk


def column_places(footer: pq.FileMetaData, columns: Collection[str]) -> list[int]:
    """The leaf columns of a file that are of some columns."""
    return [
        at
        for at, name in enumerate(column.path for column in footer.schema)
        if name in columns or name.partition(".")[0] in columns
    ]


def chunk_ranges(
    footer: pq.FileMetaData, groups: Collection[int], columns: Collection[str]
) -> list[tuple[int, int]]:
    """Where the chunks of some columns lie in some row groups: bytes [start, stop) of the file.

    Raises
    ------
    FooterError
        The footer contradicts itself.
    """
    chunks, places = ColumnChunks(footer), column_places(footer, columns)
    found = []
    for group in groups:
        for place in places:
            chunk = chunks(group, place)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            found.append((start, start + chunk.total_compressed_size))
    return found


def check_chunks(fragment: ds.ParquetFileFragment, columns: Collection[str]) -> None:
    """Ask for the chunks of columns, by which a scan with a filter chooses row groups.

    A scan of `pyarrow.dataset` with a filter never ends where `ColumnChunks` raises.

    Parameters
    ----------
    fragment : pyarrow.dataset.ParquetFileFragment
        Its row groups are asked.
    columns : collection of str
        Of the first level; those that the file lacks are passed over.

    Raises
    ------
    FooterError
        What the footer says of one of them contradicts itself.
    """
    metadata = fragment.metadata
    chunks = ColumnChunks(metadata)
    places = [at for at in range(metadata.num_columns) if _top(metadata.schema.column(at).path) in columns]
    for group in fragment.row_groups:
        for place in places:
            chunks(group.id, place)


def _top(path: str) -> str:
    return path.partition(".")[0]
