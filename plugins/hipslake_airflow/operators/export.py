"""Rows of a catalog leave it as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.spark_step import SparkStepOperator

if TYPE_CHECKING:
    from hipslake.steps.export import ExportReport, ExportRequest
    from hipslake.steps.report import Report


class ExportCatalogOperator(SparkStepOperator):
    """Write rows of a catalog to one Parquet, CSV or FITS file; in Spark, if many have to be read.

    Reads the params `catalog`, `version`, `region`, `columns`, `filters`, `format`, `output` and `overwrite`.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    spark_above_bytes : int
        From this many bytes of leaf files on, Spark reads them.
    """

    job = "export_catalog"
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        warehouse: str = "${HIPSLAKE_WAREHOUSE}",
        spark_above_bytes: int = 2 << 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.warehouse = warehouse
        self._asked: dict[str, Any] = {}

    def request(self) -> ExportRequest:
        from hipslake.steps.export import ExportRequest

        return ExportRequest.model_validate(self._asked)

    def report_type(self) -> type[ExportReport]:
        from hipslake.steps.export import ExportReport

        return ExportReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.export import bytes_to_export

        return bytes_to_export(self.request())

    def without_spark(self) -> Report:
        from hipslake.steps import export
        from hipslake.steps.report import perform

        return perform(export.run, self.request(), export.ExportReport)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        from hipslake.specs.environment import expand
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        self._asked = {
            "run_uri": run_uri(warehouse, run.dag_id, run.run_id),
            "warehouse": warehouse,
            "catalog": params["catalog"],
            "version": params.get("version"),
            "region": params.get("region") or None,
            "columns": params.get("columns") or None,
            "filters": params.get("filters") or None,
            "format": params.get("format") or None,
            "output": params["output"],
            "overwrite": bool(params.get("overwrite", False)),
        }
        return super().execute(context)
