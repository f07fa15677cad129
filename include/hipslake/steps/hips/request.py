"""HiPS: a version of a catalog becomes tiles that clients load as they zoom in."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.specs.base import NAME_PATTERN
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.report import Report, Request
from hipslake.steps.run import now_utc

IVOID_PATTERN = r"^ivo://[A-Za-z0-9][A-Za-z0-9._-]{2,}(/\S*)?$"
"""An identifier of the IVOA, by its Recommendation Identifiers 2.0."""
URL_PATTERN = r"^https?://[^\s@]+$"
"""Of a web server, without a password."""
FINEST_ORDER = 29
COARSEST_LIMIT = 3
"""The least last order: clients take orders 1 and 2 as they come, and ask for tiles from 3 on."""
MOST_TILE_ROWS = 100_000


class HipsRequest(Request):
    """Make a HiPS of a catalog."""

    step: ClassVar[str] = "hips"
    depends_on: ClassVar[str] = "request"
    reusable: ClassVar[bool] = False  # what stands already is looked for at the output

    warehouse: str
    catalog: str = Field(pattern=NAME_PATTERN)
    version: int | None = None  # None: the newest
    order_by: str | None = None  # None: by chance
    descending: bool = False
    columns: tuple[str, ...] | None = None
    filters: str | None = None
    region: str | None = None
    tile_rows: int = Field(default=500, ge=1, le=MOST_TILE_ROWS)
    allsky_rows: int = Field(default=60, ge=1, le=MOST_TILE_ROWS)  # of a tile of order 1 or 2
    deepest_order: int = Field(default=12, ge=COARSEST_LIMIT, le=FINEST_ORDER)
    coverage_order: int = Field(default=10, ge=0, le=FINEST_ORDER)
    output: str | None = None  # a path or a URI; a relative path lies below `exports/` of the warehouse
    service_url: str | None = Field(default=None, pattern=URL_PATTERN)  # where the output is served
    creator_did: str | None = Field(default=None, pattern=IVOID_PATTERN)
    public: bool = False
    keep_versions: int = Field(default=2, ge=1)
    task_bytes: int = Field(default=256 << 20, ge=1)  # of leaf files that one task reads
    created: AwareDatetime = Field(default_factory=now_utc)

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
