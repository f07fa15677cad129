"""Rows of a cube leave it as a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.spark_form import SparkFormOperator

if TYPE_CHECKING:
    from hipslake.steps.cube.query_request import CubeQueryReport, CubeQueryRequest

_OPTIONAL = ("version", "columns", "conditions", "partition_by", "dimension_columns", "datasets", "format")


class QueryCubeOperator(SparkFormOperator):
    """Write the outcome of a query of a cube to a new folder; in Spark, if much has to be read.

    Reads the params `cube`, `version`, `columns`, `conditions`, `partition_by`, `dimension_columns`,
    `datasets`, `format` and `output`.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    spark_above_bytes : int
        From this many bytes of files on that the plan leaves, Spark reads them.
    """

    job = "query_cube"
    module = "hipslake.steps.cube.query_cube"

    def request(self) -> CubeQueryRequest:
        from hipslake.steps.cube.query_request import CubeQueryRequest

        return CubeQueryRequest.model_validate(self.told)

    def report_type(self) -> type[CubeQueryReport]:
        from hipslake.steps.cube.query_request import CubeQueryReport

        return CubeQueryReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.cube.query_cube import bytes_to_read

        return bytes_to_read(self.request())

    def outcome(self, context: Context) -> CubeQueryReport:
        report: CubeQueryReport = super().outcome(context)  # type: ignore[assignment]
        self.log.info("%s", report.text)
        for each in report.fates:
            self.log.info("%d partitions: %s", each.partitions, each.fate)
        return report

    def asked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "cube": params["cube"],
            "output": params["output"],
            **{name: params[name] for name in _OPTIONAL if params.get(name)},
        }
