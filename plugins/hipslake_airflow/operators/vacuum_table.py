"""The step that takes old snapshots of a table away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.retention import RetentionOperator

if TYPE_CHECKING:
    from hipslake.steps.vacuum_table import VacuumTableReport


class VacuumTableOperator(RetentionOperator):
    """Take old snapshots of a table away, and every file that no snapshot names any more.

    Params and what they mean are those of `RetentionOperator`.

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
        request = vacuum_table.VacuumTableRequest(
            iceberg=spec.iceberg, table=spec.table, **self.asked(context)
        )
        report = perform(vacuum_table.run, request, vacuum_table.VacuumTableReport)
        self.log.info("%s", report.text)
        return report
