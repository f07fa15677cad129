"""What specs of joins have in common: two sides, and how the outcome is published."""

from __future__ import annotations

from pydantic import Field

from hipslake.specs.base import Frozen, NamedSpec
from hipslake.specs.catalog import Layout, ParquetSpec, Threshold, ThresholdUnit, VacuumSpec


class MotionColumns(Frozen):
    """The columns of one side that say how its rows move, along the axes of ICRS."""

    pmra: str = Field(min_length=1)  # mas per year, with the factor cos(dec)
    pmdec: str = Field(min_length=1)  # mas per year
    parallax: str | None = None  # mas
    radial_velocity: str | None = None  # km/s


class SideSpec(Frozen):
    """One side of a match or a join: a catalog of the warehouse, or the URI of one, and what it gives.

    Rows that do not pass `filters` (a text, as for `hipslake.catalog.filters.parse_filter`) are not there for
    the match: the nearest row is the nearest of those that pass.
    """

    catalog: str = Field(min_length=1)
    version: int | None = Field(default=None, ge=1)  # None: the newest
    columns: tuple[str, ...] | None = None  # None: all
    filters: str | None = Field(default=None, min_length=1)  # which rows take part; None: all
    motion: MotionColumns | None = None  # None: rows stay where they are, whatever the epoch

    def described(self, catalog: str) -> str:
        """A name of the catalog, with which of its rows take part."""
        return catalog if self.filters is None else f"{catalog} ({' '.join(self.filters.split())})"


class JoinSpec(NamedSpec):
    """One join of two catalogs: what a user writes in `include/specs/joins/<name>.yaml`."""

    of_no_outcome = frozenset({"vacuum"})

    left: SideSpec
    right: SideSpec
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    layout: Layout = Layout.HATS
    parquet: ParquetSpec = ParquetSpec()
    vacuum: VacuumSpec = VacuumSpec()
