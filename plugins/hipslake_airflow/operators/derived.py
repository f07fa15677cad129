"""What is made of a version's rows: margins, indices, and what other readers open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hipslake.specs.margin_spec import MarginSpec
    from hipslake.steps.index.request import BuildIndexReport, BuildIndexRequest
    from hipslake.steps.margin.request import MarginReport, MarginRequest
    from hipslake.steps.report import Report
    from hipslake.steps.upkeep.hats_view import HatsViewReport

INDEX_IN_SPARK = 128 << 20  # a night of fewer bytes is indexed before Spark has started


class BuildMarginOperator(SparkStepOperator):
    """Make the margins that the spec asks for of what a run wrote; or add some to the newest version.

    The latter reads the param `arcsec`, commits a version, and is skipped if there is nothing to add. The
    rows stay what they are, so no asset event is emitted. Small catalogs are done in the task's own process.

    Parameters
    ----------
    published : bool
        Whether margins are added to the newest version.
    spark_above_bytes : int
        From this many bytes of leaf files on, Spark does it.
    """

    job = "build_margin"
    module = "hipslake.steps.margin.run"
    _arcsec: tuple[float, ...] = ()

    def __init__(self, *, published: bool = False, spark_above_bytes: int = 1 << 30, **kwargs: Any) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.published = published

    def request(self) -> MarginRequest:
        from hipslake.steps.margin.request import MarginRequest

        return MarginRequest(run_uri=self.run_uri, arcsec=self._arcsec)

    def report_type(self) -> type[MarginReport]:
        from hipslake.steps.margin.request import MarginReport

        return MarginReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.margin.request import bytes_to_read

        return bytes_to_read(self.request())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        if self.published:
            self._arcsec = tuple(float(each) for each in context["params"]["arcsec"])
        summary = super().execute(context)
        if self.published and summary["version"] is None:
            raise AirflowSkipException("The newest version has these margins already.")
        return summary


class BuildIndexOperator(SparkStepOperator):
    """Build the spec's indices of what the run wrote, or of the newest version, which is then committed anew.

    Parameters
    ----------
    published : bool
        Index the newest version. The rows stay what they are, so no asset event is emitted.
    """

    job = "build_index"

    def __init__(self, *, published: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.published = published

    def request(self) -> BuildIndexRequest:
        from hipslake.steps.index.request import BuildIndexRequest

        return BuildIndexRequest(run_uri=self.run_uri, published=self.published)

    def report_type(self) -> type[BuildIndexReport]:
        from hipslake.steps.index.request import BuildIndexReport

        return BuildIndexReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.index.request import bytes_to_index

        return bytes_to_index(self.request())

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.steps.index import run as index_run
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: index_run.run(asked, engine), self.request(), self.report_type())


def derived_from(
    run_uri: Any, *, margin: MarginSpec, index: Sequence[str]
) -> list[BuildMarginOperator | BuildIndexOperator]:
    """Return the tasks that make, side by side, what a spec wants of the leaves that a run wrote.

    Parameters
    ----------
    run_uri : str or XComArg
    margin : MarginSpec
    index : sequence of str
    """
    found: list[BuildMarginOperator | BuildIndexOperator] = []
    if margin.arcsec:
        found.append(BuildMarginOperator(task_id="margin", run_uri=run_uri))
    if index:
        found.append(BuildIndexOperator(task_id="index", run_uri=run_uri, spark_above_bytes=INDEX_IN_SPARK))
    return found


class BuildHatsViewOperator(StepOperator):
    """Let other readers open the newest version; also mends pointers that a killed run left behind."""

    def perform(self, context: Context) -> HatsViewReport:
        from hipslake.steps.report import perform
        from hipslake.steps.upkeep import hats_view

        request = hats_view.HatsViewRequest(run_uri=self.run_uri)
        return perform(hats_view.run, request, hats_view.HatsViewReport)
