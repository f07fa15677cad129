"""The steps that bring rows into Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hipslake_airflow.assets import table_asset
from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator
from hipslake_airflow.operators.table_spec import TableSpecOperator
from hipslake_airflow.operators.window import wait_of, window_of

if TYPE_CHECKING:
    from hipslake.steps.sink.request import SinkReport, SinkRequest
    from hipslake.steps.sink.resolve_sink import ResolveSinkReport
    from hipslake.steps.sink.sink_files import SinkFilesReport


class ResolveSinkOperator(TableSpecOperator):
    """Freeze the spec, the params, the window and what the table lacks into the run folder.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `force`, `allow_empty`,
    `wait_minutes`, `window_start`, `window_end`. Parameters are those of `SpecOperator`.
    """

    def perform(self, context: Context) -> ResolveSinkReport:
        from hipslake.steps.report import perform
        from hipslake.steps.sink import resolve_sink

        spec = self.reach_table()
        params: Mapping[str, Any] = context["params"]
        window, by_hand = window_of(context), context["dag_run"].run_type == "manual"
        if spec.takes_what_is_missing and by_hand and window.origin == "data_interval":
            # Nobody asked for it: Airflow gives such a run the last interval that ended.
            window = type(window)()
        request = resolve_sink.ResolveSinkRequest(
            **self.told(context),
            window=window,
            wait_minutes=wait_of(params),
            allow_empty=bool(params.get("allow_empty", False)),
            force=bool(params.get("force", False)),
        )
        report = perform(resolve_sink.run, request, resolve_sink.ResolveSinkReport)
        self.push_run(context)
        for path in report.swept:
            self.log.info("Removed %s of the table, left behind by a write that died.", path)
        return report


class FreezeSinkFilesOperator(StepOperator):
    """List the files that a run sinks."""

    def perform(self, context: Context) -> SinkFilesReport:
        from hipslake.steps.report import perform
        from hipslake.steps.sink import sink_files
        from hipslake.steps.sink.request import SinkRequest

        use_iceberg_connection(SinkRequest(run_uri=self.run_uri).frozen().spec.iceberg)
        request = sink_files.SinkFilesRequest(run_uri=self.run_uri)
        return perform(sink_files.run, request, sink_files.SinkFilesReport)


class IcebergSinkOperator(SparkStepOperator):
    """Sink the rows of a run into its table, and emit the table's asset event; in Spark, if there are many.

    The event's extra says `rows` (that were sunk), `snapshot_id`, `table` and `uri`. Where intervals were
    refused and others are in the table, the task goes well, so that consumers hear of those; a
    `ConfirmSinkOperator` tells of the others. Skips the task if the table has all the rows already.

    Parameters
    ----------
    table : str
        The name of the spec; its asset becomes an outlet of the task.
    """

    job = "sink_iceberg"
    module = "hipslake.steps.sink.run"

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        asset = table_asset(table)
        super().__init__(outlets=[asset, *kwargs.pop("outlets", [])], **kwargs)
        self.asset = asset

    def request(self) -> SinkRequest:
        from hipslake.steps.sink.request import SinkRequest

        return SinkRequest(run_uri=self.run_uri)

    def report_type(self) -> type[SinkReport]:
        from hipslake.steps.sink.request import SinkReport

        return SinkReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.sink.sink_size import bytes_to_sink

        return bytes_to_sink(self.request().orders(), self.spark_above_bytes)

    def outcome(self, context: Context) -> SinkReport:
        report: SinkReport = super().outcome(context)  # type: ignore[assignment]
        self.log.info("The sink into %s:\n%s", report.table, report.text)
        return report

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        use_storage_connection()
        orders = self.request().orders()
        if not orders.orders:
            raise AirflowSkipException(orders.why_none)
        use_iceberg_connection(self.request().frozen().spec.iceberg)
        summary = super().execute(context)
        if summary["snapshot_id"] is None:
            raise AirflowSkipException(f"Table {summary['table']} has these rows already.")
        context["outlet_events"][self.asset].extra = {
            "rows": summary["rows_in_table"],
            "snapshot_id": summary["snapshot_id"],
            "table": summary["table"],
            "uri": summary["location"],
        }
        return summary


class ConfirmSinkOperator(InRunFolder, BaseOperator):
    """Fail if an interval of the run was refused: the others are in the table, and their event is out.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `resolve.output["run_uri"]`. Templated, and no other than the run's own.
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
        """Look what the sink has said."""
        from hipslake.steps.run import RunFolder
        from hipslake.steps.sink.request import SinkReport, SinkRequest, told_of_refused

        use_storage_connection()
        report = RunFolder(self.run_uri).read(RunFolder.report_path(SinkRequest.step), SinkReport)
        if report.refused:
            raise AirflowFailException(told_of_refused(report.intervals, report.refused))
