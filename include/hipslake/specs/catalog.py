"""The catalog spec: what a user writes in `include/specs/catalogs/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from hipslake.specs.base import Frozen

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"
MAX_ORDER = 29


class Layout(StrEnum):
    """How the files of a version lie on disk."""

    HATS = "hats"
    HIPSCAT = "hipscat"


class ThresholdUnit(StrEnum):
    ROWS = "rows"
    BYTES = "bytes"


class Threshold(Frozen):
    """The largest leaf allowed: rows, or bytes of the finished file on disk.

    Written as text: `20000 rows`, `1M rows`, `64 MiB`, `200 kB`, `1_000_000 rows`.
    """

    value: int = Field(ge=1)
    unit: ThresholdUnit


class SourceSpec(Frozen):
    """Where the source files lie and how they are read."""

    uri: str  # a glob; ${NAME} takes environment variables, e.g. ${HIPSLAKE_LANDING}/gaia_dr3/*.parquet
    format: Literal["parquet", "csv"]
    options: dict[str, Any] = Field(default_factory=dict)  # validated by the format's own options model
    missing_columns: Literal["error", "null"] = "error"


class PositionSpec(Frozen):
    """The columns that place a row on the sky."""

    ra: str
    dec: str
    unit: Literal["deg", "rad"] = "deg"
    frame: Literal["icrs", "galactic", "fk5"] = "icrs"
    epoch: float | None = None  # Julian year of the positions, e.g. 2016.0 or 1991.25


class ColumnGroupSpec(Frozen):
    """Columns stored together, split on a threshold of their own."""

    name: str = Field(pattern=NAME_PATTERN)
    columns: tuple[str, ...] | Literal["*"] = "*"  # "*": every column that no other group names
    threshold: Threshold | None = None  # None: the catalog's


class ParquetSpec(Frozen):
    """How leaf files are encoded."""

    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd"
    level: int | None = None
    row_group_rows: int = Field(default=100_000, ge=1)


class BadRowsSpec(Frozen):
    """What becomes of rows whose position is not on the sky."""

    policy: Literal["fail", "quarantine"] = "fail"
    max_fraction: float = Field(default=0.01, ge=0.0, le=1.0)  # of all rows; past it a quarantine fails too


class CatalogSpec(Frozen):
    """One catalog: its source, its place on the sky, its partitioning and its schedule."""
