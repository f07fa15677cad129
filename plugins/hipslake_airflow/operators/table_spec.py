"""First steps of runs that a table spec asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hipslake_airflow.hooks.iceberg import use_iceberg_connection
from hipslake_airflow.operators.step import FirstStepOperator

if TYPE_CHECKING:
    from hipslake.specs.table import TableSpec


class TableSpecOperator(FirstStepOperator):
    """Perform the first step of a run on a table.

    Parameters
    ----------
    spec_file : str
        Path of the table spec. Not templated.
    """

    def __init__(self, *, spec_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file

    def reach_table(self) -> TableSpec:
        """Read the spec, and let this process reach the Iceberg catalog that it names."""
        from hipslake.specs.yaml_file import load_table_spec

        spec = load_table_spec(self.spec_file)
        use_iceberg_connection(spec.iceberg)
        return spec
