"""Delete: rows of a published catalog go, by keys, by a filter or in a region, as a version of their own."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.steps.report import CatalogReport, Request

MAX_FRACTION = 0.01
"""The largest part of a catalog's rows that a delete takes out, or a reassignment moves, without `force`."""

Value = bool | int | str
"""Of a key, as JSON has it; dates and times are texts."""


class DeleteRequest(Request):
    """Delete rows of the newest version of a run's catalog; exactly one of the ways to choose them is given.

    The columns of keys are those of the spec's `key`, and in mode append `column`, which has an index.
    """

    step: ClassVar[str] = "delete"
    depends_on: ClassVar[str] = "run"  # which rows there are follows from the newest version

    keys: tuple[Value | tuple[Value, ...], ...] | None = None  # of several columns, a list for each row
    keys_file: str | None = None  # URI of a Parquet or CSV file with the columns of the key
    filters: str | None = None
    region: str | None = None
    column: str | None = None  # mode append: that keys are of; None: the one that has an index
    max_fraction: float = Field(default=MAX_FRACTION, ge=0, le=1)
    force: bool = False
    task_bytes: int = Field(default=128 << 20, ge=1)  # of leaf files that one task reads
    merges: int = Field(default=30, ge=1)  # tries, while others commit versions; as for an append


class DeleteReport(CatalogReport):
    """Rows in: those that were looked for among the rows of the version. Rows out: those that stay."""

    step: str = DeleteRequest.step
    deleted: int = 0
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    total_rows: int = 0  # of the version
    leaves: int = 0  # that were opened, of all column groups
    removed_files: int = 0


class DeleteOutcome(Frozen):
    """What a delete has done."""

    version: int | None = None  # that was committed; None: there was nothing to delete
    deleted: int = 0  # rows
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    total_rows: int = 0  # that the catalog has now
    leaves: int = 0  # that were opened, of all column groups
    files: int = 0  # that came
    removed_files: int = 0
    bytes: int = 0  # of the files that came
