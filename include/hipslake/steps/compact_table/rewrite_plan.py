"""Which files of a table a compaction rewrites, and in which groups; from what the table says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from hipslake.clustering.curves import Curve
from hipslake.clustering.planning import (
    SORTED,
    ClusterMark,
    FileSizing,
    RewriteGroup,
    TableFile,
    is_clustered,
    is_large,
    needs_merging,
    plan_bin_packing,
    plan_clustering,
    plan_repartitioning,
    within_bound,
)
from hipslake.clustering.range_ids import check_clustering_columns
from hipslake.errors import SpecError
from hipslake.predicates.evaluation import truth
from hipslake.predicates.filter_text import parse_filter
from hipslake.specs.compaction_spec import CompactionMode, CompactionSpec
from hipslake.specs.environment import expand
from hipslake.specs.table_spec import DEFAULT_FILE_SIZE
from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest, FileSizes
from hipslake.steps.compact_table.table_upkeep import KeptFiles, kept_files, told_of
from hipslake.tables.compaction_protocol import CompactedTable
from hipslake.tables.fitting import in_table
from hipslake.tables.opening import open_folder, open_table
from hipslake.tables.transforms import result_type

_BOUND_PARTS = 3  # a group has its size at a part of the bound, so that what is left over fits beside it
_NAMED = 5  # files that a text names
_MOST_TOLD = 1000


def curve_of(spec: CompactionSpec) -> Curve:
    """The curve that a spec puts rows along."""
    if spec.mode is CompactionMode.LIQUID:
        return Curve(spec.clustering.curve)
    return {CompactionMode.ZORDER: Curve.Z_ORDER, CompactionMode.HILBERT: Curve.HILBERT}[spec.mode]


def with_columns(request: CompactTableRequest, table: CompactedTable) -> CompactTableRequest:
    """The request with the columns that the table is clustered by, where its spec names none."""
    spec = request.spec
    if not spec.is_curve or spec.columns or table.by is None:
        return request
    return request.model_copy(update={"spec": spec.model_copy(update={"columns": table.by.columns})})


def open_compacted(request: CompactTableRequest) -> CompactedTable:
    """Open the table of a request, as it is now."""
    spec = request.spec
    by = _mark_of(spec)
    if spec.folder is not None:
        return open_folder(expand(spec.folder.uri), expand(spec.folder.output), request.run_uri, by)
    assert spec.table is not None
    return open_table(spec.place, request.warehouse, spec.table).compaction(request.folder.storage, by)


def bytes_to_compact(request: CompactTableRequest) -> int:
    """How many bytes of files a compaction rewrites, which decides where it runs."""
    if request.dry_run:
        return 0
    with closing(open_compacted(request)) as table:
        return sum(group.bytes for group in planned(with_columns(request, table), table).groups)


@dataclass(frozen=True)
class Plan:
    """What is rewritten.

    Attributes
    ----------
    considered : tuple of TableFile
        Files that the filter has chosen, and those of older partition specs that are rewritten.
    groups : tuple of RewriteGroup
    sizing : FileSizing
    later : tuple of RewriteGroup
        Groups that are left for later runs, by the bound on what is rewritten.
    older_files : int
        How many files of older partition specs stay as they are.
    upkeep : KeptFiles or None
        What the choice of files was made by, in mode liquid.
    """

    considered: tuple[TableFile, ...]
    groups: tuple[RewriteGroup, ...]
    sizing: FileSizing
    later: tuple[RewriteGroup, ...] = ()
    older_files: int = 0
    upkeep: KeptFiles | None = None

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
            by = f" by {', '.join(table.by.columns)}" if table.by is not None else ""
            text = (
                f"{table.name}: {spec.mode}{by} of {len(files)} of {len(self.considered)} files "
                f"({sum(file.bytes for file in files)} bytes) in {len(self.groups)} groups; "
                f"about {self.expected} files come of it."
            )
            if merged := sum(file.deletes > 0 for file in files):
                text = f"{text} {merged} of the files have delete files; rows that these take are left out."
        outdated = sum(file.outdated for file in files)
        if outdated:
            text = f"{text} {outdated} of the files are of an older partition spec; their rows move."
        if self.older_files:
            text = f"{text} {self.older_files} files of an older partition spec stay as they are."
        if self.later:
            waiting = [file for group in self.later for file in group.files]
            text = (
                f"{text} {len(waiting)} files ({sum(file.bytes for file in waiting)} bytes) are left for "
                f"later runs, as no more than {spec.max_rewrite_size} is rewritten in one."
            )
            most = 0 if spec.max_rewrite_size is None else spec.max_rewrite_size.value
            too_large = [group for group in self.later if group.bytes > most]
            if too_large:
                text = (
                    f"{text} Of {len(too_large)} of them a single file is larger than that, such as "
                    f"{too_large[0].files[0].path}: raise max_rewrite_size."
                )
        left = table.left_out
        if left:
            named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
            text = f"{text} {len(left)} files are left out, as they are hidden or no Parquet files: {named}."
        considered = len(self.considered) + (0 if spec.partitions else self.older_files)
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
            target_bytes=self.sizing.target,
            files_repartitioned=outdated,
            files_later=sum(len(group.files) for group in self.later),
            left_out=left[:_MOST_TOLD],
            files_left_out=len(left),
            clustering=None if self.upkeep is None else told_of(request, self.upkeep),
            text=text,
        )


def _mark_of(spec: CompactionSpec) -> ClusterMark | None:
    """How a spec wants rows to be clustered; by a sort order without columns, as the table says."""
    if spec.mode is CompactionMode.SORT:
        fields = (each.model_copy(update={"field": in_table(each.field)}) for each in spec.sort)
        return ClusterMark(SORTED, tuple(str(each) for each in fields), "")
    return ClusterMark(curve_of(spec).value, spec.columns, "") if spec.is_curve else None


def sizing_of(spec: CompactionSpec, table: CompactedTable) -> FileSizing:
    """How large files should be: as the spec says, or else the table.

    Raises
    ------
    SpecError
        What is small or large does not fit to the target, or less than two files may be rewritten.
    """
    told = spec.target_file_size
    target = (table.target_bytes or DEFAULT_FILE_SIZE.value) if told is None else told.value
    least = None if spec.min_file_size is None else spec.min_file_size.value
    most = None if spec.max_file_size is None else spec.max_file_size.value
    if not (least or 0) <= target <= (most or target):
        raise SpecError(
            f"{table.name}: files are to have {target} bytes, at least {least or 0} and at most "
            f"{most or target}; mend min_file_size or max_file_size, or give target_file_size"
        )
    sizing = FileSizing.of(target, least, most)
    bound = spec.max_rewrite_size
    if bound is not None and bound.value < 2 * sizing.large:
        raise SpecError(
            f"{table.name}: max_rewrite_size is {bound}, which does not hold two files of {sizing.large} "
            f"bytes, the most that a file may have; give at least {2 * sizing.large} B"
        )
    return sizing


def planned(request: CompactTableRequest, table: CompactedTable) -> Plan:
    """Choose files by the filter, and group those that are to be rewritten."""
    spec, by = request.spec, table.by
    check_columns(table, spec.columns)
    check_order(table)
    sizing = sizing_of(spec, table)
    bound = None if spec.max_rewrite_size is None else spec.max_rewrite_size.value
    present = _filtered(table, spec.partitions)
    outdated = [] if spec.partitions else [file for file in table.files if file.outdated]
    moved = outdated if outdated and spec.repartition and table.partition_fields is not None else []
    group_bytes = max(spec.group_size.value, 2 * sizing.large)
    if bound is not None:
        group_bytes = min(group_bytes, bound)
    if spec.mode is CompactionMode.LIQUID:
        return _kept_plan(request, table, present, moved, sizing, len(outdated) - len(moved))
    if by is None:
        groups = plan_bin_packing(
            present,
            sizing=sizing,
            group_bytes=group_bytes,
            full=request.full,
            most_deletes=spec.delete_file_threshold,
        )
    else:
        finished = spec.group_size.value
        groups = plan_clustering(
            present,
            curve=by.curve,
            columns=by.columns,
            sizing=sizing,
            group_bytes=finished if bound is None else min(finished, bound // _BOUND_PARTS),
            most_bytes=bound,
            full=request.full,
            most_deletes=spec.delete_file_threshold,
        )
    if not request.full:
        groups = _enough(spec, by, sizing, groups)
    groups += plan_repartitioning(moved, sizing=sizing, group_bytes=group_bytes)
    now = within_bound(groups, bound)
    chosen = set(map(id, now))
    return Plan(
        (*present, *moved),
        tuple(now),
        sizing,
        tuple(group for group in groups if id(group) not in chosen),
        len(outdated) - len(moved),
    )


def _kept_plan(
    request: CompactTableRequest,
    table: CompactedTable,
    present: Sequence[TableFile],
    moved: Sequence[TableFile],
    sizing: FileSizing,
    older: int,
) -> Plan:
    """The plan of mode liquid: what queries open too often, and files of older partition specs."""
    found = kept_files(request, table, present, sizing)
    groups = [
        *found.groups,
        *plan_repartitioning(moved, sizing=sizing, group_bytes=request.spec.group_size.value),
    ]
    return Plan((*present, *moved), tuple(groups), sizing, older_files=older, upkeep=found)


def _enough(
    spec: CompactionSpec, by: ClusterMark | None, sizing: FileSizing, groups: Sequence[RewriteGroup]
) -> list[RewriteGroup]:
    """The groups of partitions in which as many files want it as the spec asks for; clustered ones do not.

    A group with a file that has too many delete files is taken anyway, and so is one with a file to cut.
    """
    wanting: Counter[str] = Counter()
    for group in groups:
        wanting[group.partition] += sum(
            by is None or not is_clustered(file, by.curve, by.columns) for file in group.files
        )
    return [
        group
        for group in groups
        if wanting[group.partition] >= spec.min_files
        or any(needs_merging(file, spec.delete_file_threshold) for file in group.files)
        or (by is None and any(is_large(file, sizing) for file in group.files))
    ]


def group_mark(by: ClusterMark | None, group: RewriteGroup, name: str) -> ClusterMark | None:
    """How the files of a group are clustered, for the table to remember; None if they are not."""
    return None if by is None or group.outdated else replace(by, group=name)


def check_order(table: CompactedTable) -> None:
    """Raise `SpecError` if the rows of a table cannot be sorted as they are to be."""
    if table.by is None or table.by.curve != SORTED:
        return
    names = table.schema.names
    for each in table.sort_fields:
        column = each.field.column
        if column not in names:
            raise SpecError(
                f"sort: {table.name} has no column {column}; there are {', '.join(sorted(names))}"
            )
        result_type(each.field, table.schema.field(column).type)


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
    files = tuple(file for file in table.files if not file.outdated)
    if text is None:
        return files
    values = table.partition_values
    if not values.schema.names:
        raise SpecError(f"{table.name} has no partitions to filter by; leave out partitions: {text!r}")
    chosen = truth(parse_filter(text, values.schema), values).to_pylist()
    return tuple(file for file, passes in zip(files, chosen, strict=True) if passes)
