"""The steps of a run, performed one after the other by the program that asks for them, without Airflow."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from hipslake.errors import SpecError, StepError
from hipslake.specs.environment import expand
from hipslake.steps.registry import STEPS, Step
from hipslake.steps.report import CatalogReport, Report, Request, perform
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.run_storage import RunStorage, own_run
from hipslake.storage.available_memory import available_memory
from hipslake.storage.folder import Storage

_SHARE_OF_MEMORY = 0.25  # of what is left, that rows may take: tasks need some, too, and other programs
_WAITS = "append"  # waits for what is being stored right before its commit

Told = Callable[[str, Report | None], None]
"""Is told the name of a step when it begins, and again with its report when it has ended."""


class StepRunner:
    """Performs the steps of one run, as the tasks of its DAG do: with the same requests, in such a folder.

    A step that has a Spark job is done in Spark from some size on, and else in this process: see
    `hipslake.steps.registry`. The spec of an ingest may say the size, or the deployment. Where neither does,
    and Spark would run on the cores of this machine alone, an ingest or a join of whatever size is done in
    this process if it never holds more rows at once than a quarter of the memory that is left.

    Parameters
    ----------
    warehouse : str or Path, optional
        Root of the warehouse; relative to the working directory. By default `${HIPSLAKE_WAREHOUSE}`.
    pipeline, name : str
        Of the DAG that makes the same: `catalog_ingest`, and the name of the spec.
    spark : pyspark.sql.SparkSession or bool, optional
        A session that all steps which can take it run in; False: none runs in Spark. By default those that
        the registry of steps, the spec and the deployment say, in a session that ends with the run.
    told : callable, optional
        Is told what is being done.

    Attributes
    ----------
    warehouse, name, dag_id, run_id : str
    folder : RunFolder
    """

    def __init__(
        self,
        warehouse: str | os.PathLike[str] | None,
        pipeline: str,
        name: str,
        *,
        spark: Any = None,
        told: Told | None = None,
    ) -> None:
        self.warehouse = warehouse_uri(warehouse)
        self.name = name
        self.dag_id = f"{pipeline}__{name}"
        self.run_id = f"program__{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self.folder = RunFolder(run_uri(self.warehouse, self.dag_id, self.run_id))
        self._spark = spark
        self._told = told or (lambda step, report: None)
        self._held = ExitStack()
        self._kept: RunStorage | None = None
        self._engine: Any = None

    def __enter__(self) -> Self:
        self._kept = self._held.enter_context(own_run(self.folder.uri))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def resolve(self, step: str, **fields: Any) -> Any:
        """Perform the first step of the run; the fields that say which run it is are filled in."""
        own = {"dag_id": self.dag_id, "run_id": self.run_id, "warehouse": self.warehouse}
        return self.perform(step, **own, **fields)

    def perform(self, name: str, **fields: Any) -> Any:
        """Perform a step, and return its report.

        Parameters
        ----------
        name : str
            In `hipslake.steps.registry`.
        **fields
            Of its request, but for the folder of the run.

        Raises
        ------
        HipslakeError
            What the step has raised; its report says so, too.
        """
        step = STEPS[name]
        request = step.request_model.model_validate({"run_uri": self.folder.uri, **fields})
        self._told(request.step, None)
        if self._kept is not None and issubclass(step.report_model, CatalogReport) and name != _WAITS:
            self._kept.settle()  # no version stands before what it follows from is stored
        in_spark = bool(step.job) and self._wants_spark(step, request)
        if self._kept is not None and (in_spark or not self._kept.is_own):
            self._kept.forget()  # tasks of Spark write into the folder, too
        if in_spark:
            engine, function = self._in_session(step), step.function()
            report = perform(lambda asked: function(asked, engine), request, step.report_model)
        else:
            report = step.perform(request)
        self._told(request.step, report)
        return report

    def _wants_spark(self, step: Step, request: Request) -> bool:
        if self._spark is not None:
            return self._spark is not False
        if step.held and step.said_size(request) is None and not _has_a_cluster():
            free, held = available_memory(), step.bytes_to_hold(request)
            if free is not None and held is not None and held <= _SHARE_OF_MEMORY * free:
                return False  # on the same cores Spark would only have to be started
        limit = step.size_for_spark(request)
        return not limit or step.bytes_to_handle(request) >= limit

    def _in_session(self, step: Step) -> Any:
        """The engine of the session that was given, or of one that is opened now."""
        if self._engine is None:
            if not is_installed("pyspark"):
                raise StepError(
                    f"{step.name}: the run is so large that Spark is to do it, and pyspark is not installed; "
                    "install it (pip install 'hipslake[spark]'), or pass spark=False to do it in this "
                    "process, with all rows in memory"
                )
            from hipslake.spark.engine import SparkEngine
            from hipslake.spark.session import session_of_program

            session = self._spark
            if session is None or session is True:
                session = self._held.enter_context(session_of_program(f"hipslake {self.dag_id}"))
            self._engine = SparkEngine(session)
        return self._engine


def _has_a_cluster() -> bool:
    """Whether Spark of this program may have more than the cores of this machine, or runs already."""
    if not os.environ.get("HIPSLAKE_SPARK_MASTER", "local").startswith("local"):
        return True
    if os.environ.keys() & {"SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT"}:  # the program was submitted
        return True
    return _has_a_session()


def _has_a_session() -> bool:
    loaded = sys.modules.get("pyspark.sql")
    return loaded is not None and loaded.SparkSession.getActiveSession() is not None


def is_installed(package: str) -> bool:
    """Return whether a package could be imported; it is not."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def warehouse_uri(given: str | os.PathLike[str] | None) -> str:
    """Return the root of a warehouse; None is what `${HIPSLAKE_WAREHOUSE}` says.

    Raises
    ------
    SpecError
        If it is an empty text.
    """
    if given is None:
        return expand("${HIPSLAKE_WAREHOUSE}")
    text = os.fspath(given)
    if not text:
        raise SpecError("warehouse: is empty; give the folder or URI that holds the catalogs")
    return Storage.at(expand(text) if "${" in text else text).uri()
