"""What specs of joins have in common: two sides, and how the outcome is published."""

from __future__ import annotations

from pydantic import Field, field_validator

from hipslake.specs.base import Frozen, NamedSpec
from hipslake.specs.catalog import Layout, ParquetSpec, Threshold, ThresholdUnit, VacuumSpec
from hipslake.specs.margin import MarginSpec
from hipslake.specs.schedule import Following


class MotionColumns(Frozen):
    """The columns of one side that say how its rows move, along the axes of ICRS."""

    pmra: str = Field(min_length=1)  # mas per year, with the factor cos(dec)
    pmdec: str = Field(min_length=1)  # mas per year
    parallax: str | None = None  # mas
    radial_velocity: str | None = None  # km/s


class SideSpec(Frozen):
    """One side of a match or a join: a catalog of the warehouse, or the URI of one, and what it gives.

    Rows that do not pass `filters` (a text, as for `hipslake.predicates.filter_text.parse_filter`) are not
    there for the match: the nearest row is the nearest of those that pass.
    """

    catalog: str = Field(min_length=1)
    version: int | None = Field(default=None, ge=1)  # None: the newest
    columns: tuple[str, ...] | None = None  # None: all
    filters: str | None = Field(default=None, min_length=1)  # which rows take part; None: all
    motion: MotionColumns | None = None  # None: rows stay where they are, whatever the epoch

    @property
    def is_named(self) -> bool:
        """Whether it is a catalog of the warehouse, and not the URI of one."""
        return "/" not in self.catalog

    @property
    def is_followed(self) -> bool:
        """Whether a new version of the catalog is another input."""
        return self.is_named and self.version is None

    def described(self, catalog: str) -> str:
        """A name of the catalog, with which of its rows take part."""
        return catalog if self.filters is None else f"{catalog} ({' '.join(self.filters.split())})"


class JoinSpec(NamedSpec):
    """One join of two catalogs: what a user writes in `include/specs/joins/<name>.yaml`."""

    of_no_outcome = frozenset({"schedule", "vacuum"})

    left: SideSpec
    right: SideSpec
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    layout: Layout = Layout.HATS
    parquet: ParquetSpec = ParquetSpec()
    margin: MarginSpec = MarginSpec()  # of the outcome, so that it can be the right side of another match
    index: tuple[str, ...] = ()  # columns of the outcome whose values are looked up
    vacuum: VacuumSpec = VacuumSpec()
    schedule: Following = None  # None: when one of the two catalogs has a new version

    @field_validator("index")
    @classmethod
    def _indexed_once(cls, index: tuple[str, ...]) -> tuple[str, ...]:
        if repeated := sorted({name for name in index if index.count(name) > 1}):
            raise ValueError(f"{', '.join(repeated)} stands twice")
        return index

    @property
    def follows(self) -> tuple[str, ...]:
        """The catalogs of the warehouse whose newest versions are joined."""
        named = (side.catalog for side in (self.left, self.right) if side.is_followed)
        return tuple(dict.fromkeys(named))
