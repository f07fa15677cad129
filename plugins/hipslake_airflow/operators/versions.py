"""What is done to the versions of a catalog: an older one comes back, old ones go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.operators.catalog import announce
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from hipslake.steps.rollback import RollbackReport
    from hipslake.steps.vacuum import VacuumReport


class RollbackCatalogOperator(StepOperator):
    """Publish the content of an older version as the newest one, and emit the catalog's asset event.

    The version is the param `version`. The event's extra says `rows`, `version` and `uri`.

    Parameters
    ----------
    catalog : str
        The catalog's name; its asset becomes an outlet of the task.
    """

    def __init__(self, *, catalog: str, **kwargs: Any) -> None:
        self.asset = catalog_asset(catalog)
        super().__init__(outlets=[self.asset, *kwargs.pop("outlets", [])], **kwargs)

    def perform(self, context: Context) -> RollbackReport:
        from hipslake.steps import rollback
        from hipslake.steps.report import perform

        version = int(context["params"]["version"])
        request = rollback.RollbackRequest(run_uri=self.run_uri, version=version)
        report = perform(rollback.run, request, rollback.RollbackReport)
        if report.version is None:
            raise AirflowFailException("rollback left no version")
        announce(context, self.asset, report.rows_out, report.version, report.catalog_uri)
        self.log.info("Version %s of %s is version %s again", report.version, report.catalog_uri, version)
        return report


class VacuumCatalogOperator(StepOperator):
    """Take old versions away, and every file that no version needs any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.

    Parameters
    ----------
    catalog : str
        The catalog's name.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, catalog: str, warehouse: str = "${HIPSLAKE_WAREHOUSE}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog
        self.warehouse = warehouse

    def perform(self, context: Context) -> VacuumReport:
        from hipslake.specs.environment import expand
        from hipslake.steps import vacuum
        from hipslake.steps.report import perform
        from hipslake.steps.run import run_uri

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse = expand(self.warehouse)
        request = vacuum.VacuumRequest(
            run_uri=run_uri(warehouse, run.dag_id, run.run_id),
            warehouse=warehouse,
            catalog=self.catalog,
            keep_versions=int(params["keep_versions"]),
            keep_days=float(params["keep_days"]),
            dry_run=bool(params["dry_run"]) and run.run_type != "scheduled",
        )
        report = perform(vacuum.run, request, vacuum.VacuumReport)
        self.log.info("The vacuum:\n%s", report.text)
        return report
