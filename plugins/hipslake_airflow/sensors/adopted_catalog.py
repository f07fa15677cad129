"""Wait until a catalog of others is not what was adopted of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.adopted_catalogs import has_changed
from hipslake_airflow.dags_test import told_at_the_end
from hipslake_airflow.failures import failure_to_raise
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.run_folder import WAREHOUSE
from hipslake_airflow.sensors.source_files import GRACE
from hipslake_airflow.triggers.adopted_catalog import AdoptedCatalogTrigger


class AdoptedCatalogSensor(BaseSensorOperator):
    """Wait, without holding a worker slot, until a run of a spec that adopts would make a version.

    Properties of the catalog and the list of its leaves are looked at, and the fingerprint of what was
    adopted last. Nothing is waited for where the param `force` asks for a version anyway. How long is waited
    is the spec's `wait_minutes`, or the param of that name; when it is over, the task is skipped.

    Parameters
    ----------
    spec_file : str
        The spec.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    poke_interval : float or timedelta
        Time between two looks, in seconds.
    deferrable : bool
        Wait in the triggerer; False: look once, and skip where nothing has changed.
    """

    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        spec_file: str,
        warehouse: str = WAREHOUSE,
        poke_interval: timedelta | float = 300.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.spec_file = spec_file
        self.warehouse = warehouse
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:
        """Return whether a run would make a version."""
        from hipslake.errors import HipslakeError
        from hipslake.steps.report import failure_of

        try:
            return has_changed(self._spec(), self.warehouse)
        except HipslakeError as error:
            failure = failure_of(error)
            raise failure_to_raise(failure) from (None if failure.is_expected else error)

    def execute(self, context: Context) -> Any:
        """Look once; if nothing has changed, leave the looking to the triggerer."""
        with told_at_the_end(self.task_id, context):
            use_storage_connection()
            params = context["params"]
            if params.get("force") or self.poke(context):
                return
            minutes = params.get("wait_minutes")
            wait = timedelta(minutes=float(self._spec()["wait_minutes"] if minutes is None else minutes))
            if not self.deferrable or not wait:
                self._settle(wait)
            self.log.info("Nothing has changed yet; waiting up to %s.", wait)
            self.defer(
                trigger=AdoptedCatalogTrigger(
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
            If nothing changed in time.
        AirflowException
            If it cannot be told; retried if that may pass.
        """
        with told_at_the_end(self.task_id, context):
            if "failure" in event:
                from hipslake.steps.report import Failure

                raise failure_to_raise(Failure.model_validate(event["failure"]))
            if not event["changed"]:
                self._settle(None)
        self.log.info("The catalog of others, or the spec, has changed.")

    def _spec(self) -> dict[str, Any]:
        from hipslake.specs.adopt_spec import AdoptSpec
        from hipslake.specs.spec_folder import load_spec

        spec: dict[str, Any] = load_spec(self.spec_file, AdoptSpec).model_dump(mode="json")
        return spec

    def _settle(self, wait: timedelta | None) -> None:
        waited = "" if not wait else f" within {wait}"
        raise AirflowSkipException(
            f"The catalog of others and the spec are what the newest version was made of, and nothing changed"
            f"{waited}. Set force to build a new version all the same."
        )
