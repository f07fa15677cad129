"""The step that takes old snapshots of a table away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from hipslake_airflow.operators.retention import RetentionOperator
from hipslake_airflow.operators.table_spec import TableSpecOperator

if TYPE_CHECKING:
    from hipslake.steps.upkeep.vacuum_table import VacuumTableReport


class VacuumTableOperator(TableSpecOperator, RetentionOperator):
    """Take old snapshots of a table away, and every file that no snapshot names any more.

    Params and what they mean are those of `RetentionOperator`; parameters are those of `SpecOperator`.
    """

    def perform(self, context: Context) -> VacuumTableReport:
        from hipslake.steps.report import perform
        from hipslake.steps.upkeep import vacuum_table

        spec = self.reach_table()
        request = vacuum_table.VacuumTableRequest(
            iceberg=spec.iceberg, table=spec.table, **self.asked(context)
        )
        report = perform(vacuum_table.run, request, vacuum_table.VacuumTableReport)
        self.log.info("%s", report.text)
        return report
