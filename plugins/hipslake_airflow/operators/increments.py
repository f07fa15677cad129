"""Rows that come to a version, and the small files that they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.publishing import PublishingOperator
from hipslake_airflow.operators.spark_step import SparkStepOperator

if TYPE_CHECKING:
    from hipslake.steps.append.request import AppendReport, AppendRequest
    from hipslake.steps.compact.request import CompactReport, CompactRequest


class AppendIncrementOperator(PublishingOperator, SparkStepOperator):
    """Merge the rows of a run into the newest version, commit the next one, and emit its asset event."""

    job = "append_increment"
    module = "hipslake.steps.append.run"

    def request(self) -> AppendRequest:
        from hipslake.steps.append.request import AppendRequest

        return AppendRequest(run_uri=self.run_uri)

    def report_type(self) -> type[AppendReport]:
        from hipslake.steps.append.request import AppendReport

        return AppendReport

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException("No row has come, and nothing is published yet.")
        rows, version = summary["total_rows"], summary["version"]
        self.announce(context, rows=rows, version=version, uri=summary["catalog_uri"])
        return summary


class CompactCatalogOperator(SparkStepOperator):
    """Give leaves that have gathered many files one sorted file each; reads the param `min_files`.

    Skips the task if there are none. The rows stay what they are, so no asset event is emitted.
    """

    job = "compact_catalog"
    module = "hipslake.steps.compact.run"
    _min_files = 2

    def request(self) -> CompactRequest:
        from hipslake.steps.compact.request import CompactRequest

        return CompactRequest(run_uri=self.run_uri, min_files=self._min_files)

    def report_type(self) -> type[CompactReport]:
        from hipslake.steps.compact.request import CompactReport

        return CompactReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.compact.request import bytes_to_compact

        return bytes_to_compact(self.request())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        self._min_files = int(context["params"].get("min_files", 2))
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException(f"No leaf has {self._min_files} files.")
        return summary
