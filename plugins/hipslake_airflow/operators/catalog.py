"""The steps that make a catalog, one operator each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from hipslake_airflow.operators.publishing import PublishingOperator
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import FirstStepOperator, StepOperator

if TYPE_CHECKING:
    from hipslake.steps.append import AppendReport, AppendRequest
    from hipslake.steps.compact import CompactReport, CompactRequest
    from hipslake.steps.hats_view import HatsViewReport
    from hipslake.steps.histogram import HistogramReport, HistogramRequest
    from hipslake.steps.index import BuildIndexReport, BuildIndexRequest
    from hipslake.steps.inputs import InputsReport
    from hipslake.steps.margin import MarginReport, MarginRequest
    from hipslake.steps.plan import PlanReport
    from hipslake.steps.publish import PublishReport
    from hipslake.steps.report import Report
    from hipslake.steps.resolve import ResolveReport
    from hipslake.steps.run import Window
    from hipslake.steps.verify import VerifyReport, VerifyRequest
    from hipslake.steps.write import WriteReport, WriteRequest


class ResolveRunOperator(FirstStepOperator):
    """Freeze the spec, the params, the window and the write id of a run into its `run.json`.

    Pushes `run_uri`, which every later step takes. Reads these params, all optional: `threshold`, `layout`,
    `force`, `wait_minutes`, `window_start`, `window_end`.

    Parameters
    ----------
    spec_file : str
        Path of the catalog spec. Not templated.
    """

    def __init__(self, *, spec_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec_file = spec_file

    def perform(self, context: Context) -> ResolveReport:
        from hipslake.steps import resolve
        from hipslake.steps.report import perform

        params: Mapping[str, Any] = context["params"]
        run = context["dag_run"]
        warehouse, run_uri = self.place(context)
        request = resolve.ResolveRequest(
            run_uri=run_uri,
            dag_id=run.dag_id,
            run_id=run.run_id,
            warehouse=warehouse,
            spec_file=self.spec_file,
            threshold=params.get("threshold") or None,
            layout=params.get("layout") or None,
            force=bool(params.get("force", False)),
            wait_minutes=float(params.get("wait_minutes", 60)),
            window=window_of(context),
        )
        report = perform(resolve.run, request, resolve.ResolveReport)
        context["ti"].xcom_push(key="run_uri", value=run_uri)
        self.log.info("Run folder: %s", run_uri)
        for folder in report.swept:
            self.log.info("Removed %s, left behind by a run that died.", folder)
        return report


def window_of(context: Context) -> Window:
    """Return the time that a run stands for, from whatever its context says about it.

    Airflow gives a run that was triggered by hand the last interval that had ended, though nobody asked for
    it; so there, a window in the form goes before it.

    Raises
    ------
    SpecError
        If the run was triggered for a logical date, but got an interval that begins after it: as
        `airflow dags trigger --logical-date` does, which looks at the clock.
    """
    from hipslake.errors import SpecError
    from hipslake.steps.resolve import resolve_window

    run = context["dag_run"]
    params: Mapping[str, Any] = context["params"]
    given = (params.get("window_start"), params.get("window_end"))
    start, end, asked = run.data_interval_start, run.data_interval_end, run.logical_date
    if run.run_type == "manual" and given[0]:
        start = end = None
    elif run.run_type == "manual" and start is not None and asked is not None and asked < start:
        if start != end:
            raise SpecError(
                f"the run was triggered for {asked.isoformat()}, but Airflow gave it the interval from "
                f"{start.isoformat()} on; give window_start and window_end in the form or in --conf"
            )
        start = end = asked  # without a schedule it gives the present moment
    return resolve_window(
        partition_key=getattr(run, "partition_key", None), interval=(start, end), given=given
    )


class FreezeInputsOperator(StepOperator):
    """List the source files, and skip the run if nothing changed since the newest version."""

    def perform(self, context: Context) -> InputsReport:
        from hipslake.steps import inputs
        from hipslake.steps.report import perform

        request = inputs.InputsRequest(run_uri=self.run_uri)
        return perform(inputs.run, request, inputs.InputsReport)

    def execute(self, context: Context) -> dict[str, Any]:
        summary = super().execute(context)
        if summary["empty"]:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException("The interval has no files, and the spec says on_empty: skip.")
        version = summary["unchanged_version"]
        if version is not None:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowSkipException(
                f"Version {version} was made of exactly these files, with this spec and library version; "
                "there is nothing to do. Set force to build a new version all the same."
            )
        return summary


class HistogramCatalogOperator(SparkStepOperator):
    """Count rows and bytes per pixel; in Spark, unless there are few."""

    job = "histogram_catalog"
    module = "hipslake.spark.histogram"

    def request(self) -> HistogramRequest:
        from hipslake.steps.histogram import HistogramRequest

        return HistogramRequest(run_uri=self.run_uri)

    def report_type(self) -> type[HistogramReport]:
        from hipslake.steps.histogram import HistogramReport

        return HistogramReport


class PlanPixelsOperator(StepOperator):
    """Split the sky into leaves, for every column group on its own threshold."""

    def perform(self, context: Context) -> PlanReport:
        from hipslake.steps import plan
        from hipslake.steps.report import perform

        report = perform(plan.run, plan.PlanRequest(run_uri=self.run_uri), plan.PlanReport)
        self.log.info("The plan:\n%s", report.text)
        return report


class WritePartitionsOperator(SparkStepOperator):
    """Route every row to its leaf files and write them, in Spark."""

    job = "write_partitions"
    module = "hipslake.spark.partitions"

    def request(self) -> WriteRequest:
        from hipslake.steps.write import WriteRequest

        return WriteRequest(run_uri=self.run_uri)

    def report_type(self) -> type[WriteReport]:
        from hipslake.steps.write import WriteReport

        return WriteReport


class VerifyCatalogOperator(SparkStepOperator):
    """Read back everything that a run wrote, or a published version, and check it.

    Small catalogs are verified in the task's own process, which is quicker than starting Spark.

    Parameters
    ----------
    catalog_uri : str, optional
        Root of a published catalog; None: verify what the run wrote and is about to publish.
    version : int, optional
        The published version; None: the newest.
    spark_above_bytes : int
        From this many bytes on, Spark does it.
    """

    job = "verify_catalog"
    module = "hipslake.spark.verify"

    def __init__(
        self,
        *,
        catalog_uri: str | None = None,
        version: int | None = None,
        spark_above_bytes: int = 4 << 30,
        **kwargs: Any,
    ) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.catalog_uri = catalog_uri
        self.version = version

    def request(self) -> VerifyRequest:
        from hipslake.steps.verify import VerifyRequest

        return VerifyRequest(run_uri=self.run_uri, catalog_uri=self.catalog_uri, version=self.version)

    def report_type(self) -> type[VerifyReport]:
        from hipslake.steps.verify import VerifyReport

        return VerifyReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.verify import bytes_to_read

        return bytes_to_read(self.request())

    def without_spark(self) -> Report:
        from hipslake.steps import verify
        from hipslake.steps.report import perform

        return perform(verify.run, self.request(), verify.VerifyReport)


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
    module = "hipslake.spark.margin"
    _arcsec: tuple[float, ...] = ()

    def __init__(self, *, published: bool = False, spark_above_bytes: int = 1 << 30, **kwargs: Any) -> None:
        super().__init__(spark_above_bytes=spark_above_bytes, **kwargs)
        self.published = published

    def request(self) -> MarginRequest:
        from hipslake.steps.margin import MarginRequest

        return MarginRequest(run_uri=self.run_uri, arcsec=self._arcsec)

    def report_type(self) -> type[MarginReport]:
        from hipslake.steps.margin import MarginReport

        return MarginReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.margin import bytes_to_read

        return bytes_to_read(self.request())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        if self.published:
            self._arcsec = tuple(float(each) for each in context["params"]["arcsec"])
        summary = super().execute(context)
        if self.published and summary["version"] is None:
            raise AirflowSkipException("The newest version has these margins already.")
        return summary


class AppendIncrementOperator(PublishingOperator, SparkStepOperator):
    """Merge the rows of a run into the newest version, commit the next one, and emit its asset event."""

    job = "append_increment"
    module = "hipslake.spark.increments"

    def request(self) -> AppendRequest:
        from hipslake.steps.append import AppendRequest

        return AppendRequest(run_uri=self.run_uri)

    def report_type(self) -> type[AppendReport]:
        from hipslake.steps.append import AppendReport

        return AppendReport

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException("No row has come, and nothing is published yet.")
        rows, version = summary["total_rows"], summary["version"]
        self.announce(context, rows=rows, version=version, uri=summary["catalog_uri"])
        return summary


class PublishCatalogOperator(PublishingOperator, StepOperator):
    """Commit what the run wrote as the catalog's next version, and emit its asset event."""

    def perform(self, context: Context) -> PublishReport:
        from hipslake.steps import publish
        from hipslake.steps.report import perform

        report = perform(publish.run, publish.PublishRequest(run_uri=self.run_uri), publish.PublishReport)
        self.announce(context, rows=report.rows_out, version=report.version, uri=report.catalog_uri)
        self.log.info("Published version %s of %s", report.version, report.catalog_uri)
        return report


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
        from hipslake.steps.index import BuildIndexRequest

        return BuildIndexRequest(run_uri=self.run_uri, published=self.published)

    def report_type(self) -> type[BuildIndexReport]:
        from hipslake.steps.index import BuildIndexReport

        return BuildIndexReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.index import bytes_to_index

        return bytes_to_index(self.request())

    def without_spark(self) -> Report:
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark import index
        from hipslake.steps.report import perform

        engine = ThisProcess()
        return perform(lambda asked: index.run(asked, engine), self.request(), self.report_type())


class CompactCatalogOperator(SparkStepOperator):
    """Give leaves that have gathered many files one sorted file each; reads the param `min_files`.

    Skips the task if there are none. The rows stay what they are, so no asset event is emitted.
    """

    job = "compact_catalog"
    module = "hipslake.spark.compaction"
    _min_files = 2

    def request(self) -> CompactRequest:
        from hipslake.steps.compact import CompactRequest

        return CompactRequest(run_uri=self.run_uri, min_files=self._min_files)

    def report_type(self) -> type[CompactReport]:
        from hipslake.steps.compact import CompactReport

        return CompactReport

    def bytes_to_handle(self) -> int:
        from hipslake.steps.compact import bytes_to_compact

        return bytes_to_compact(self.request())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        self._min_files = int(context["params"].get("min_files", 2))
        summary = super().execute(context)
        if summary["version"] is None:
            raise AirflowSkipException(f"No leaf has {self._min_files} files.")
        return summary


class BuildHatsViewOperator(StepOperator):
    """Let HATS readers open the newest version; also mends pointers that a killed publish left behind."""

    def perform(self, context: Context) -> HatsViewReport:
        from hipslake.steps import hats_view
        from hipslake.steps.report import perform

        request = hats_view.HatsViewRequest(run_uri=self.run_uri)
        return perform(hats_view.run, request, hats_view.HatsViewReport)
