"""The files of a table become fewer, or its rows are clustered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.spark_step import SparkStepOperator

if TYPE_CHECKING:
    from hipslake.steps.compact_table import CompactTableReport, CompactTableRequest
    from hipslake.steps.report import Report


class CompactTableOperator(SparkStepOperator):
    """Compact an Iceberg table, or a folder of Parquet files; in Spark, if many bytes are rewritten.

    Reads the params `partitions`, `full` and `dry_run`, all optional.

    Parameters
    ----------
    spec_file : str
        Path of the compaction's spec. Not templated.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    spark_above_bytes : int
        From this many bytes of files on, Spark rewrites them.
    """

    job = "compact_table"
    module = "hipslake.spark.table_compaction"
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        spec_file: str,
        warehouse: str = "${HIPSLAKE_WAREHOUSE}",
        spark_above_bytes: int = 256 << 20,
        **kwargs: Any,
    ) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse
        self._asked: dict[str, Any] = {}

    def request(self) -> CompactTableRequest:
        from hipslake.steps.compact_table import request_of

        return request_of(self.spec_file, **self._asked)

    def report_type(self) -> type[CompactTableReport]:
        from hipslake.steps.compact_table import CompactTableReport

        return CompactTableReport

    def bytes_to_handle(self) -> int:
        from hipslake.spark.table_compaction_planning import bytes_to_compact

        return bytes_to_compact(self.request())

    def outcome(self, context: Context) -> Report:
        use_iceberg_connection(self.request().spec.iceberg)
        report: CompactTableReport = super().outcome(context)  # type: ignore[assignment]
        self.log.info("%s", report.text)
        return report

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        from hipslake.specs.environment import expand
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        self._asked = {
            "run_uri": run_uri(warehouse, run.dag_id, run.run_id),
            "warehouse": warehouse,
            "partitions": params.get("partitions") or None,
            "full": bool(params.get("full", False)),
            "dry_run": bool(params.get("dry_run", False)),
        }
        return super().execute(context)
