"""Export: rows of a published version, or what changed since another one, go to one file."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.specs.base import NAME_PATTERN
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.report import Report, Request
from hipslake.steps.run import now_utc


class ExportRequest(Request):
    """Export rows of a catalog."""

    step: ClassVar[str] = "export"
    depends_on: ClassVar[str] = "request"

    warehouse: str
    catalog: str = Field(pattern=NAME_PATTERN)
    version: int | None = None  # None: the newest
    changes_since: int | None = None  # a version: not the rows are exported, but what changed since
    key: tuple[str, ...] | None = None  # of changes: columns that tell rows apart; None: as the spec says
    region: str | None = None
    columns: tuple[str, ...] | None = None
    filters: str | None = None
    format: str | None = None  # None: by the ending of the output
    output: str  # a path or a URI; a relative path lies below `exports/` of the warehouse
    overwrite: bool = False
    task_bytes: int = Field(default=256 << 20, ge=1)  # of leaf files that one task of Spark reads
    created: AwareDatetime = Field(default_factory=now_utc)

    @property
    def output_uri(self) -> str:
        """Where the file goes.

        Raises
        ------
        SpecError
            It is no file, or it lies among the catalogs or other things of the warehouse.
        """
        return output_uri(self.warehouse, self.output)


class ExportReport(Report):
    """Rows in and out: the rows that were exported. Bytes: of the file."""

    step: str = ExportRequest.step
    version: int | None = None
    changes_since: int | None = None
    catalog_uri: str = ""
    output: str = ""
