"""The step that takes old snapshots of a table away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.step import FirstStepOperator

if TYPE_CHECKING:
    from hipslake.steps.vacuum_table import VacuumTableReport


class VacuumTableOperator(FirstStepOperator):
    """Take old snapshots of a table away, and every file that no snapshot names any more.

    Reads the params `keep_versions`, `keep_days` and `dry_run`. A run that the schedule started deletes: who
    wrote the schedule into the spec has decided. One that was started by hand asks its form.

    Parameters
    ----------
    spec_file : str
        Path of the table spec. Not templated.
    """

    def __init__(self, *, spec_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file

    def perform(self, context: Context) -> VacuumTableReport:
        from hipslake.specs.yaml_file import load_table_spec
        from hipslake.steps import vacuum_table
        from hipslake.steps.report import perform

        spec = load_table_spec(self.spec_file)
        use_iceberg_connection(spec.iceberg)
        params: Mapping[str, Any] = context["params"]
        warehouse, run_uri = self.place(context)
        request = vacuum_table.VacuumTableRequest(
            run_uri=run_uri,
            warehouse=warehouse,
            iceberg=spec.iceberg,
            table=spec.table,
            keep_versions=int(params["keep_versions"]),
            keep_days=float(params["keep_days"]),
            dry_run=bool(params["dry_run"]) and context["dag_run"].run_type != "scheduled",
        )
        report = perform(vacuum_table.run, request, vacuum_table.VacuumTableReport)
        self.log.info("%s", report.text)
        return report
