"""Wait until something has changed since the last run of a spec."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NoReturn

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.dags_test import told_at_the_end
from hipslake_airflow.failures import failure_to_raise
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.run_folder import WAREHOUSE
from hipslake_airflow.sensors.source_files import GRACE
from hipslake_airflow.triggers.change import ChangeTrigger


class ChangeSensor(BaseSensorOperator):
    """Wait, without holding a worker slot, until something has changed since the last run of a spec.

    It looks once, and leaves further looks to the triggerer; when the time is over, the task is skipped.
    Nothing is waited for where the param `force` is set.

    Parameters
    ----------
    spec_file : str
        The spec.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    poke_interval : float or timedelta, optional
        Time between two looks, in seconds.
    deferrable : bool
        Wait in the triggerer; False: look once, and skip where nothing is new.
    """

    ui_color = "#e6f1f2"
    look_seconds: ClassVar[float] = 30.0
    """Between two looks, if not given."""
    trigger: ClassVar[type[ChangeTrigger]]
    """What looks in the triggerer."""
    come: ClassVar[str]
    """What is logged when it has changed."""

    def __init__(
        self,
        *,
        spec_file: str,
        warehouse: str = WAREHOUSE,
        poke_interval: timedelta | float | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            poke_interval=self.look_seconds if poke_interval is None else poke_interval, **kwargs
        )
        self.spec_file = spec_file
        self.warehouse = warehouse
        self.deferrable = deferrable

    @abstractmethod
    def load_spec(self) -> dict[str, Any]:
        """Return the spec as JSON."""

    @abstractmethod
    def changed(self, spec: dict[str, Any]) -> bool:
        """Return whether something has changed."""

    @abstractmethod
    def wait(self, params: Any) -> timedelta:
        """Return how long a run waits, by its params."""

    @abstractmethod
    def unchanged(self, waited: str) -> str:
        """Return why the task is skipped; `waited` is " within " and the time, or nothing."""

    def poke(self, context: Context) -> bool:
        """Return whether something has changed."""
        from hipslake.errors import HipslakeError
        from hipslake.steps.report import failure_of

        try:
            return self.changed(self.load_spec())
        except HipslakeError as error:
            failure = failure_of(error)
            raise failure_to_raise(failure) from (None if failure.is_expected else error)

    def execute(self, context: Context) -> Any:
        """Look once; if nothing has changed, leave the looking to the triggerer.

        Raises
        ------
        AirflowSkipException
            If nothing has changed, and it is not waited.
        AirflowException
            If it cannot be told; retried if that may pass.
        """
        with told_at_the_end(self.task_id, context):
            use_storage_connection()
            params = context["params"]
            if params.get("force") or self.poke(context):
                return
            wait = self.wait(params)
            if not self.deferrable or not wait:
                self._skip(wait)
            self.log.info("Nothing has changed yet; waiting up to %s.", wait)
            self.defer(
                trigger=self.trigger(
                    spec=self.load_spec(),
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
                self._skip(None)
        self.log.info(self.come)

    def _skip(self, wait: timedelta | None) -> NoReturn:
        raise AirflowSkipException(self.unchanged("" if not wait else f" within {wait}"))
