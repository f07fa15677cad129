"""The origin of exported rows, and the interface of the writers of file formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, NamedTuple, Protocol

import pyarrow as pa


class Provenance(NamedTuple):
    """The origin of exported rows, which is written into the file."""

    catalog: str
    version: int
    description: str = ""
    attribution: str = ""
    region: str = ""
    filters: str = ""
    changes_since: int | None = None  # of changes: the version that they begin with

    def fields(self) -> dict[str, str]:
        """The fields that are not empty, by name."""
        return {name: str(value) for name, value in self._asdict().items() if value}


class TableWriter(Protocol):
    """Writes tables of one schema to one file."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `SchemaMismatchError` where the format has no form for a column; the message names it."""

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Provenance) -> int:
        """Write all rows; returns how many. Holds a few tables at a time."""
