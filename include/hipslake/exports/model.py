"""What an export is: its format, what it says of its origin, and what a writer answers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import BinaryIO, NamedTuple, Protocol

import pyarrow as pa

from hipslake.errors import SpecError


class ExportFormat(StrEnum):
    """The formats of exports."""

    PARQUET = "parquet"
    CSV = "csv"
    FITS = "fits"

    @classmethod
    def of(cls, uri: str, given: str | None = None) -> ExportFormat:
        """The format that is given, or else the one that the ending of a URI says.

        Raises
        ------
        SpecError
            There is no such format, or the ending says none.
        """
        name = given or uri.rpartition("/")[2].rpartition(".")[2]
        try:
            return cls(name.lower())
        except ValueError:
            what = (
                f"format {given!r} is none of"
                if given
                else f"the ending of {uri!r} says no format; give one of"
            )
            raise SpecError(f"export: {what} {', '.join(cls)}") from None


class Origin(NamedTuple):
    """What an exported file says of where it is from."""

    catalog: str
    version: int
    description: str = ""
    attribution: str = ""
    region: str = ""
    filters: str = ""

    def told(self) -> dict[str, str]:
        """What there is to say, by name."""
        return {name: str(value) for name, value in self._asdict().items() if value}


class TableWriter(Protocol):
    """Writes tables of one schema to one file."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `SchemaMismatchError` where the format has no form for a column; the message names it."""

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Origin) -> int:
        """Write all rows; returns how many. Holds a few tables at a time."""
