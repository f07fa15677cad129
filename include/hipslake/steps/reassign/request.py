"""Reassign: rows of a published catalog are given to other objects, as a version of their own."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.steps.delete.request import MAX_FRACTION, Value
from hipslake.steps.report import CatalogReport, Request


class ReassignRequest(Request):
    """Reassign rows of the newest version of a run's catalog, chosen in exactly one of the ways.

    Either all get the object `to`, or `keys_file` has the column of objects, too, and says it of each row.
    """

    step: ClassVar[str] = "reassign"
    depends_on: ClassVar[str] = "run"  # which rows there are follows from the newest version

    keys: tuple[Value | tuple[Value, ...], ...] | None = None  # of several columns, a list for each row
    keys_file: str | None = None  # URI of a Parquet or CSV file with the columns of the key
    filters: str | None = None
    region: str | None = None
    to: Value | None = None  # the object that all of them are given to
    column: str | None = None  # that names the object; None: the one of the spec
    max_fraction: float = Field(default=MAX_FRACTION, ge=0, le=1)
    force: bool = False
    merges: int = Field(default=30, ge=1)  # tries, while others commit versions; as for an append


class ReassignReport(CatalogReport):
    """Rows in and out: those of the version."""

    step: str = ReassignRequest.step
    reassigned: int = 0
    unchanged: int = 0  # rows that were chosen, and are of that object already
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    total_rows: int = 0  # of the version
    removed_files: int = 0


class ReassignOutcome(Frozen):
    """What a reassignment has done."""

    version: int | None = None  # that was committed; None: there was nothing to do
    reassigned: int = 0  # rows
    unchanged: int = 0  # rows that were chosen, and are of that object already
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    total_rows: int = 0  # that the catalog has now
    files: int = 0  # that came
    removed_files: int = 0
    bytes: int = 0  # of the files that came
