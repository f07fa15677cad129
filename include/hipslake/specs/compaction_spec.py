"""The spec of a compaction: `type: compaction` in `include/specs/tables/<name>.yaml`, as a frozen model."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from hipslake.specs.base import ColumnNames, Frozen, NamedSpec
from hipslake.specs.schedule import Following
from hipslake.specs.table_spec import IcebergSpec
from hipslake.specs.threshold import Bytes, Threshold, ThresholdUnit

COMPACTION = "compaction"
"""The key `type` of these specs: others in the same folder are of sinks."""


class CompactionMode(StrEnum):
    """What a compaction does."""

    BINPACK = "binpack"  # brings small files together
    ZORDER = "zorder"  # clusters rows along the Morton curve
    HILBERT = "hilbert"  # clusters rows along the Hilbert curve


class FolderSpec(Frozen):
    """A folder of Parquet files, and the new folder that its compacted copy goes to."""

    uri: str = Field(min_length=1)
    output: str = Field(min_length=1)  # does not exist yet


class CompactionSpec(NamedSpec):
    """One compaction, of an Iceberg table or of a folder of Parquet files."""

    type: Literal["compaction"]
    iceberg: IcebergSpec = IcebergSpec()
    table: str | None = Field(default=None, min_length=1)  # namespace.table
    folder: FolderSpec | None = None
    mode: CompactionMode = CompactionMode.BINPACK
    columns: ColumnNames = ()  # to cluster by, the most significant first
    partitions: str | None = Field(default=None, min_length=1)  # a filter on partition values; None: all
    target_file_size: Bytes = Threshold(value=128 << 20, unit=ThresholdUnit.BYTES)
    min_file_size: Bytes | None = None  # files below it are small; None: three quarters of the target
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
        if self.mode is CompactionMode.BINPACK and self.columns:
            raise ValueError(
                "columns: mode binpack clusters by none; leave them out, or write 'mode: hilbert'"
            )
        if self.mode is not CompactionMode.BINPACK and not self.columns:
            raise ValueError(f"columns: mode {self.mode} needs at least one column to cluster by")
        return self

    @property
    def target_bytes(self) -> int:
        """Size of the files that are written."""
        return self.target_file_size.value

    @property
    def min_bytes(self) -> int:
        """Files below it are small."""
        return self.min_file_size.value if self.min_file_size else max(1, self.target_bytes * 3 // 4)
