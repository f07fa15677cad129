"""What the footer of a Parquet file says of its column chunks, asked so that no damage ends the process."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.files.parquet_footer import FooterError

_NO_DATA = b"PAR1"
_MISMATCH = "mismatch"


class ColumnChunks:
    """The column chunks of a file.

    `pyarrow.parquet.RowGroupMetaData.column` ends the process where the sizes in a footer contradict the
    schema. Readers of rows meet the same, and raise: so each chunk is first asked to be read, by its footer,
    from a file without data, which fails at once, one way or the other.

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
        return self._metadata.row_group(group).column(column)
