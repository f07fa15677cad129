"""The table spec: what a user writes in `include/specs/tables/<name>.yaml`, as a frozen model."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from hipslake.errors import SpecError
from hipslake.specs.audit_spec import AuditSpec, check_refs
from hipslake.specs.base import Column, ColumnNames, NamedSpec, repeated
from hipslake.specs.clustering_spec import ClusteringSpec, check_cluster_by
from hipslake.specs.column_renames import check_renames
from hipslake.specs.partition_fields import PartitionField, SortField, TransformName
from hipslake.specs.schedule import Following
from hipslake.specs.statistics_spec import StatisticsSpec
from hipslake.specs.stream_spec import StreamSpec
from hipslake.specs.table_place import (
    DeltaSpec,
    IcebergSpec,
    SunkFormat,
    TablePlace,
    check_place,
    place_of,
)
from hipslake.specs.table_rows import CatalogRowsSpec, RowsSpec
from hipslake.specs.table_writing import Duplicates, TableMode, WriteMode
from hipslake.specs.template import fill_template, is_templated
from hipslake.specs.threshold import Bytes, Threshold, ThresholdUnit
from hipslake.specs.upsert_spec import MissingDeletes, OperationSpec, check_upsert
from hipslake.specs.vacuum_spec import TableVacuumSpec

MIN_FILE_BYTES = 1 << 10
DEFAULT_FILE_SIZE = Threshold(value=128 << 20, unit=ThresholdUnit.BYTES)
"""Of data files, where neither the spec nor the table says one."""

_TABLE = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)+")


class TableSpec(NamedSpec):
    """One table: where its rows come from, how it is partitioned, and how rows are added."""

    spec_folder = "tables"
    of_no_outcome = frozenset(
        {
            *("schedule", "vacuum", "write", "branch", "audit", "tag", "evolve", "rename", "stream"),
            *("cluster_by", "clustering", "statistics"),
        }
    )
    counted_if_said = frozenset({"order_by", "operation", "missing_deletes", "format", "delta"})

    source: RowsSpec
    format: SunkFormat = SunkFormat.ICEBERG
    iceberg: IcebergSpec = IcebergSpec()
    delta: DeltaSpec = DeltaSpec()
    table: str  # namespace.table
    partition: tuple[PartitionField, ...] = ()
    sort: tuple[SortField, ...] = ()
    cluster_by: ColumnNames = ()  # files follow a curve through these columns, and are kept so
    clustering: ClusteringSpec = ClusteringSpec()
    mode: TableMode = TableMode.APPEND
    key: ColumnNames = ()  # mode upsert
    duplicates: Duplicates = Duplicates()  # mode upsert
    order_by: Column | None = None  # mode upsert: of the records and rows of a key, the greatest counts
    operation: OperationSpec | None = None  # mode upsert; None: every record puts its row
    missing_deletes: MissingDeletes = MissingDeletes.COUNT  # mode upsert
    interval: Column | None = None  # mode overwrite-interval: the column of the time
    write: WriteMode | None = None  # None: as the table's properties say, copy-on-write if they do not
    target_file_size: Bytes | None = None  # None: as the table says, or DEFAULT_FILE_SIZE
    evolve: Literal["add", "all"] = "add"  # what a sink changes: columns, or all that is asked for
    rename: dict[Column, Column] = Field(default_factory=dict)  # columns of the table, from old to new names
    properties: dict[str, str] = Field(default_factory=dict)  # of a table that is created
    stream: StreamSpec | None = None  # None: a run takes what the source has, or the files of an interval
    schedule: Following = None  # None: when the catalog that it is fed from is published; of a stream, always
    vacuum: TableVacuumSpec = TableVacuumSpec()  # of its snapshots
    branch: str | None = None  # that rows go to first; None: to main at once
    audit: AuditSpec | None = None  # what rows on the branch are held to before they come to main
    tag: str | None = None  # the name of a tag for each night, with `{{ night }}`
    statistics: StatisticsSpec | None = None  # what versions tell of the values of columns

    @field_validator("table")
    @classmethod
    def _identifier(cls, given: str) -> str:
        if not _TABLE.fullmatch(given):
            raise ValueError(f"{given!r} is no table; write namespace.table, with letters, digits, _ and -")
        return given

    @field_validator("target_file_size")
    @classmethod
    def _large_enough(cls, given: Threshold | None) -> Threshold | None:
        if given is not None and given.value < MIN_FILE_BYTES:
            raise ValueError(f"{given} is less than a file needs at least; take 1 KiB or more")
        return given

    @model_validator(mode="after")
    def _mode_fits(self) -> TableSpec:
        if self.mode is TableMode.UPSERT and not self.key:
            raise ValueError("key: mode upsert replaces rows of the same key; name its columns")
        if self.mode is not TableMode.UPSERT and self.key:
            raise ValueError(
                f"key: mode {self.mode} does not look at it; leave it out, or write 'mode: upsert'"
            )
        if self.duplicates.last_by is not None and self.mode is not TableMode.UPSERT:
            raise ValueError("duplicates: only mode upsert has a key that could stand twice; leave it out")
        if self.follows_changes and self.mode is not TableMode.UPSERT:
            raise ValueError(
                "source: changes come into a table by the keys of rows; write 'mode: upsert' and name the key"
            )
        if self.follows_changes and self.duplicates.last_by is not None:
            raise ValueError(
                "duplicates: of rows that share a key, changes tell not which one a table has; leave it out, "
                "and name a key that tells rows apart"
            )
        if (self.mode is TableMode.OVERWRITE_INTERVAL) is not (self.interval is not None):
            raise ValueError(
                "interval: mode overwrite-interval, and no other, needs the column whose time lies in "
                "the interval"
            )
        if self.needs_interval is False and self.mode is TableMode.OVERWRITE_INTERVAL:
            raise ValueError(
                "source: mode overwrite-interval needs rows of an interval: 'rows: increment' of a "
                "catalog, or files with the interval in their uri, such as night={{ night }}"
            )
        return self

    @model_validator(mode="after")
    def _stream_fits(self) -> TableSpec:
        if self.stream is None:
            return self
        if isinstance(self.source, CatalogRowsSpec):
            raise ValueError(
                "stream: is of files, and this table is fed from a catalog; leave it out: a run takes what "
                "the table lacks of the catalog"
            )
        if self.needs_interval:
            raise ValueError(
                "stream: takes whatever files have come, of no interval; write * in the uri in place of "
                "braces"
            )
        if self.branch is not None:
            raise ValueError(
                "branch: batches of a stream go to main at once; leave branch and audit out, or take the "
                "files of intervals without 'stream'"
            )
        if self.schedule is None and self.stream.wait_minutes < 1:
            raise ValueError(
                f"stream.wait_minutes: is {self.stream.wait_minutes:g}, and without a schedule a run begins "
                "when the one before it has ended; let it wait for a minute at least, or write a schedule"
            )
        return self

    @model_validator(mode="after")
    def _records_fit(self) -> TableSpec:
        check_upsert(
            upserts=self.mode is TableMode.UPSERT,
            key=self.key,
            order_by=self.order_by,
            operation=self.operation,
            missing_deletes=self.missing_deletes,
            validity=None,
            stored={
                "source.columns": self.source.columns or (),
                "partition": [field.source for field in self.partition],
                "sort": [sort.field.source for sort in self.sort],
                "duplicates": (self.duplicates.last_by,) if self.duplicates.last_by is not None else (),
            },
        )
        said = "order_by" if self.order_by is not None else "operation"
        if not self.takes_records:
            return self
        if self.follows_changes:
            raise ValueError(
                f"{said}: is of records, and changes of a catalog are rows that came and went; leave it out"
            )
        if self.duplicates.last_by is not None:
            raise ValueError(
                f"duplicates: of records, order_by says which of a key counts; leave {said} or duplicates out"
            )
        return self

    @model_validator(mode="after")
    def _clustering_fits(self) -> TableSpec:
        check_cluster_by(self.cluster_by, self.clustering, self.partition, self.sort)
        return self

    @model_validator(mode="after")
    def _fields_fit(self) -> TableSpec:
        if self.format is SunkFormat.ICEBERG and self.properties.get("format-version", "2") not in (
            "1",
            "2",
        ):
            raise ValueError(
                "properties: tables of format-version 1 and 2 can be written; leave it out for 2"
            )
        for what, names in (
            ("partition", [field.name for field in self.partition]),
            ("sort", [str(field.field) for field in self.sort]),
            ("key", list(self.key)),
        ):
            if twice := repeated(names):
                raise ValueError(f"{what}: {', '.join(twice)} stands twice")
        if twice := repeated(field.source for field in self.partition if field.transform.is_time):
            raise ValueError(
                f"partition: {', '.join(twice)} is divided by two periods; the finer one holds the "
                "coarser, keep it"
            )
        return self

    @model_validator(mode="after")
    def _refs_fit(self) -> TableSpec:
        check_renames(self.rename)
        check_refs(branch=self.branch, audit=self.audit, tag=self.tag, has_interval=self.needs_interval)
        return self

    @model_validator(mode="after")
    def _format_fits(self) -> TableSpec:
        check_place(self.format, self.iceberg, self.delta)
        if self.format is not SunkFormat.DELTA:
            return self
        if self.cluster_by:
            raise ValueError(
                "cluster_by: Delta tables are not kept clustered; leave it out, and cluster the table by a "
                "spec of 'type: compaction' with 'mode: hilbert'"
            )
        if self.statistics is not None:
            raise ValueError(
                "statistics: are files of Iceberg tables, and a Delta table has none such; leave it out"
            )
        for name, given in (("branch", self.branch), ("tag", self.tag)):
            if given is not None:
                raise ValueError(f"{name}: a Delta table has no branches and no tags; leave it out")
        for name, is_said in (("evolve", self.evolve != "add"), ("rename", bool(self.rename))):
            if is_said:
                raise ValueError(f"{name}: of a Delta table, only columns are added; leave it out")
        for field in self.partition:
            if field.transform not in (TransformName.IDENTITY, TransformName.HEALPIX):
                raise ValueError(
                    f"partition: {field}: a Delta table is partitioned by columns, not by transforms of "
                    "them; name a column, or healpix[n]"
                )
        return self

    @property
    def place(self) -> TablePlace:
        """Where the table stands."""
        return place_of(self.format, self.iceberg, self.delta)

    def fingerprint_text(self) -> str:
        """As of all specs; one without a file size has the fingerprint of when the default stood in it."""
        size = self.target_file_size or DEFAULT_FILE_SIZE
        return NamedSpec.fingerprint_text(self.model_copy(update={"target_file_size": size}))

    @property
    def needs_interval(self) -> bool:
        """Whether a run takes the rows of an interval, not all there are."""
        if isinstance(self.source, CatalogRowsSpec):
            return self.source.rows == "increment"
        return is_templated(self.source.files.uri)

    @property
    def follows_changes(self) -> bool:
        """Whether a run brings what changed in a catalog since the version that the table has."""
        return isinstance(self.source, CatalogRowsSpec) and self.source.changes

    @property
    def takes_records(self) -> bool:
        """Whether the source has records of change data: what becomes of the row of each key."""
        return self.operation is not None or self.order_by is not None

    @property
    def takes_what_is_missing(self) -> bool:
        """Whether a run sinks all that the table lacks: a catalog says what it has, files do not."""
        return isinstance(self.source, CatalogRowsSpec)

    def tag_of(self, start: datetime | None, end: datetime | None) -> str | None:
        """The name of the tag of an interval; None if the spec asks for none.

        Raises
        ------
        SpecError
            The name has the end of the interval in it, which is open.
        """
        if self.tag is None or start is None:
            return None
        try:
            return fill_template(self.tag, start, end)
        except ValueError as error:
            raise SpecError(f"{self.name}: tag: {error}") from None

    @property
    def is_range_only(self) -> bool:
        """Whether every partition field is a period of time, or void; so too where there is none."""
        return all(field.transform.is_range_only for field in self.partition)
