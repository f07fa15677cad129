"""The spec of a compaction: `type: compaction` in `include/specs/tables/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from hipslake.specs.base import ColumnNames, Frozen, NamedSpec
from hipslake.specs.clustering_spec import ClusteringSpec
from hipslake.specs.partition_fields import SortField
from hipslake.specs.schedule import Following
from hipslake.specs.table_place import DeltaSpec, IcebergSpec, SunkFormat, TablePlace, check_place, place_of
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.threshold import Bytes, Threshold, ThresholdUnit


class CompactionMode(StrEnum):
    """What a compaction does."""

    BINPACK = "binpack"  # brings small files together, and cuts large ones
    SORT = "sort"  # sorts rows over all files of a group
    ZORDER = "zorder"  # clusters rows along the Morton curve
    HILBERT = "hilbert"  # clusters rows along the Hilbert curve
    LIQUID = "liquid"  # keeps a table clustered: rewrites what queries open too often, within a bound


class FolderSpec(Frozen):
    """A folder of Parquet files, and the new folder that its compacted copy goes to."""

    uri: str = Field(min_length=1)
    output: str = Field(min_length=1)  # does not exist yet


class CompactionSpec(NamedSpec):
    """One compaction, of an Iceberg table or of a folder of Parquet files."""

    spec_folder = "tables"
    counted_if_said = frozenset({"format", "delta"})

    type: Literal["compaction"]
    format: SunkFormat = SunkFormat.ICEBERG
    iceberg: IcebergSpec = IcebergSpec()
    delta: DeltaSpec = DeltaSpec()
    table: str | None = Field(default=None, min_length=1)  # namespace.table
    folder: FolderSpec | None = None
    mode: CompactionMode = CompactionMode.BINPACK
    columns: ColumnNames = ()  # to cluster by, the most significant first; of mode liquid: as the table says
    clustering: ClusteringSpec = ClusteringSpec()  # of mode liquid
    sort: tuple[SortField, ...] = ()  # of mode sort; empty: the table's sort order
    partitions: str | None = Field(default=None, min_length=1)  # a filter on partition values; None: all
    target_file_size: Bytes | None = None  # None: as the table says, or 128 MiB
    min_file_size: Bytes | None = None  # files below it are small; None: three quarters of the target
    max_file_size: Bytes | None = None  # files above it are cut; None: 1.8 times the target
    max_rewrite_size: Bytes | None = None  # no more is read and written in a run; None: no bound
    max_commits: int = Field(default=1, ge=1, le=1000)  # groups are committed in so many parts
    manifests: bool = False  # of an Iceberg table: small ones are merged, and large ones cut
    repartition: bool = True  # files of older partition specs are rewritten into the present one
    min_files: int = Field(default=1, ge=1)  # partitions in which fewer want it are left alone
    delete_file_threshold: int | None = Field(default=1, ge=1)  # rewritten from so many on; None: for none
    group_size: Bytes = Threshold(value=100 << 30, unit=ThresholdUnit.BYTES)  # left alone from this size on
    num_ranges: int = Field(default=1000, ge=2, le=1 << 20)
    add_noise: bool = True
    sort_within_files: bool = True
    seed: int = 0
    schedule: Following = None  # None: after each sink into the table

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.table is None) is (self.folder is None):
            raise ValueError("give either 'table' (of an Iceberg catalog) or 'folder' (of Parquet files)")
        check_place(self.format, self.iceberg, self.delta)
        if self.mode in (CompactionMode.BINPACK, CompactionMode.SORT) and self.columns:
            what = "sorts by 'sort'" if self.mode is CompactionMode.SORT else "clusters by none"
            raise ValueError(f"columns: mode {self.mode} {what}; leave them out, or write 'mode: hilbert'")
        if self.mode is CompactionMode.LIQUID:
            self._check_liquid()
        elif self.clustering != ClusteringSpec():
            raise ValueError(f"clustering: is for mode liquid, and this is {self.mode}; leave it out")
        elif self.is_curve and not self.columns:
            raise ValueError(f"columns: mode {self.mode} needs at least one column to cluster by")
        if self.sort and self.mode is not CompactionMode.SORT:
            raise ValueError(f"sort: is for mode sort, and this is {self.mode}; leave it out")
        if self.mode is CompactionMode.SORT and not self.sort and self.folder is not None:
            raise ValueError("sort: a folder has no sort order of its own; name what to sort by")
        if self.format is SunkFormat.DELTA and self.table is not None:
            if self.mode is CompactionMode.SORT and not self.sort:
                raise ValueError("sort: a Delta table has no sort order of its own; name what to sort by")
            if self.manifests:
                raise ValueError("manifests: a Delta table has none; leave it out")
        if self.folder is not None and self.manifests:
            raise ValueError("manifests: a folder has none; leave it out")
        if self.folder is not None and self.max_commits > 1:
            raise ValueError("max_commits: a new folder appears as a whole; leave it out")
        least, target, most = (
            None if size is None else size.value
            for size in (self.min_file_size, self.target_file_size, self.max_file_size)
        )
        if target is not None and least is not None and least > target:
            raise ValueError(f"min_file_size: {self.min_file_size} is more than target_file_size")
        if target is not None and most is not None and most < target:
            raise ValueError(f"max_file_size: {self.max_file_size} is less than target_file_size")
        return self

    @classmethod
    def keeping(cls, spec: TableSpec) -> CompactionSpec:
        """What keeps the table of a sink clustered as its spec says."""
        return cls(
            type="compaction",
            name=spec.name,
            iceberg=spec.iceberg,
            table=spec.table,
            mode=CompactionMode.LIQUID,
            columns=spec.cluster_by,
            clustering=spec.clustering,
            target_file_size=spec.target_file_size,
            repartition=False,
        )

    def _check_liquid(self) -> None:
        if self.format is SunkFormat.DELTA:
            raise ValueError("mode: Delta tables are not kept clustered; write 'mode: hilbert' with columns")
        if self.folder is not None:
            raise ValueError("mode: a folder is compacted once, into a new one; write 'mode: hilbert'")
        for name in ("max_rewrite_size", "max_commits", "min_files", "group_size", "partitions"):
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name}: mode liquid chooses by what queries open, and is bounded by 'clustering'; "
                    "leave it out"
                )

    @property
    def is_curve(self) -> bool:
        """Whether rows are put in order along a curve."""
        return self.mode in (CompactionMode.ZORDER, CompactionMode.HILBERT, CompactionMode.LIQUID)

    @property
    def place(self) -> TablePlace:
        """Where the table stands."""
        return place_of(self.format, self.iceberg, self.delta)
