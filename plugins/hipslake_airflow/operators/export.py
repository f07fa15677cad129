"""Rows of a catalog leave it as one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hipslake_airflow.operators.spark_form import SparkFormOperator

if TYPE_CHECKING:
    from hipslake.steps.export.request import ExportReport, ExportRequest
    from hipslake.steps.report import Report


class ExportCatalogOperator(SparkFormOperator):
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
    module = "hipslake.steps.export.run"

    def request(self) -> ExportRequest:
        from hipslake.steps.export.request import ExportRequest

        return ExportRequest.model_validate(self.told)

    def report_type(self) -> type[ExportReport]:
        from hipslake.steps.export.request import ExportReport

        return ExportReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.export.request import bytes_to_export

        return bytes_to_export(self.request())

    def without_spark(self) -> Report:
        from hipslake.steps.export import request as export_request
        from hipslake.steps.report import perform

        return perform(export_request.run, self.request(), export_request.ExportReport)

    def asked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        optional = {name: params.get(name) or None for name in ("region", "columns", "filters", "format")}
        return {
            "catalog": params["catalog"],
            "version": params.get("version"),
            "output": params["output"],
            "overwrite": bool(params.get("overwrite", False)),
            **optional,
        }
