"""Wait until files have come into a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.dags_test import told_at_the_end
from hipslake_airflow.failures import failure_to_raise
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.new_files import files_have_come
from hipslake_airflow.operators.run_folder import WAREHOUSE
from hipslake_airflow.operators.window import wait_of
from hipslake_airflow.sensors.source_files import GRACE
from hipslake_airflow.triggers.stream_files import StreamFilesTrigger


class StreamFilesSensor(BaseSensorOperator):
    """Wait, without holding a worker slot, until files have come since the last run of a stream.

    How long it waits is the param `wait_minutes`; when that is over, the task is skipped. Nothing is waited
    for where the param `force` is set.

    Parameters
    ----------
    spec_file : str
        The spec.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    poke_interval : float or timedelta
        Time between two looks, in seconds.
    deferrable : bool
        Wait in the triggerer; False: look once, and skip where nothing is new.
    """

    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        spec_file: str,
        warehouse: str = WAREHOUSE,
        poke_interval: timedelta | float = 30.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:
        """Return whether files have come."""
        from hipslake.errors import HipslakeError
        from hipslake.steps.report import failure_of

        try:
            return files_have_come(self._spec(), self.warehouse)
        except HipslakeError as error:
            failure = failure_of(error)
            raise failure_to_raise(failure) from (None if failure.is_expected else error)

    def execute(self, context: Context) -> Any:
        """Look once; if nothing is new, leave the looking to the triggerer."""
        with told_at_the_end(self.task_id, context):
            use_storage_connection()
            params = context["params"]
            if params.get("force") or self.poke(context):
                return
            wait = timedelta(minutes=wait_of(params))
            if not self.deferrable or not wait:
                self._settle(wait)
            self.log.info("No file has come since the last run; waiting up to %s.", wait)
            self.defer(
                trigger=StreamFilesTrigger(
                    spec=self._spec(),
                    warehouse=self.warehouse,
                    deadline=(datetime.now(UTC) + wait).isoformat(),
                    poke_interval=self.poke_interval,
                ),
                method_name="execute_complete",
                timeout=wait + GRACE,
            )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Take what the trigger found.

        Raises
        ------
        AirflowSkipException
            If nothing came in time.
        AirflowException
            If files cannot be listed; retried if that may pass.
        """
        with told_at_the_end(self.task_id, context):
            if "failure" in event:
                from hipslake.steps.report import Failure

                raise failure_to_raise(Failure.model_validate(event["failure"]))
            if not event["changed"]:
                self._settle(None)
        self.log.info("Files have come.")

    def _spec(self) -> dict[str, Any]:
        from hipslake.specs.spec_folder import load_spec
        from hipslake.specs.table_spec import TableSpec

        spec: dict[str, Any] = load_spec(self.spec_file, TableSpec).model_dump(mode="json")
        return spec

    def _settle(self, wait: timedelta | None) -> None:
        waited = "" if not wait else f" within {wait}"
        raise AirflowSkipException(f"No file has come since the last run{waited}.")
