"""From rows to partitions: counted, planned, written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.ingest.histogram_request import HistogramReport, HistogramRequest
    from hipslake.steps.ingest.plan import PlanReport
    from hipslake.steps.ingest.write_request import WriteReport, WriteRequest


class HistogramCatalogOperator(SparkStepOperator):
    """Count rows and bytes per pixel; in Spark, unless there are few."""

    job = "histogram_catalog"
    module = "hipslake.steps.ingest.histogram"

    def request(self) -> HistogramRequest:
        from hipslake.steps.ingest.histogram_request import HistogramRequest

        return HistogramRequest(run_uri=self.run_uri)

    def report_type(self) -> type[HistogramReport]:
        from hipslake.steps.ingest.histogram_request import HistogramReport

        return HistogramReport


class PlanPixelsOperator(StepOperator):
    """Split the sky into leaves, for every column group on its own threshold."""

    def perform(self, context: Context) -> PlanReport:
        from hipslake.steps.ingest import plan
        from hipslake.steps.report import perform

        report = perform(plan.run, plan.PlanRequest(run_uri=self.run_uri), plan.PlanReport)
        self.log.info("The plan:\n%s", report.text)
        return report


class WritePartitionsOperator(SparkStepOperator):
    """Route every row to its leaf files and write them, in Spark."""

    job = "write_partitions"
    module = "hipslake.steps.ingest.write"

    def request(self) -> WriteRequest:
        from hipslake.steps.ingest.write_request import WriteRequest

        return WriteRequest(run_uri=self.run_uri)

    def report_type(self) -> type[WriteReport]:
        from hipslake.steps.ingest.write_request import WriteReport

        return WriteReport
