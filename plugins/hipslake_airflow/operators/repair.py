"""What is published of a catalog is verified, and what can be derived of it is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.step import FirstStepOperator
from hipslake_airflow.operators.versions import VerifyCatalogOperator

if TYPE_CHECKING:
    from hipslake.steps.upkeep.repair import RepairReport
    from hipslake.steps.upkeep.verify import VerifyRequest


class VerifyPublishedOperator(VerifyCatalogOperator):
    """Read the newest version of the run's catalog back, and what names it; or every version, and the log.

    Reads the param `all_versions`. The task fails if anything is wrong: its log says what, whether readers
    are affected, and what mends it. Parameters are those of `SparkStepOperator`.
    """

    all_versions = False

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        self.all_versions = bool(context["params"]["all_versions"])
        return super().execute(context)

    def request(self) -> VerifyRequest:
        from hipslake.steps.run import RunFolder
        from hipslake.steps.upkeep.verify import VerifyRequest

        catalog_uri = RunFolder(self.run_uri).run().catalog_uri
        return VerifyRequest(run_uri=self.run_uri, catalog_uri=catalog_uri, all_versions=self.all_versions)


class RepairCatalogOperator(FirstStepOperator):
    """Write anew what other files of a catalog say; leaf files and older versions are never touched.

    Reads the param `dry_run`.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def perform(self, context: Context) -> RepairReport:
        from hipslake.steps.report import perform
        from hipslake.steps.upkeep import repair

        warehouse, run_uri = self.place(context)
        dry_run = bool(context["params"]["dry_run"])
        request = repair.RepairRequest(
            run_uri=run_uri, warehouse=warehouse, catalog=self.catalog, dry_run=dry_run
        )
        report = perform(repair.run, request, repair.RepairReport)
        self.log.info("The repair:\n%s", report.text)
        return report
