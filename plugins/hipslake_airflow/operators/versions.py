"""What is done to the versions of a catalog: they are verified, published, brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.publishing import PublishingOperator
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.ingest.publish import PublishReport
    from hipslake.steps.upkeep.rollback_catalog import RollbackReport
    from hipslake.steps.upkeep.verify import VerifyReport, VerifyRequest


class VerifyCatalogOperator(SparkStepOperator):
    """Read back everything that a run wrote, or a published version, and check it.

    Small catalogs are verified in the task's own process, which is quicker than starting Spark.

    Parameters
    ----------
    catalog_uri : str, optional
        Root of a published catalog; None: verify what the run wrote and is about to publish.
    version : int, optional
        The published version; None: the newest.
    spark_above_bytes : int
        From this many bytes on, Spark does it.
    """

    job = "verify_catalog"
    module = "hipslake.steps.upkeep.verify"

    def __init__(
        self,
        *,
        catalog_uri: str | None = None,
        version: int | None = None,
        spark_above_bytes: int = 4 << 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.catalog_uri = catalog_uri
        self.version = version

    def request(self) -> VerifyRequest:
        from hipslake.steps.upkeep.verify import VerifyRequest

        return VerifyRequest(run_uri=self.run_uri, catalog_uri=self.catalog_uri, version=self.version)

    def report_type(self) -> type[VerifyReport]:
        from hipslake.steps.upkeep.verify import VerifyReport

        return VerifyReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.upkeep.verify import bytes_to_read

        return bytes_to_read(self.request())


class PublishCatalogOperator(PublishingOperator, StepOperator):
    """Commit what the run wrote as the catalog's next version, and emit its asset event."""

    def perform(self, context: Context) -> PublishReport:
        from hipslake.steps.ingest import publish
        from hipslake.steps.report import perform

        report = perform(publish.run, publish.PublishRequest(run_uri=self.run_uri), publish.PublishReport)
        self.announce(context, rows=report.rows_out, version=report.version, uri=report.catalog_uri)
        self.log.info("Published version %s of %s", report.version, report.catalog_uri)
        return report


class RollbackCatalogOperator(PublishingOperator, StepOperator):
    """Publish the content of an older version as the newest one, and emit the catalog's asset event.

    The version is the param `version`.
    """

    def perform(self, context: Context) -> RollbackReport:
        from hipslake.steps.report import perform
        from hipslake.steps.upkeep import rollback_catalog

        version = int(context["params"]["version"])
        request = rollback_catalog.RollbackRequest(run_uri=self.run_uri, version=version)
        report = perform(rollback_catalog.run, request, rollback_catalog.RollbackReport)
        self.announce(context, rows=report.rows_out, version=report.version, uri=report.catalog_uri)
        self.log.info("Version %s of %s is version %s again", report.version, report.catalog_uri, version)
        return report
