"""What tasks of the write step tell of the leaf files that they write, so that nobody opens these for it.

The HATS files of a version hold the footers of its leaf files, and first rows of some. Who has just encoded a
file knows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf import LeafEnds
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.parquet_failures import damage_as_error

MOST_BYTES = 16 << 20
"""Of footers and first rows that a run keeps: those of about a thousand leaves."""

ENDS_SCHEMA = pa.schema([("footer", pa.binary()), ("first_row", pa.binary())])
_COLUMNS = ["path", *ENDS_SCHEMA.names]


class TaskEnds:
    """The ends of the leaf files of a task.

    Parameters
    ----------
    most_bytes : int
        That the task may keep; what is more is left out.
    """

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._ends: dict[str, dict[str, bytes]] = {}

    def wrote(self, path: str, found: LeafEnds) -> None:
        """Note what was written into a leaf file."""
        if self._left <= 0:
            return
        ends = {"footer": _footer_bytes(found.footer), "first_row": _row_bytes(found.first_row)}
        self._left -= sum(map(len, ends.values()))
        if self._left >= 0:
            self._ends[path] = ends

    def with_ends(self, files: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
        """Files by their `path`, each with its ends where they are kept, as `ENDS_SCHEMA`."""
        return [{**file, **self._ends.get(str(file["path"]), {})} for file in files]


def store_ends(folder: RunFolder, files: pa.Table) -> None:
    """Store the ends of leaf files in the run folder, in place of those of an earlier attempt.

    Parameters
    ----------
    folder : RunFolder
    files : pyarrow.Table
        With `path`, and the columns of `ENDS_SCHEMA`.
    """
    known = files.select(_COLUMNS).drop_null()
    if known.num_rows:
        write_table(folder.storage, RunFolder.ENDS, known)
    else:
        folder.storage.delete(RunFolder.ENDS)


def stored_ends(folder: RunFolder) -> dict[str, LeafEnds]:
    """The ends of the leaf files that a run has written, by their paths, as far as they are known.

    Raises
    ------
    CatalogFormatError
        What the run folder holds of them is damaged.
    """
    if not folder.storage.is_file(RunFolder.ENDS):
        return {}
    table = read_table(folder.storage, RunFolder.ENDS, _COLUMNS)
    found = zip(table["path"].to_pylist(), table["footer"], table["first_row"], strict=True)
    with damage_as_error(folder.uri_of(RunFolder.ENDS)):
        return {
            path: LeafEnds(pq.read_metadata(pa.BufferReader(footer.as_buffer())), _row(row.as_buffer()))
            for path, footer, row in found
        }


def _footer_bytes(footer: pq.FileMetaData) -> bytes:
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    return bytes(sink.getvalue())


def _row_bytes(row: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as stream:
        stream.write_batch(row)
    return bytes(sink.getvalue())


def _row(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
