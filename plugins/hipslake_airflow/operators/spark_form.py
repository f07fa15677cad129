"""A run of one step that a form asks for: in Spark, if there is much to read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from hipslake_airflow.operators.run_folder import WAREHOUSE, place_of_run
from hipslake_airflow.operators.spark_step import SparkStepOperator


class SparkFormOperator(SparkStepOperator):
    """Perform the only step of a run; what it is told are the run's params.

    Parameters
    ----------
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    spark_above_bytes : int
        From this many bytes of files on, Spark reads them.
    """

    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        warehouse: str = WAREHOUSE,
        spark_above_bytes: int = 2 << 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(warehouse=warehouse, spark_above_bytes=spark_above_bytes, **kwargs)
        self.told: dict[str, Any] = {}

    @abstractmethod
    def asked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the request holds besides the place of the run."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        warehouse, run_uri = place_of_run(self.warehouse, context)
        self.told = {"run_uri": run_uri, "warehouse": warehouse, **self.asked(context["params"])}
        return super().execute(context)
