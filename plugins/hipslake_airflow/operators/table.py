"""The steps on tables: rows are sunk into Iceberg tables, tables are compacted, old snapshots go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hipslake_airflow.assets import table_asset
from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.catalog import RetentionOperator
from hipslake_airflow.operators.reporting import ReportingMixin
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import ResolveOperator, SpecOperator, StepOperator
from hipslake_airflow.operators.window import wait_of, window_of

COMPACTION = "compact"
"""In the run folder of a stream: that of the compaction which follows."""

if TYPE_CHECKING:
    from hipslake.specs.table_spec import TableSpec
    from hipslake.steps.sink.request import FrozenSink


def _spec_with_connection(spec_file: str) -> TableSpec:
    """Read a spec of a table, and let this process reach the Iceberg catalog that it names."""
    from hipslake.specs.spec_folder import load_spec
    from hipslake.specs.table_spec import TableSpec

    spec = load_spec(spec_file, TableSpec)
    use_iceberg_connection(spec.iceberg)
    return spec


def _run_with_connection(run_uri: str) -> FrozenSink:
    """Read what a run of a sink froze, and let this process reach the Iceberg catalog that it names."""
    from hipslake.steps.sink.request import SinkRequest

    frozen = SinkRequest(run_uri=run_uri).frozen()
    use_iceberg_connection(frozen.spec.iceberg)
    return frozen


def _named_table(spec: TableSpec) -> dict[str, Any]:
    """The fields of a request that say which table it is of."""
    return {name: getattr(spec, name) for name in ("format", "iceberg", "delta", "table")}


class ResolveSinkOperator(ResolveOperator):
    """Freeze the spec, the params, the window and what the table lacks into the run folder.

    Reads these params, all optional: `force`, `allow_empty`, `wait_minutes`, `window_start`, `window_end`,
    `discard_branch`.
    Parameters and what it pushes are those of `ResolveOperator`.
    """

    step = "resolve:sink"

    def request_fields(self, context: Context) -> dict[str, Any]:
        spec, params = _spec_with_connection(self.spec_file), context["params"]
        window, by_hand = window_of(context), context["dag_run"].run_type == "manual"
        if spec.takes_what_is_missing and by_hand and window.origin == "data_interval":
            # Nobody asked for it: Airflow gives such a run the last interval that ended.
            window = type(window)()
        return {
            "window": window,
            "wait_minutes": wait_of(params),
            "allow_empty": bool(params.get("allow_empty", False)),
            "force": bool(params.get("force", False)),
            "discard_branch": bool(params.get("discard_branch", False)),
        }


class FreezeSinkFilesOperator(StepOperator):
    """List the files that a run sinks."""

    step = "inputs:sink"

    def request_fields(self, context: Context) -> dict[str, Any]:
        _run_with_connection(self.run_uri)
        return {}


class TableEventOperator(ReportingMixin):
    """Emit the asset event of a table, whose extra says `rows`, `snapshot_id`, `table` and `uri`.

    A mixin: its subclasses name it before the operator that runs the step. `rows_told` is the field of the
    report that says how many rows came, or went.

    Parameters
    ----------
    table : str
        The name of the spec; its asset becomes an outlet of the task.
    publishes : bool
        Whether readers see what the task does at once; else another task has the outlet.
    """

    rows_told = "rows_out"

    def __init__(self, *, table: str, publishes: bool = True, **kwargs: Any) -> None:
        asset = table_asset(table)
        outlets = [asset] if publishes else []
        super().__init__(outlets=[*outlets, *kwargs.pop("outlets", [])], **kwargs)
        self.asset = asset
        self.publishes = publishes

    def finish(self, context: Context, report: Any) -> None:
        if report.snapshot_id is not None and self.publishes:
            context["outlet_events"][self.asset].extra = {
                "rows": getattr(report, self.rows_told),
                "snapshot_id": report.snapshot_id,
                "table": report.table,
                "uri": report.location,
            }


class IcebergSinkOperator(TableEventOperator, SparkStepOperator):
    """Sink the rows of a run into its table, and emit the table's asset event; in Spark, if there are many.

    Where intervals were refused and others are in the table, the task goes well, so that consumers hear of
    those; a `ConfirmSinkOperator` tells of the others. Skips the task if the table has all the rows already.
    Parameters are those of `TableEventOperator`; where rows go to a branch first, the outlet is an
    `AuditBranchOperator`'s.
    """

    step = "sink"
    rows_told = "rows_in_table"

    def prepare(self, context: Context) -> None:
        from hipslake.steps.sink.request import SinkRequest

        orders = SinkRequest(run_uri=self.run_uri).orders()
        if not orders.orders:
            raise AirflowSkipException(orders.why_none)
        _run_with_connection(self.run_uri)

    def bytes_to_handle(self, request: Any, limit: int) -> int:
        from hipslake.steps.sink.sink_size import bytes_to_sink

        return bytes_to_sink(request, limit)

    def skip_reason(self, report: Any) -> str | None:
        return None if report.snapshot_id is not None else f"Table {report.table} has these rows already."


class AuditBranchOperator(TableEventOperator, StepOperator):
    """Hold what sinks have left on a branch to the spec; publish it, and emit the table's asset event.

    Fails if a check is not passed, and is skipped where nothing is on the branch. Parameters are those of
    `TableEventOperator`.
    """

    step = "audit"

    def request_fields(self, context: Context) -> dict[str, Any]:
        _run_with_connection(self.run_uri)
        return {}

    def skip_reason(self, report: Any) -> str | None:
        return None if report.snapshot_id is not None else report.text


class ConfirmSinkOperator(InRunFolder, BaseOperator):
    """Fail if an interval of the run was refused: the others are in the table, and their event is out.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `pushed_run_uri()`. Templated, and no other than the run's own.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ("run_uri",)
    ui_color = StepOperator.ui_color

    def __init__(self, *, run_uri: Any = "", warehouse: str = WAREHOUSE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.warehouse = warehouse

    def execute(self, context: Context) -> None:
        """Read the report of the sink."""
        from hipslake.steps.run import RunFolder
        from hipslake.steps.sink.request import SinkReport, SinkRequest, describe_refused

        use_storage_connection()
        report = RunFolder(self.run_uri).read(RunFolder.report_path(SinkRequest.step), SinkReport)
        if report.refused:
            raise AirflowFailException(describe_refused(report.intervals, report.refused))


class DrainStreamOperator(TableEventOperator, SparkStepOperator):
    """Sink all that has come into a stream since the last run, and emit the table's asset event.

    Skips the task if no rows came. It always runs in Spark, whose Structured Streaming knows which files have
    come. Parameters are those of `TableEventOperator`.
    """

    step = "drain"
    in_standing_session = False  # Spark calls the driver back for each batch

    def prepare(self, context: Context) -> None:
        _run_with_connection(self.run_uri)

    def skip_reason(self, report: Any) -> str | None:
        return None if report.batches or report.found else "No rows have come since the last run."


class ResolveCompactionOperator(ResolveOperator):
    """Freeze the spec and the params of a compaction into the run folder.

    Reads the params `partitions`, `full` and `dry_run`, all optional. Parameters and what it pushes are those
    of `ResolveOperator`.
    """

    step = "resolve:compact_table"

    def request_fields(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        return {
            "partitions": (params.get("partitions") or "").strip() or None,
            "full": bool(params.get("full", False)),
            "dry_run": bool(params.get("dry_run", False)),
        }


class CompactTableOperator(SparkStepOperator):
    """Compact an Iceberg table, or a folder of Parquet files; in Spark, if many bytes are rewritten."""

    step = "compact_table"

    def request_fields(self, context: Context) -> dict[str, Any]:
        from hipslake.steps.compact_table.request import FrozenCompaction
        from hipslake.steps.run import RunFolder

        frozen = RunFolder(self.run_uri).read(RunFolder.RUN, FrozenCompaction)
        use_iceberg_connection(frozen.spec.iceberg)
        return {name: getattr(frozen, name) for name in ("warehouse", "spec", "full", "dry_run")}


class KeepClusteredOperator(SparkStepOperator):
    """Rewrite files of the table of a sink that queries open too often; in Spark, if these are many bytes."""

    step = "compact_table"

    def request_fields(self, context: Context) -> dict[str, Any]:
        from hipslake.specs.compaction_spec import CompactionSpec

        frozen = _run_with_connection(self.run_uri)
        return {"warehouse": frozen.warehouse, "spec": CompactionSpec.keeping(frozen.spec)}


class DeleteTableRowsOperator(TableEventOperator, SpecOperator):
    """Delete rows of a table, and emit its asset event; skipped where there are none.

    Reads the params `keys`, `keys_file`, `filters`, `key`, `max_fraction` and `force`. Parameters are those
    of `TableEventOperator` and `SpecOperator`.
    """

    step = "delete_table"
    rows_told = "deleted"

    def request_fields(self, context: Context) -> dict[str, Any]:
        spec, params = _spec_with_connection(self.spec_file), context["params"]
        chosen = {name: params.get(name) or None for name in ("keys", "keys_file", "filters")}
        return {
            **chosen,
            **_named_table(spec),
            "key": spec.key or tuple(params.get("key") or ()),
            "write": spec.write,
            "max_fraction": float(params["max_fraction"]),
            "force": bool(params["force"]),
        }

    def skip_reason(self, report: Any) -> str | None:
        return None if report.snapshot_id is not None else "No row is left to delete."


class EvolveTableOperator(SpecOperator):
    """Change a table so that its spec and its rows fit to it, or say what would be changed.

    Reads the params `dry_run`, `window_start` and `window_end`. Parameters are those of `SpecOperator`.
    """

    step = "evolve_table"

    def request_fields(self, context: Context) -> dict[str, Any]:
        spec, params = _spec_with_connection(self.spec_file), context["params"]
        window = {"window": window_of(context)} if spec.needs_interval else {}
        return {**window, "spec_file": self.spec_file, "dry_run": bool(params["dry_run"])}

    def skip_reason(self, report: Any) -> str | None:
        return None if report.changes or report.dry_run else report.text


class VacuumTableOperator(SpecOperator, RetentionOperator):
    """Take old snapshots of a table away, and every file that no snapshot names any more.

    Params and what they mean are those of `RetentionOperator`, and `orphan_days`, which is optional;
    parameters are those of `SpecOperator`.
    """

    step = "vacuum_table"

    def request_fields(self, context: Context) -> dict[str, Any]:
        spec = _spec_with_connection(self.spec_file)
        days = context["params"].get("orphan_days")
        return super().request_fields(context) | {
            **_named_table(spec),
            "orphan_days": None if days is None else float(days),
        }
