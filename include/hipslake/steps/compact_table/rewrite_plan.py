"""Which files of a table a compaction rewrites, and in which groups; from what the table says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from hipslake.clustering.curves import Curve
from hipslake.clustering.planning import (
    ClusterMark,
    RewriteGroup,
    TableFile,
    is_clustered,
    needs_merging,
    plan_bin_packing,
    plan_clustering,
)
from hipslake.clustering.range_ids import check_clustering_columns
from hipslake.errors import SpecError
from hipslake.predicates.evaluation import truth
from hipslake.predicates.filter_text import parse_filter
from hipslake.specs.compaction_spec import CompactionMode, CompactionSpec
from hipslake.specs.environment import expand
from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest, FileSizes
from hipslake.tables.compaction_protocol import CompactedTable
from hipslake.tables.opening import open_folder, open_table

_NAMED = 5  # files that a text names
_MOST_TOLD = 1000
CURVES = {CompactionMode.ZORDER: Curve.Z_ORDER, CompactionMode.HILBERT: Curve.HILBERT}


def open_compacted(request: CompactTableRequest) -> CompactedTable:
    """Open the table of a request, as it is now."""
    spec = request.spec
    if spec.folder is not None:
        return open_folder(expand(spec.folder.uri), expand(spec.folder.output), request.run_uri)
    assert spec.table is not None
    by = mark_of(spec, "")
    return open_table(spec.iceberg, request.warehouse, spec.table).compaction(request.folder.storage, by)


def bytes_to_compact(request: CompactTableRequest) -> int:
    """How many bytes of files a compaction rewrites, which decides where it runs."""
    if request.dry_run:
        return 0
    with closing(open_compacted(request)) as table:
        return sum(group.bytes for group in planned(request, table).groups)


@dataclass(frozen=True)
class Plan:
    """What is rewritten.

    Attributes
    ----------
    considered : tuple of TableFile
        Files that the filter has chosen.
    groups : tuple of RewriteGroup
    """

    considered: tuple[TableFile, ...]
    groups: tuple[RewriteGroup, ...]

    @property
    def rewritten(self) -> tuple[TableFile, ...]:
        """The files of all groups, in their order."""
        return tuple(file for group in self.groups for file in group.files)

    @property
    def expected(self) -> int:
        """How many files come of it."""
        return sum(group.num_files for group in self.groups)

    def report(self, request: CompactTableRequest, table: CompactedTable) -> CompactTableReport:
        """The report of the plan, before anything is rewritten."""
        files, spec = self.rewritten, request.spec
        if not self.considered:
            why = "no file matches the filter" if spec.partitions else "there is no file"
            text = f"{table.name}: {why}; nothing to do."
        elif not files:
            text = f"{table.name}: none of {len(self.considered)} files is to be rewritten; nothing to do."
        else:
            by = f" by {', '.join(spec.columns)}" if spec.columns else ""
            text = (
                f"{table.name}: {spec.mode}{by} of {len(files)} of {len(self.considered)} files "
                f"({sum(file.bytes for file in files)} bytes) in {len(self.groups)} groups; "
                f"about {self.expected} files come of it."
            )
            if merged := sum(file.deletes > 0 for file in files):
                text = f"{text} {merged} of the files have delete files; rows that these take are left out."
        if table.older_files:
            text = f"{text} {table.older_files} files of an older partition spec stay as they are."
        left = table.left_out
        if left:
            named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
            text = f"{text} {len(left)} files are left out, as they are hidden or no Parquet files: {named}."
        considered = len(self.considered) + (0 if spec.partitions else table.older_files)
        return CompactTableReport(
            table=table.name,
            mode=spec.mode,
            dry_run=request.dry_run,
            partitions=len({group.partition for group in self.groups}),
            bins=len(self.groups),
            files_considered=considered,
            files_skipped=considered - len(files),
            removed=FileSizes.of([file.bytes for file in files]),
            expected_files=self.expected,
            left_out=left[:_MOST_TOLD],
            files_left_out=len(left),
            text=text,
        )


def mark_of(spec: CompactionSpec, group: str) -> ClusterMark | None:
    """How the files of a group are clustered, for the table to remember; None if they are not."""
    return ClusterMark(CURVES[spec.mode].value, spec.columns, group) if spec.columns else None


def planned(request: CompactTableRequest, table: CompactedTable) -> Plan:
    """Choose files by the filter, and group those that are to be rewritten."""
    spec = request.spec
    check_columns(table, spec.columns)
    considered = _filtered(table, spec.partitions)
    if spec.mode is CompactionMode.BINPACK:
        least = spec.target_bytes + 1 if request.full else spec.min_bytes
        groups = plan_bin_packing(
            considered,
            target_bytes=spec.target_bytes,
            min_bytes=least,
            most_deletes=spec.delete_file_threshold,
        )
    else:
        groups = plan_clustering(
            considered,
            curve=CURVES[spec.mode].value,
            columns=spec.columns,
            target_bytes=spec.target_bytes,
            group_bytes=spec.group_size.value,
            full=request.full,
            most_deletes=spec.delete_file_threshold,
        )
    return Plan(considered, tuple(groups) if request.full else _enough(spec, groups))


def _enough(spec: CompactionSpec, groups: Sequence[RewriteGroup]) -> tuple[RewriteGroup, ...]:
    """The groups of partitions in which as many files want it as the spec asks for; clustered ones do not.

    A group with a file that has too many delete files is taken anyway.
    """
    curve = CURVES[spec.mode].value if spec.columns else ""
    wanting: Counter[str] = Counter()
    for group in groups:
        wanting[group.partition] += sum(not is_clustered(file, curve, spec.columns) for file in group.files)
    return tuple(
        group
        for group in groups
        if wanting[group.partition] >= spec.min_files
        or any(needs_merging(file, spec.delete_file_threshold) for file in group.files)
    )


def check_columns(table: CompactedTable, columns: Sequence[str]) -> None:
    """Raise if a table cannot be clustered by some columns; none is fine, for bin-packing."""
    partitions = sorted(set(columns) & set(table.partition_columns))
    if partitions:
        raise SpecError(
            f"{table.name} is partitioned by {', '.join(partitions)}: each file has one value of it, so "
            "there is nothing to cluster; take another column"
        )
    if columns:
        check_clustering_columns(table.schema, columns)


def _filtered(table: CompactedTable, text: str | None) -> tuple[TableFile, ...]:
    if text is None:
        return table.files
    values = table.partition_values
    if not values.schema.names:
        raise SpecError(f"{table.name} has no partitions to filter by; leave out partitions: {text!r}")
    chosen = truth(parse_filter(text, values.schema), values).to_pylist()
    return tuple(file for file, passes in zip(table.files, chosen, strict=True) if passes)
