"""What a HiPS of a catalog is to be: of a spec's `hips`, of a form, of a command line."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from hipslake.errors import RegionError
from hipslake.specs.base import Column, Frozen, repeated
from hipslake.specs.schedule import Following

IVOID_PATTERN = r"^ivo://[A-Za-z0-9][A-Za-z0-9._-]{2,}(/\S*)?$"
"""An identifier of the IVOA, by its Recommendation Identifiers 2.0."""
URL_PATTERN = r"^https?://[^\s@]+$"
"""Of a web server, without a password."""
FINEST_ORDER = 29
COARSEST_LIMIT = 3
"""The least last order: clients take orders 1 and 2 as they come, and ask for tiles from 3 on."""
MOST_TILE_ROWS = 100_000

_TileRows = Annotated[int, Field(ge=1, le=MOST_TILE_ROWS)]


class HipsOptions(Frozen):
    """Which rows and columns of a catalog its HiPS shows, how tiles divide them, and where it lies."""

    order_by: Column | None = None  # None: by chance
    descending: bool = False
    columns: tuple[Column, ...] | None = None  # None: all that tiles have a form for
    filters: str | None = None
    region: str | None = None
    tile_rows: _TileRows = 500
    allsky_rows: _TileRows = 60  # of a tile of order 1 or 2
    deepest_order: int = Field(default=12, ge=COARSEST_LIMIT, le=FINEST_ORDER)
    coverage_order: int = Field(default=10, ge=0, le=FINEST_ORDER)
    output: str | None = None  # a path or a URI; a relative path lies below `exports/` of the warehouse
    service_url: str | None = Field(default=None, pattern=URL_PATTERN)  # where the output is served
    creator_did: str | None = Field(default=None, pattern=IVOID_PATTERN)
    public: bool = False
    keep_versions: int = Field(default=2, ge=1, le=1000)


class HipsSpec(HipsOptions):
    """The HiPS that follows the versions of a catalog."""

    schedule: Following = None  # None: after each version

    @model_validator(mode="after")
    def _can_be_asked_for(self) -> HipsSpec:
        if twice := repeated(self.columns or ()):
            raise ValueError(f"columns: {', '.join(twice)} stands twice")
        if self.region is not None and not self.region.lower().startswith("moc"):  # which may be a file
            from hipslake.sphere.regions import parse_region  # which DAG files do without

            try:
                parse_region(self.region)
            except RegionError as error:
                raise ValueError(f"region: {error}") from None
        return self
