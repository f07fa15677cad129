"""Delete rows of a table: the request, the report, and what the table itself says of the delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from hipslake.specs.base import Frozen
from hipslake.specs.table_place import PlacedTable
from hipslake.specs.table_writing import WriteMode
from hipslake.steps.delete.request import MAX_FRACTION, Value
from hipslake.steps.report import Report, Request

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion, Origin

DELETED = "hipslake.deleted"
"""In what a version of a table says of itself: what the delete that made it took out, as `TableDeletion`."""
WRITES = "delete_table/writes.json"
"""In the run folder: the ids of the writes of all attempts."""


class DeleteTableRowsRequest(Request, PlacedTable):
    """Delete rows of a table, as it is now; exactly one of the ways to choose them is given."""

    step: ClassVar[str] = "delete_table"
    reusable: ClassVar[bool] = False  # run again, it deletes what has come since
    depends_on: ClassVar[str] = "request"

    warehouse: str
    table: str  # namespace.table
    keys: tuple[Value | tuple[Value, ...], ...] | None = None  # of several columns, a list for each row
    keys_file: str | None = None  # URI of a Parquet or CSV file with the columns of the key
    filters: str | None = None
    key: tuple[str, ...] = ()  # the columns that keys are of; none: the table's identifier fields
    write: WriteMode | None = None  # None: as the table's properties say
    max_fraction: float = Field(default=MAX_FRACTION, ge=0, le=1)
    force: bool = False


class TableDeletion(Frozen):
    """What a delete took out of a table."""

    rows: int
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    chosen: str  # how, in words


class TableDeleteOutcome(Frozen):
    """What a delete of rows of a table has done."""

    snapshot_id: int | None = None  # that was committed; None: there was nothing to delete
    deleted: int = 0  # rows
    missing_keys: int = 0  # of those that were given, distinct ones that have no row
    total_rows: int = 0  # that the table had
    files: int = 0  # that came
    delete_files: int = 0  # that came: they say which rows of data files are gone
    files_removed: int = 0
    bytes: int = 0  # of the files that came, those of deletes too


class DeleteTableRowsReport(Report, PlacedTable):
    """Rows in: those of the table. Rows out: those that stay. Rejected: those that were deleted."""

    step: str = DeleteTableRowsRequest.step
    table: str = ""  # namespace.table
    location: str = ""
    snapshot_id: int | None = None
    deleted: int = 0
    missing_keys: int = 0
    delete_files: int = 0
    files_removed: int = 0
    warehouse: str = ""

    def committed(self, run_uri: str) -> CommittedVersion | None:
        """Return the newest snapshot of the table, if rows were deleted."""
        from hipslake.steps.committed import table_version

        return None if self.snapshot_id is None else table_version(self.place, self.warehouse, self.table)

    def origins(self, run_uri: str) -> tuple[Origin, ...]:
        """Return the table itself."""
        from hipslake.steps.committed import Origin

        if self.snapshot_id is None:
            return ()
        return (Origin(kind="table", uri=self.location),)
