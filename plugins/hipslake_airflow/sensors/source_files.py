"""Wait until the source of a catalog, or of a table, has files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from hipslake_airflow.dags_test import told_at_the_end
from hipslake_airflow.failures import failure_to_raise
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.operators.run_folder import WAREHOUSE, InRunFolder
from hipslake_airflow.source_files import count_files, looked_for
from hipslake_airflow.triggers.source_files import SourceFilesTrigger

GRACE = timedelta(minutes=2)  # past the trigger's own deadline, for a triggerer that is slow or was restarted


class SourceFilesSensor(InRunFolder, BaseSensorOperator):
    """Wait, without holding a worker slot, until at least one file matches the source of a run.

    How long it waits is the run's `wait_minutes`, unless `timeout` is given.

    Parameters
    ----------
    run_uri : str
        The run folder; usually `pushed_run_uri()`. Templated, and no other than the run's own.
    warehouse : str
        Root of the warehouse; `${HIPSLAKE_WAREHOUSE}` is expanded on the worker. Not templated.
    poke_interval : float or timedelta
        Time between two looks, in seconds.
    timeout : float or timedelta, optional
        Seconds to wait at most.
    deferrable : bool
        Wait in the triggerer; False: hold a worker slot.
    """

    template_fields: Sequence[str] = ("run_uri",)
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        run_uri: Any = "",
        warehouse: str = WAREHOUSE,
        poke_interval: timedelta | float = 30.0,
        timeout: timedelta | float | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.run_uri = run_uri
        self.warehouse = warehouse
        self.deferrable = deferrable
        self._waits_as_the_run_says = timeout is None

    def poke(self, context: Context) -> bool:
        """Return whether files are there."""
        return bool(self._count(self._source()))

    def execute(self, context: Context) -> Any:
        """Look once; if nothing is there, leave the looking to the triggerer."""
        with told_at_the_end(self.task_id, context):
            return self._look(context)

    def _look(self, context: Context) -> Any:
        use_storage_connection()
        if self._waits_as_the_run_says:
            self.timeout = self._run().wait_minutes * 60
        source = self._source()
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                self._settle(source)
                return None
        if self._count(source):
            return None
        wait = timedelta(seconds=self.timeout)
        self.log.info("No file matches %s yet; waiting up to %s.", looked_for(source), wait)
        self.defer(
            trigger=SourceFilesTrigger(
                source=source,
                deadline=(datetime.now(UTC) + wait).isoformat(),
                poke_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=wait + GRACE,
        )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Take what the trigger found.

        Raises
        ------
        AirflowSensorTimeout
            If no file came; says what was looked for.
        AirflowException
            If the source could not be listed; retried if that may pass.
        """
        with told_at_the_end(self.task_id, context):
            if "failure" in event:
                from hipslake.steps.report import Failure

                raise failure_to_raise(Failure.model_validate(event["failure"]))
            if not event["files"]:
                use_storage_connection()
                self._settle(self._source())
                return
        self.log.info("Found %d files.", event["files"])

    def _run(self) -> Any:
        from hipslake.steps.frozen_run import FrozenRun
        from hipslake.steps.run import RunFolder

        return FrozenRun.of(RunFolder(self.run_uri))

    def _source(self) -> dict[str, Any]:
        source: dict[str, Any] = self._run().source.model_dump(mode="json")
        return source

    def _count(self, source: dict[str, Any]) -> int:
        from hipslake.errors import HipslakeError
        from hipslake.steps.report import failure_of

        try:
            files = count_files(source)
        except HipslakeError as error:
            failure = failure_of(error)
            raise failure_to_raise(failure) from (None if failure.is_expected else error)
        if files:
            self.log.info("Found %d files for %s.", files, looked_for(source))
        return files

    def _settle(self, source: dict[str, Any]) -> None:
        """Do what is to be done when no file came in time: raise, if the run cannot go on."""
        spec = self._run().spec
        if spec.mode.by_intervals and spec.on_empty == "skip":
            raise AirflowSkipException(f"{self._missing(source)}. The spec says on_empty: skip.")
        raise AirflowSensorTimeout(self._missing(source))

    def _missing(self, source: dict[str, Any]) -> str:
        waited = timedelta(
            seconds=self._run().wait_minutes * 60 if self._waits_as_the_run_says else self.timeout
        )
        return (
            f"No file matched {looked_for(source)} within {waited}. Put the files there, or mend source.uri "
            f"in {self._run().spec_file}, and clear this task"
        )


class SinkFilesSensor(SourceFilesSensor):
    """Wait for the files that a run sinks into a table, as `SourceFilesSensor` does.

    Where the run says that its interval may be empty, it goes on when the time is over.
    """

    def _run(self) -> Any:
        from hipslake.steps.sink.request import SinkRequest

        return SinkRequest(run_uri=self.run_uri).frozen()

    def _settle(self, source: dict[str, Any]) -> None:
        if not self._run().allow_empty:
            raise AirflowSensorTimeout(self._missing(source))
        self.log.info("No file came for %s: the interval is empty.", looked_for(source))
