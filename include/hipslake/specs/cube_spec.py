"""The cube spec: what a user writes in `include/specs/cubes/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, model_validator

from hipslake.specs.base import NAME_PATTERN, Column, Frozen, NamedSpec, repeated
from hipslake.specs.catalog_spec import Layout, ParquetSpec, PositionSpec
from hipslake.specs.schedule import Following
from hipslake.specs.table_place import IcebergSpec
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hipslake.specs.vacuum_spec import VacuumSpec

Order = Annotated[int, Field(ge=0, le=29)]
TABLE_PATTERN = r"^[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)+$"
DatasetName = Annotated[str, Field(pattern=NAME_PATTERN)]


class CubeColumns(Frozen):
    """The roles of the columns of a cube: what all its datasets agree on.

    A *cell* of a dataset is one value of its partition columns and its dimension columns; no dataset has a
    cell twice. All other columns are *payload*, and each belongs to one dataset.
    """

    dimension_columns: tuple[Column, ...] = Field(min_length=1)
    partition_columns: tuple[Column, ...] = Field(min_length=1)
    pixel_orders: dict[Column, Order] = Field(default={})  # of partition columns that are HEALPix pixels
    seed: DatasetName = "seed"
    index_columns: tuple[Column, ...] = ()
    suppress_index_on: tuple[Column, ...] = ()

    @model_validator(mode="after")
    def _roles_are_apart(self) -> CubeColumns:
        dimensions, partitions = self.dimension_columns, self.partition_columns
        for role in ("dimension_columns", "partition_columns", "index_columns", "suppress_index_on"):
            if twice := repeated(getattr(self, role)):
                raise ValueError(f"{role}: {_listed(twice)} is named twice; name every column once")
        for role, other in (
            ("partition_columns", "dimension_columns"),
            ("index_columns", "dimension_columns"),
            ("index_columns", "partition_columns"),
        ):
            if both := set(getattr(self, role)) & set(getattr(self, other)):
                raise ValueError(f"{role}: {_listed(both)} is one of {other} too; a column has one role")
        if beyond := set(self.suppress_index_on) - set(dimensions):
            raise ValueError(
                f"suppress_index_on: {_listed(beyond)} is none of dimension_columns "
                f"({', '.join(dimensions)}); only these are indexed unasked"
            )
        if strange := set(self.pixel_orders) - set(partitions):
            raise ValueError(
                f"pixel_orders: {_listed(strange)} is none of partition_columns ({', '.join(partitions)})"
            )
        return self

    @property
    def seed_index_columns(self) -> frozenset[str]:
        """The dimension columns that have an index in the seed."""
        return frozenset(self.dimension_columns) - frozenset(self.suppress_index_on)

    def payload(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are neither dimension nor partition columns, sorted."""
        return sorted(set(names) - {*self.dimension_columns, *self.partition_columns})


class CubeDatasetSpec(Frozen):
    """Where the rows of one dataset come from: a catalog, an Iceberg table, or Parquet files."""

    catalog: str | None = Field(default=None, min_length=1)  # of the warehouse by name, or by URI
    version: int | None = Field(default=None, ge=1)  # of the catalog; None: the newest
    table: str | None = Field(default=None, pattern=TABLE_PATTERN)  # namespace.table
    snapshot: int | None = Field(default=None, ge=1)  # of the table; None: the current one
    iceberg: IcebergSpec = IcebergSpec()  # the Iceberg catalog of the table
    parquet: str | None = Field(default=None, min_length=1)  # a URI, maybe with * and **
    columns: tuple[Column, ...] | None = None  # None: all
    filters: str | None = Field(default=None, min_length=1)  # which rows take part; None: all
    rename: dict[Column, Column] = Field(default={})  # from a column of the source to its name in the cube
    partition_columns: tuple[Column, ...] | None = None  # None: those of the cube

    @model_validator(mode="after")
    def _has_one_source(self) -> CubeDatasetSpec:
        if [self.catalog, self.table, self.parquet].count(None) != 2:
            raise ValueError("the rows come from one place; give either 'catalog', 'table' or 'parquet'")
        if self.version is not None and self.catalog is None:
            raise ValueError("version: only catalogs have versions; leave it out")
        if self.table is None and self.snapshot is not None:
            raise ValueError("snapshot: only tables have snapshots; leave it out")
        if self.table is None and self.iceberg != IcebergSpec():
            raise ValueError("iceberg: the Iceberg catalog of a table; leave it out")
        return self

    @property
    def follows(self) -> bool:
        """Whether the rows are those of the newest version or snapshot, whichever that is."""
        return self.version is None and self.snapshot is None


class MaterialiseSpec(Frozen):
    """The joined rows, published: as a catalog where the seed has positions, else as Parquet files."""

    name: DatasetName | None = None  # of the catalog; None: only as Parquet files, in the cube's folder
    columns: tuple[Column, ...] | None = None  # payload; None: all
    position: PositionSpec | None = None  # None: that of the seed's catalog
    threshold: Threshold = Threshold(value=1_000_000, unit=ThresholdUnit.ROWS)
    layout: Layout = Layout.HATS
    parquet: ParquetSpec = ParquetSpec()
    vacuum: VacuumSpec = VacuumSpec()

    @model_validator(mode="after")
    def _fits(self) -> MaterialiseSpec:
        defaults = {key: field.get_default() for key, field in type(self).model_fields.items()}
        for key in ("position", "threshold", "layout", "parquet", "vacuum"):
            if self.name is None and getattr(self, key) != defaults[key]:
                raise ValueError(f"{key}: only of a catalog; give its name, or leave this out")
        return self


class CubeSpec(NamedSpec, CubeColumns):
    """One cube: its columns, its datasets, and how its files are cut."""

    spec_folder = "cubes"
    schedule: Following = None  # None: as its datasets have news
    conditions: str | None = Field(default=None, min_length=1)  # which rows are aligned; None: all
    materialise: MaterialiseSpec | None = None  # None: the joined rows are not kept
    datasets: dict[DatasetName, CubeDatasetSpec] = Field(min_length=1)
    file_rows: int = Field(default=4_000_000, ge=1)  # the most rows of one file
    vacuum: VacuumSpec = VacuumSpec()

    @model_validator(mode="after")
    def _datasets_fit(self) -> CubeSpec:
        if self.seed not in self.datasets:
            raise ValueError(
                f"seed: {self.seed!r} is none of datasets ({', '.join(sorted(self.datasets))}); the seed "
                "says which cells there are, so add it or name another"
            )
        for name, dataset in self.datasets.items():
            if dataset.partition_columns is None:
                continue
            if beyond := set(dataset.partition_columns) - set(self.partition_columns):
                raise ValueError(
                    f"datasets.{name}.partition_columns: {_listed(beyond)} is none of the cube's "
                    f"partition_columns ({', '.join(self.partition_columns)})"
                )
            if name == self.seed and set(dataset.partition_columns) != set(self.partition_columns):
                raise ValueError(
                    f"datasets.{name}.partition_columns: the seed is partitioned by all of the cube's "
                    f"({', '.join(self.partition_columns)}); leave the key out"
                )
        return self

    @model_validator(mode="after")
    def _outcome_fits(self) -> CubeSpec:
        if self.materialise is None or self.materialise.name is None:
            return self
        if self.materialise.position is None and self.datasets[self.seed].catalog is None:
            raise ValueError(
                "materialise.position: the seed is no catalog, so say which columns place a row on the sky, "
                "or leave out materialise.name"
            )
        for name, dataset in self.datasets.items():
            if dataset.catalog == self.materialise.name:
                raise ValueError(
                    f"materialise.name: dataset {name} is read from that very catalog; take another"
                )
        return self

    @property
    def roles(self) -> CubeColumns:
        """The roles of the columns alone."""
        return CubeColumns(**{name: getattr(self, name) for name in CubeColumns.model_fields})


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))
