"""The compaction of a table, of whatever kind, on any engine.

Files are planned from what the table says of them. To cluster, one pass samples the clustering columns;
ranges, and where files begin and end on the curve, come of that. Then rows go through the exchange once: each
reduce task has one new file, sorts its rows along the curve, writes it, and reads it again. Nothing is
committed unless the rows that are read again are those that were read before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hipslake.catalog.filters import parse_filter
from hipslake.clustering.curves import Curve
from hipslake.clustering.picture import draw_boxes
from hipslake.clustering.placement import Placement
from hipslake.clustering.planning import (
    ClusterMark,
    RewriteGroup,
    TableFile,
    plan_bin_packing,
    plan_clustering,
)
from hipslake.clustering.ranges import RangeBounds, check_clustering_columns
from hipslake.clustering.skipping import quality
from hipslake.compaction.footers import boxes_of, read_footer
from hipslake.compaction.iceberg_table import IcebergTable
from hipslake.compaction.model import CompactedTable, NewFile, Rewrite
from hipslake.compaction.parquet_folder import ParquetFolder
from hipslake.engine.model import Engine
from hipslake.errors import FilterError, SpecError, VerificationError
from hipslake.spark.table_compaction_tasks import (
    RESULT,
    SAMPLE_RESULT,
    MoveRows,
    SampleTask,
    WriteFiles,
    from_ipc,
)
from hipslake.specs.compaction import CompactionMode, CompactionSpec
from hipslake.steps.compact_table import (
    PICTURE,
    CompactTableReport,
    CompactTableRequest,
    FileSizes,
    SkippingQuality,
)
from hipslake.steps.report import Phases

log = logging.getLogger(__name__)

CURVES = {CompactionMode.ZORDER: Curve.Z_ORDER, CompactionMode.HILBERT: Curve.HILBERT}
_ROWS_PER_RANGE = 40
_ROWS_PER_FILE = 100
_MOST_SAMPLED = 200_000


def run(request: CompactTableRequest, engine: Engine) -> CompactTableReport:
    """Compact a table.

    Run again, also after it was killed, it leaves what one run leaves.

    Raises
    ------
    SpecError
        There is no such table, catalog or column, or it cannot be clustered by that one.
    InputError
        A column has values that have no order, or there is no file at all.
    ConflictError
        Another writer has changed the files that were rewritten; nothing is changed.
    VerificationError
        The rows that were written are not those that were read; nothing is changed.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    """
    with closing(open_compacted(request)) as table:
        return _compacted(request, table, engine)


def _compacted(request: CompactTableRequest, table: CompactedTable, engine: Engine) -> CompactTableReport:
    phases = Phases()
    finished = None if request.dry_run else table.finished()
    if finished is not None:
        log.info("%s: an earlier attempt has committed %s.", table.name, finished)
        return CompactTableReport(
            table=table.name,
            mode=request.spec.mode,
            version=finished,
            text=f"An earlier attempt has committed {finished}.",
        )
    with phases("plan"):
        plan = planned(request, table)
    report = plan.report(request, table)
    if not plan.groups or request.dry_run:
        log.info("%s", report.text)
        return report.model_copy(update={"seconds": phases.seconds})
    return _Compaction(request, table, plan, engine, phases).run(report)


def open_compacted(request: CompactTableRequest) -> CompactedTable:
    """Open the table of a request, as it is now."""
    spec = request.spec
    if spec.folder is not None:
        from hipslake.specs.environment import expand

        return ParquetFolder(expand(spec.folder.uri), expand(spec.folder.output), request.run_uri)
    assert spec.table is not None
    return IcebergTable(spec.iceberg, request.warehouse, spec.table, request.folder.storage)


def bytes_to_compact(request: CompactTableRequest) -> int:
    """How many bytes of files a compaction rewrites; who asks decides where it runs."""
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
        """What there is to say before anything is done."""
        files, spec = self.rewritten, request.spec
        if not self.considered:
            text = f"{table.name}: no file matches the filter; nothing to do."
        elif not files:
            text = f"{table.name}: none of {len(self.considered)} files is to be rewritten; nothing to do."
        else:
            by = f" by {', '.join(spec.columns)}" if spec.columns else ""
            text = (
                f"{table.name}: {spec.mode}{by} of {len(files)} of {len(self.considered)} files "
                f"({sum(file.bytes for file in files)} bytes) in {len(self.groups)} groups; "
                f"about {self.expected} files come of it."
            )
        return CompactTableReport(
            table=table.name,
            mode=spec.mode,
            dry_run=request.dry_run,
            partitions=len({group.partition for group in self.groups}),
            bins=len(self.groups),
            files_considered=len(self.considered),
            files_skipped=len(self.considered) - len(files),
            removed=FileSizes.of([file.bytes for file in files]),
            expected_files=self.expected,
            text=text,
        )


def planned(request: CompactTableRequest, table: CompactedTable) -> Plan:
    """Choose files by the filter, and group those that are to be rewritten."""
    spec = request.spec
    check_columns(table, spec.columns)
    considered = _filtered(table, spec.partitions)
    if spec.mode is CompactionMode.BINPACK:
        least = spec.target_bytes + 1 if request.full else spec.min_bytes
        groups = plan_bin_packing(considered, target_bytes=spec.target_bytes, min_bytes=least)
    else:
        groups = plan_clustering(
            considered,
            curve=CURVES[spec.mode].value,
            columns=spec.columns,
            target_bytes=spec.target_bytes,
            group_bytes=spec.group_size.value,
            full=request.full,
        )
    return Plan(considered, tuple(groups))


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
    values = _comparable(table.partition_values)
    if not values.schema.names:
        raise SpecError(f"{table.name} has no partitions to filter by; leave out partitions: {text!r}")
    numbered = values.append_column("file number", pa.array(range(len(table.files)), pa.int64()))
    try:
        chosen = numbered.filter(parse_filter(text, values.schema))["file number"].to_pylist()
    except pa.ArrowException as error:
        kinds = ", ".join(f"{field.name} ({field.type})" for field in values.schema)
        raise FilterError(f"filter {text!r} compares values of different types; there are {kinds}") from error
    return tuple(table.files[at] for at in chosen)


def _comparable(values: pa.Table) -> pa.Table:
    """Dates and times as texts, which filters know."""
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type)
        for field in values.schema
    ]
    return values.cast(pa.schema(fields))


@dataclass
class _Compaction:
    request: CompactTableRequest
    table: CompactedTable
    plan: Plan
    engine: Engine
    phases: Phases
    _ranges: RangeBounds | None = field(default=None, init=False)

    @property
    def spec(self) -> CompactionSpec:
        return self.request.spec

    def run(self, report: CompactTableReport) -> CompactTableReport:
        placements = self._placements() if self.spec.columns else None
        with self.table.rewriting() as rewrite:
            with self.phases("write"):
                added, checksum = self._written(rewrite, placements)
            told = self._quality(added)
            with self.phases("commit"):
                mark = self._mark("") if self.spec.columns else None
                version = rewrite.commit(added, self.plan.rewritten, mark)
        sizes = FileSizes.of([file.bytes for file in added])
        rows = sum(file.rows for file in added)
        text = f"{report.text} {sizes.files} files were written, as {version}."
        log.info("%s", text)
        return report.model_copy(
            update={
                "rows_in": sum(group.rows for group in self.plan.groups),
                "rows_out": rows,
                "bytes": sizes.total_bytes,
                "files": sizes.files,
                "version": version,
                "added": sizes,
                "checksum": f"{checksum:016x}",
                "seconds": self.phases.seconds,
                "text": text,
                **told,
            }
        )

    def _placements(self) -> tuple[Placement, ...]:
        """Where rows go, per group: ranges and ends of files, from one sample of each."""
        with self.phases("sample"):
            sampled = self._sampled()
            self._ranges = RangeBounds.of_sample(
                pa.concat_tables(sampled), self.spec.columns, self.spec.num_ranges
            )
            return tuple(
                Placement.plan(
                    RangeBounds.of_sample(rows, self.spec.columns, self.spec.num_ranges),
                    CURVES[self.spec.mode],
                    group.num_files,
                    add_noise=self.spec.add_noise,
                    seed=self.spec.seed,
                )
                for rows, group in zip(sampled, self.plan.groups, strict=True)
            )

    def _sampled(self) -> list[pa.Table]:
        paths, groups, shares = [], [], []
        for number, group in enumerate(self.plan.groups):
            wanted = max(_ROWS_PER_RANGE * self.spec.num_ranges, _ROWS_PER_FILE * group.num_files)
            share = min(1.0, min(wanted, _MOST_SAMPLED) / max(group.rows, 1))
            for file in group.files:
                paths.append(file.path)
                groups.append(number)
                shares.append(share)
        task = SampleTask(
            self.table.access,
            tuple(paths),
            tuple(shares),
            self.spec.columns,
            self.spec.seed,
            self.engine.counter(),
        )
        with self.engine.progress("sample", tasks=len(paths), rows=None, done=task.done):
            found = self.engine.run(task, tasks=len(paths), result=SAMPLE_RESULT)
        by_file = dict(zip(found["file"].to_pylist(), found["rows"].to_pylist(), strict=True))
        empty = pa.schema([self.table.schema.field(name) for name in self.spec.columns]).empty_table()
        tables: list[list[pa.Table]] = [[empty.replace_schema_metadata(None)] for _ in self.plan.groups]
        for at, number in enumerate(groups):
            tables[number].append(from_ipc(by_file[at]))
        return [pa.concat_tables(parts, promote_options="permissive") for parts in tables]

    def _written(
        self, rewrite: Rewrite, placements: tuple[Placement, ...] | None
    ) -> tuple[list[NewFile], int]:
        """Route all rows, write the files, and check that they hold what was read."""
        groups, rows = self.plan.groups, sum(group.rows for group in self.plan.groups)
        first = np.cumsum([0, *[group.num_files for group in groups]]).tolist()
        sources = [
            (file.path, number, first[number]) for number, group in enumerate(groups) for file in group.files
        ]
        targets = [
            (group.partition, f"group-{number:05d}-{at:05d}-{rewrite.write_id}", number)
            for number, group in enumerate(groups)
            for at in range(group.num_files)
        ]
        marks = tuple(
            self._mark(f"{rewrite.write_id}/{number:05d}") if placements else None
            for number in range(len(groups))
        )
        columns = tuple(self.table.schema.names)
        mapper = MoveRows(rewrite.access, tuple(sources), columns, placements, len(targets))
        reducer = WriteFiles(
            rewrite.access,
            tuple(targets),
            columns,
            placements if self.spec.sort_within_files else None,
            marks,
            self.engine.counter(),
        )
        with self.engine.progress("compact", tasks=len(targets), rows=rows, done=reducer.done):
            found = self.engine.exchange(
                sources=len(sources),
                mapper=mapper,
                targets=len(targets) + 1,
                reducer=reducer,
                result=RESULT,
            )
        told = found.to_pylist()
        read = [row for row in told if row["file"] is None]
        written = [row for row in told if row["file"] is not None]
        before = (sum(row["rows"] for row in read), sum(row["checksum"] for row in read) % 2**64)
        after = (sum(row["rows"] for row in written), sum(row["checksum"] for row in written) % 2**64)
        if before != after or before[0] != rows:
            raise VerificationError(
                f"{self.table.name}: of {rows} rows, {before[0]} were read (checksum {before[1]:016x}) and "
                f"{after[0]} written (checksum {after[1]:016x}); nothing is changed. Run it again; if it "
                "happens twice, report it as a bug"
            )
        files = [NewFile.model_validate_json(row["file"]) for row in written]
        return sorted(files, key=lambda file: file.path), after[1]

    def _mark(self, group: str) -> ClusterMark:
        return ClusterMark(CURVES[self.spec.mode].value, self.spec.columns, group)

    def _quality(self, added: Sequence[NewFile]) -> dict[str, object]:
        """How well the considered files skip, before and after; and the picture of their boxes."""
        if self._ranges is None:
            return {}
        with self.phases("quality"):
            gone = {file.path for file in self.plan.rewritten}
            old = {file.path: read_footer(file.path) for file in self.plan.considered}
            stay = [footer for path, footer in old.items() if path not in gone]
            new = [*stay, *(read_footer(file.path) for file in added)]
            before = boxes_of(list(old.values()), self._ranges, self.table.schema)
            after = boxes_of(new, self._ranges, self.table.schema)
            image = draw_boxes(
                before,
                after,
                self.spec.columns,
                f"{self.table.name}, {self.spec.mode} by {', '.join(self.spec.columns)}",
            )
            self.request.folder.storage.write(PICTURE, image)
            found = [quality(boxes, seed=self.spec.seed) for boxes in (before, after)]
        told = [
            SkippingQuality(files=one.files, files_touched=one.touched, overlap_depth=one.depth)
            for one in found
        ]
        return {"before": told[0], "after": told[1], "picture": self.request.folder.uri_of(PICTURE)}
