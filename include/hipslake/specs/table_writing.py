"""How a sink writes its rows into a table: its modes, and what becomes of rows that share a key."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar, Literal

from hipslake.specs.base import Column, TextForm

_LAST_BY = re.compile(r"last\s+by\s+(?P<column>.+)", re.IGNORECASE)


class TableMode(StrEnum):
    """What a sink does with its rows."""

    APPEND = "append"  # adds them, once per interval
    UPSERT = "upsert"  # replaces rows of the same key, adds the others
    OVERWRITE_INTERVAL = "overwrite-interval"  # replaces all rows whose time lies in the interval


class WriteMode(StrEnum):
    """What becomes of a data file of which some rows go."""

    COPY_ON_WRITE = "copy-on-write"  # what stays of it is written anew
    MERGE_ON_READ = "merge-on-read"  # it stays, and a file of deletes says which rows are gone


RowOperation = Literal["delete", "update", "merge"]
"""What changes rows of a table: a delete, the overwriting of an interval, or an upsert."""


class Duplicates(TextForm):
    """What several rows of one key in a batch are: an error, or all but the last are left out.

    Read from and printed as text: `error`, `last by updated_at`. Among rows of the same value, the last in
    source order stays; a null counts as the smallest value.
    """

    about: ClassVar[str] = "What several rows of one key in a batch are."
    examples: ClassVar[tuple[str, ...]] = ("error", "last by updated_at")

    last_by: Column | None = None  # None: an error

    @classmethod
    def fields_of(cls, text: str) -> dict[str, Any]:
        """Return the column that a text names, if it names one."""
        if text.strip().lower() == "error":
            return {"last_by": None}
        match = _LAST_BY.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is neither 'error' nor 'last by <column>'")
        return {"last_by": match["column"].strip()}

    def __str__(self) -> str:
        return "error" if self.last_by is None else f"last by {self.last_by}"
