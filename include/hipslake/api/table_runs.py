"""Runs of table specs, by the steps of their DAGs, without Airflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hipslake.api.run_interval import window_of_interval
from hipslake.api.step_runner import StepRunner, Told
from hipslake.errors import SpecError
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.run import Window
from hipslake.steps.sink.prefetched_rows import prefetching_rows
from hipslake.steps.sink.request import SinkReport, SinkRequest

if TYPE_CHECKING:
    from hipslake.steps.audit.request import AuditReport
    from hipslake.steps.compact_table.request import CompactTableReport

Place = str | os.PathLike[str]


class SinkRun(NamedTuple):
    """What a run of a table's spec came to.

    Attributes
    ----------
    table : str
        Namespace and name.
    run_uri : str
        The folder of the run, with the reports of its steps.
    sink : SinkReport or None
        None: the table lacks nothing.
    audit : AuditReport or None
        Of a spec with a branch: what was published of it.
    clustering : CompactTableReport or None
        Of a spec with `cluster_by`: what was rewritten behind the sink.
    nothing_to_do : str
        Why readers see nothing new; empty where they do.
    """

    table: str
    run_uri: str
    sink: SinkReport | None
    audit: AuditReport | None
    clustering: CompactTableReport | None
    nothing_to_do: str


def sink_by_spec(
    spec_file: Place,
    *,
    warehouse: Place | None = None,
    interval: Any = None,
    force: bool = False,
    allow_empty: bool = False,
    discard_branch: bool = False,
    spark: Any = None,
    told: Told | None = None,
) -> SinkRun:
    """Sink what a table's spec names, as its DAG does; an audit and the clustering behind it are done, too.

    Parameters
    ----------
    spec_file : path
        Of the spec.
    warehouse : str or Path, optional
        By default `${HIPSLAKE_WAREHOUSE}`.
    interval : optional
        Of a spec by intervals: a start and an end, or a start from which on a day counts, as for
        `hipslake.api.run_interval.window_of_interval`. One that is fed from a catalog needs none: all that
        the table lacks is sunk.
    force, allow_empty, discard_branch : bool
        As in the form of the DAG.
    spark : pyspark.sql.SparkSession or bool, optional
        A session that does the work; True: one of the run; False: this process does all of it. By default
        Spark does what has many bytes.
    told : callable, optional
        Is told of each step.

    Raises
    ------
    SpecError
        The spec or the interval is wrong, or the table is fed by a stream, which only its DAG drains.
    HipslakeError
        As of the steps; what was committed before stands.
    """
    spec = load_spec(Path(spec_file), TableSpec)
    if spec.stream is not None:
        raise SpecError(
            f"{spec.name}: is fed by a stream; its DAG iceberg_sink__{spec.name} drains that, or "
            "hipslake.sink in foreachBatch"
        )
    window = _window_of(spec, interval)
    with (
        prefetching_rows(spec, window, spark),
        StepRunner(warehouse, "iceberg_sink", spec.name, spark=spark, told=told) as runner,
    ):
        runner.resolve(
            "resolve:sink",
            spec_file=os.fspath(spec_file),
            window=window,
            wait_minutes=0.0,
            force=force,
            allow_empty=allow_empty,
            discard_branch=discard_branch,
        )
        if isinstance(spec.source, FileRowsSpec):
            runner.perform("inputs:sink")
        orders = SinkRequest(run_uri=runner.folder.uri).orders()
        sink = runner.perform("sink") if orders.orders else None
        # Also where nothing is missing: a run before may have left something on the branch.
        audit = None if spec.branch is None else runner.perform("audit")
        published = sink if audit is None else audit
        clustering = None
        if spec.cluster_by and published is not None and published.snapshot_id is not None:
            from hipslake.specs.compaction_spec import CompactionSpec  # most sinks need nothing of it

            clustering = runner.perform(
                "compact_table", warehouse=runner.warehouse, spec=CompactionSpec.keeping(spec)
            )
        nothing = ""
        if published is None:
            nothing = orders.why_none
        elif published.snapshot_id is None:
            nothing = published.text if audit is not None else "The table has these rows already."
        return SinkRun(spec.table, runner.folder.uri, sink, audit, clustering, nothing)


def compact_by_spec(
    spec_file: Place,
    *,
    warehouse: Place | None = None,
    partitions: str | None = None,
    full: bool = False,
    dry_run: bool = False,
    spark: Any = None,
    told: Told | None = None,
) -> CompactTableReport:
    """Compact the table or folder that a spec names, as its DAG does.

    Parameters
    ----------
    spec_file : path
        Of a spec of type compaction.
    warehouse : str or Path, optional
        By default `${HIPSLAKE_WAREHOUSE}`.
    partitions : str, optional
        Which files, by their partition values; by default as the spec says.
    full, dry_run : bool
        As in the form of the DAG.
    spark, told : optional
        As for `sink_by_spec`.

    Raises
    ------
    HipslakeError
        As of `hipslake.steps.compact_table.run.run`.
    """
    from hipslake.specs.compaction_spec import CompactionSpec

    spec = load_spec(Path(spec_file), CompactionSpec)
    with StepRunner(warehouse, "table_compact", spec.name, spark=spark, told=told) as runner:
        runner.resolve(
            "resolve:compact_table",
            spec_file=os.fspath(spec_file),
            partitions=partitions,
            full=full,
            dry_run=dry_run,
        )
        report: CompactTableReport = runner.perform(
            "compact_table",
            warehouse=runner.warehouse,
            spec=spec.with_overrides(partitions=partitions),
            full=full,
            dry_run=dry_run,
        )
        return report


def _window_of(spec: TableSpec, interval: Any) -> Window:
    if interval is not None:
        if not spec.needs_interval:
            raise SpecError(f"{spec.name}: sinks all rows of its source; leave the interval out")
        return window_of_interval(interval)
    if spec.needs_interval and isinstance(spec.source, FileRowsSpec):
        raise SpecError(
            f"{spec.name}: sinks the files of an interval; give one: a date, a pair of times, or a Modified "
            "Julian Date"
        )
    return Window()
