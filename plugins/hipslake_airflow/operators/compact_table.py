"""The files of a table become fewer, or its rows are clustered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import SpecOperator

if TYPE_CHECKING:
    from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest
    from hipslake.steps.compact_table.resolve_compaction import ResolveCompactionReport
    from hipslake.steps.report import Report


class ResolveCompactionOperator(SpecOperator):
    """Freeze the spec and the params of a compaction into the run folder.

    Pushes `run_uri`, which the next step takes. Reads the params `partitions`, `full` and `dry_run`, all
    optional. Parameters are those of `SpecOperator`.
    """

    def perform(self, context: Context) -> ResolveCompactionReport:
        from hipslake.steps.compact_table import resolve_compaction
        from hipslake.steps.report import perform

        params: Mapping[str, Any] = context["params"]
        request = resolve_compaction.ResolveCompactionRequest(
            **self.told(context),
            partitions=(params.get("partitions") or "").strip() or None,
            full=bool(params.get("full", False)),
            dry_run=bool(params.get("dry_run", False)),
        )
        report = perform(resolve_compaction.run, request, resolve_compaction.ResolveCompactionReport)
        self.push_run(context)
        return report


class CompactTableOperator(SparkStepOperator):
    """Compact an Iceberg table, or a folder of Parquet files; in Spark, if many bytes are rewritten."""

    job = "compact_table"
    module = "hipslake.steps.compact_table.run"

    def request(self) -> CompactTableRequest:
        from hipslake.steps.compact_table.resolve_compaction import FrozenCompaction
        from hipslake.steps.run import RunFolder

        return RunFolder(self.run_uri).read(RunFolder.RUN, FrozenCompaction).request()

    def report_type(self) -> type[CompactTableReport]:
        from hipslake.steps.compact_table.request import CompactTableReport

        return CompactTableReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.compact_table.rewrite_plan import bytes_to_compact

        return bytes_to_compact(self.request())

    def outcome(self, context: Context) -> Report:
        use_iceberg_connection(self.request().spec.iceberg)
        report: CompactTableReport = super().outcome(context)  # type: ignore[assignment]
        self.log.info("%s", report.text)
        return report
