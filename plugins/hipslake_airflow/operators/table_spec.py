"""First steps of runs that a table spec asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.step import SpecOperator

if TYPE_CHECKING:
    from hipslake.specs.table_spec import TableSpec


class TableSpecOperator(SpecOperator):
    """Perform the first step of a run on a table. Parameters are those of `SpecOperator`."""

    def reach_table(self) -> TableSpec:
        """Read the spec, and let this process reach the Iceberg catalog that it names."""
        from hipslake.specs.yaml_file import load_table_spec

        spec = load_table_spec(self.spec_file)
        use_iceberg_connection(spec.iceberg)
        return spec
