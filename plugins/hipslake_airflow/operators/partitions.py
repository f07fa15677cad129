"""From rows to partitions: counted, planned, written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.histogram import HistogramReport, HistogramRequest
    from hipslake.steps.plan import PlanReport
    from hipslake.steps.write import WriteReport, WriteRequest


class HistogramCatalogOperator(SparkStepOperator):
    """Count rows and bytes per pixel; in Spark, unless there are few."""

    job = "histogram_catalog"
    module = "hipslake.spark.histogram"

    def request(self) -> HistogramRequest:
        from hipslake.steps.histogram import HistogramRequest

        return HistogramRequest(run_uri=self.run_uri)

    def report_type(self) -> type[HistogramReport]:
        from hipslake.steps.histogram import HistogramReport

        return HistogramReport


class PlanPixelsOperator(StepOperator):
    """Split the sky into leaves, for every column group on its own threshold."""

    def perform(self, context: Context) -> PlanReport:
        from hipslake.steps import plan
        from hipslake.steps.report import perform

        report = perform(plan.run, plan.PlanRequest(run_uri=self.run_uri), plan.PlanReport)
        self.log.info("The plan:\n%s", report.text)
        return report


class WritePartitionsOperator(SparkStepOperator):
    """Route every row to its leaf files and write them, in Spark."""

    job = "write_partitions"
    module = "hipslake.spark.partitions"

    def request(self) -> WriteRequest:
        from hipslake.steps.write import WriteRequest

        return WriteRequest(run_uri=self.run_uri)

    def report_type(self) -> type[WriteReport]:
        from hipslake.steps.write import WriteReport

        return WriteReport
