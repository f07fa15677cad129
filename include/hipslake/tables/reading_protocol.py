"""What readers ask of a version of a table, or of a plain folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

import pyarrow as pa


class TableTotals(NamedTuple):
    """The totals of a version of a table; None where they are not known."""

    rows: int | None = 0
    bytes: int | None = 0
    files: int | None = 0
    created: datetime | None = None


class TableVersion(NamedTuple):
    """A version of a table that can be opened."""

    version: int
    created: datetime
    rows: int | None  # None: its metadata do not say


class ReadableTable(Protocol):
    """One version of a table of any format, for who reads it."""

    @property
    def version(self) -> int | None:
        """Its number; None: the format has no versions, or nothing was committed yet."""

    @property
    def location(self) -> str:
        """Where the table lies."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, with their field ids where the format has some."""

    @property
    def totals(self) -> TableTotals:
        """Rows, bytes and files."""

    @property
    def told(self) -> Mapping[str, str]:
        """What the version says of itself, by name; empty where the format keeps nothing."""

    def versions(self) -> list[TableVersion]:
        """The versions that can be opened, from old to new."""

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Some columns of the rows, file after file, without those that are deleted."""
