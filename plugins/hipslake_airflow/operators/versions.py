"""What is done to the versions of a catalog: an older one comes back, old ones go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.operators.publishing import PublishingOperator
from hipslake_airflow.operators.step import FirstStepOperator, StepOperator

if TYPE_CHECKING:
    from hipslake.steps.rollback import RollbackReport
    from hipslake.steps.vacuum import VacuumReport


class RollbackCatalogOperator(PublishingOperator, StepOperator):
    """Publish the content of an older version as the newest one, and emit the catalog's asset event.

    The version is the param `version`.
    """

    def perform(self, context: Context) -> RollbackReport:
        from hipslake.steps import rollback
        from hipslake.steps.report import perform

        version = int(context["params"]["version"])
        request = rollback.RollbackRequest(run_uri=self.run_uri, version=version)
        report = perform(rollback.run, request, rollback.RollbackReport)
        self.announce(context, rows=report.rows_out, version=report.version, uri=report.catalog_uri)
        self.log.info("Version %s of %s is version %s again", report.version, report.catalog_uri, version)
        return report


class VacuumCatalogOperator(FirstStepOperator):
    """Take old versions away, and every file that no version needs any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog

    def perform(self, context: Context) -> VacuumReport:
        from hipslake.steps import vacuum
        from hipslake.steps.report import perform

        params: Mapping[str, Any] = context["params"]
        warehouse, run_uri = self.place(context)
        request = vacuum.VacuumRequest(
            run_uri=run_uri,
            warehouse=warehouse,
            catalog=self.catalog,
            keep_versions=int(params["keep_versions"]),
            keep_days=float(params["keep_days"]),
            dry_run=bool(params["dry_run"]) and context["dag_run"].run_type != "scheduled",
        )
        report = perform(vacuum.run, request, vacuum.VacuumReport)
        self.log.info("The vacuum:\n%s", report.text)
        return report
