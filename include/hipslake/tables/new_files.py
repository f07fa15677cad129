"""Files that tasks have written, before a commit makes them part of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pydantic import Field

from hipslake.specs.base import Frozen


class NewFile(Frozen):
    """A file that a task has written.

    Attributes
    ----------
    path : str
        As `FileAccess.read` takes it.
    rows, bytes : int
    details : str
        What the format needs to know of it for the commit.
    sketches : dict of str to str
        Of some columns, the sketch of the distinct values of its rows, in base64
        (`hipslake.tables.value_sketches`); of files of one task, the first has those of all.
    """

    path: str
    rows: int
    bytes: int
    details: str = ""
    sketches: dict[str, str] = Field(default_factory=dict)


FILES_SCHEMA = pa.schema([("file", pa.string())])


def described(files: Sequence[NewFile]) -> pa.RecordBatch:
    """Files as rows that a task gives its engine."""
    return pa.record_batch([[file.model_dump_json() for file in files]], schema=FILES_SCHEMA)


def undescribed(rows: pa.Table) -> list[NewFile]:
    """The inverse of `described`, sorted by path."""
    files = [NewFile.model_validate_json(text) for text in rows["file"].to_pylist()]
    return sorted(files, key=lambda file: file.path)
