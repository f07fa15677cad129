"""HiPS: a version of a catalog becomes tiles that clients load as they zoom in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.specs.base import NAME_PATTERN
from hipslake.specs.hips_spec import HipsOptions
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.report import Report, Request


class HipsRequest(HipsOptions, Request):
    """Make a HiPS of a catalog."""

    step: ClassVar[str] = "hips"
    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # what stands already is looked for at the output

    warehouse: str
    catalog: str = Field(pattern=NAME_PATTERN)
    version: int | None = None  # None: the newest
    task_bytes: int = Field(default=256 << 20, ge=1)  # of leaf files that one task reads
    # To the microsecond: of two HiPS of a version, the one that was begun first goes.
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def output_uri(self) -> str:
        """The folder in which a folder for each version lies.

        Raises
        ------
        SpecError
            It lies among the catalogs or other things of the warehouse.
        """
        return output_uri(self.warehouse, self.output or f"hips/{self.catalog}")


class HipsReport(Report):
    """Rows in: those that were asked for. Rows out: those in tiles. Files and bytes: of the HiPS."""

    step: str = HipsRequest.step
    version: int | None = None
    catalog_uri: str = ""
    output: str = ""  # the folder of the version
    deepest: int = 0
    tiles: int = 0
    unchanged: bool = False  # it stood there already
    removed: tuple[str, ...] = ()  # folders of older versions
    left_out: tuple[str, ...] = ()  # columns that tiles have no form for
